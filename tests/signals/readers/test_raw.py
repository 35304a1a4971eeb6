import numpy as np
import pytest

from planformer.errors import InputError
from planformer.signals import read
from planformer.signals.sigmf_files import Datatype
from planformer.signals.sniff import RAW_SUFFIXES
from reference.signal_files import complex_noise

X = 0.2 * complex_noise(400)


@pytest.mark.parametrize("suffix", [s for s in RAW_SUFFIXES if s != ".iq"])
def test_every_suffix(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    kind = Datatype.parse(RAW_SUFFIXES[suffix], "test")
    kind.encode(X[None]).tofile(path)
    signal = read(path, rate=2e6)
    assert np.abs(signal.samples[0] - X).max() < 2 / min(kind.full_scale if kind.full_scale > 1 else 1e6, 1e6)
    assert (signal.kind, signal.rate) == ("iq", 2e6)


@pytest.mark.parametrize("datatype", ["cf32_le", "ci16_le"])
def test_the_datatype_of_iq_files_is_seen_from_the_values(datatype, tmp_path):
    path = tmp_path / "a.iq"
    Datatype.parse(datatype, "test").encode(X[None]).tofile(path)
    provenance = read(path, rate=1.0).provenance
    assert (provenance["datatype"], provenance["datatype_guessed"]) == (datatype, True)


def test_a_given_datatype_wins(tmp_path):
    path = tmp_path / "a.dat"
    Datatype.parse("ci16_be", "test").encode(X[None]).tofile(path)
    assert np.abs(read(path, rate=1.0, datatype="ci16_be").samples[0] - X).max() < 1e-4


def test_an_unknown_datatype_and_an_unknown_suffix(tmp_path):
    path = tmp_path / "a.dat"
    X.astype(np.complex64).tofile(path)
    with pytest.raises(InputError, match="unknown datatype"):
        read(path, rate=1.0, datatype="c3po")
    with pytest.raises(InputError, match="--datatype"):
        read(path, kind="iq", rate=1.0)
