import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer.errors import InputError
from planformer.signals import read, write_sigmf
from planformer.signals.sigmf_files import Datatype
from reference.signal_files import complex_noise, noise

NUMBERS = ["f32", "f64", "i8", "i16", "i32", "u8", "u16", "u32"]
DATATYPES = [
    f"{domain}{number}{order}"
    for domain in "cr"
    for number in NUMBERS
    for order in ([""] if number.endswith("8") else ["_le", "_be"])
]


def step(datatype):
    """The distance between neighbouring values of a datatype, at full scale 1."""
    kind = Datatype.parse(datatype, "test")
    return 1e-6 if kind.dtype.kind == "f" else max(1 / kind.full_scale, 1e-6)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("datatype", DATATYPES)
def test_round_trip_of_every_datatype(datatype, channels, tmp_path):
    shape = (channels, 500)
    x = (
        complex_noise(500 * channels).reshape(shape) * 0.2
        if datatype[0] == "c"
        else noise(500 * channels).reshape(shape) * 0.2
    )
    meta = write_sigmf(tmp_path / "a", x, 2e6, datatype)
    signal = read(meta)
    measured = signal.samples if datatype[0] == "c" else signal.samples.real
    assert signal.samples.shape == shape
    assert signal.is_analytic == (datatype[0] == "r")
    assert np.abs(measured - x).max() <= step(datatype)
    assert (signal.rate, signal.kind, signal.provenance["datatype"]) == (2e6, "iq", datatype)


@given(
    values=st.lists(st.integers(0, 65535), min_size=4, max_size=40),
    datatype=st.sampled_from([d for d in DATATYPES if "16" in d or "8" in d]),
)
@settings(max_examples=100, deadline=None)
def test_stored_integers_survive_decoding_and_encoding(values, datatype):
    kind = Datatype.parse(datatype, "test")
    raw = np.array(values[: len(values) // 2 * 2]).astype(np.uint16).astype(kind.dtype)
    assert np.array_equal(kind.encode(kind.decode(raw, 1)), raw)


@pytest.mark.parametrize("datatype", ["cf32_le", "ci16_le", "ci16_be", "ci8", "cu8", "cu16_le", "rf32_le", "ri16_le"])
def test_the_reference_implementation_reads_the_same(datatype, tmp_path):
    sigmf = pytest.importorskip("sigmf")
    x = 0.3 * complex_noise(200) if datatype[0] == "c" else 0.3 * noise(200)
    meta = write_sigmf(tmp_path / "a", x, 1e6, datatype, {"core:author": "test"})
    recording = sigmf.sigmffile.fromfile(str(meta))
    recording.validate()
    theirs = recording.read_samples().ravel()  # scaled by default
    ours = read(meta).samples[0]
    assert np.allclose(ours if datatype[0] == "c" else ours.real, theirs, atol=1e-6)


def test_loud_samples_are_scaled_for_integers_and_come_back(tmp_path):
    x = 40 * complex_noise(300)
    meta = write_sigmf(tmp_path / "a", x, 1e6, "ci16_le")
    assert json.loads(meta.read_text())["global"]["planformer:scale"] < 1
    assert np.abs(read(meta).samples[0] - x).max() < 40 * 5 / 32768


def test_metadata_is_kept(tmp_path):
    metadata = {
        "core:author": "A. N. Engineer",
        "captures": [{"core:sample_start": 0, "core:frequency": 2.4e9}],
        "annotations": [{"core:sample_start": 10, "core:sample_count": 5, "core:label": "burst"}],
    }
    provenance = read(write_sigmf(tmp_path / "a", complex_noise(100), 1e6, metadata=metadata)).provenance
    assert provenance["annotations"] == metadata["annotations"]
    assert provenance["captures"] == metadata["captures"]
    assert provenance["global"]["core:author"] == "A. N. Engineer"


@pytest.mark.parametrize("name", ["a", "a.sigmf-meta", "a.sigmf-data", "dotted.name"])
def test_either_file_or_the_stem_names_a_recording(name, tmp_path):
    meta = write_sigmf(tmp_path / name, complex_noise(50), 1e6)
    data = meta.with_name(meta.name.replace("-meta", "-data"))
    assert np.array_equal(read(meta).samples, read(data).samples)
    assert np.array_equal(read(meta).samples, read(str(meta).removesuffix(".sigmf-meta")).samples)


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    with pytest.raises(InputError):
        write_sigmf(tmp_path / "missing" / "a", complex_noise(10), 1e6)
    with pytest.raises(InputError):
        write_sigmf(tmp_path / "a", complex_noise(10), 0)
    with pytest.raises(InputError):
        write_sigmf(tmp_path / "a", np.zeros((2, 0)), 1e6)
    with pytest.raises(InputError, match="JSON"):
        write_sigmf(tmp_path / "a", complex_noise(10), 1e6, metadata={"core:author": object()})
    with pytest.raises(InputError, match="NaN"):
        write_sigmf(tmp_path / "a", [1j, np.nan], 1e6)
    assert list(tmp_path.iterdir()) == []
