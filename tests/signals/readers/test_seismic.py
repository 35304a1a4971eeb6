import numpy as np
import pytest

from planformer.errors import InputError
from planformer.signals import read
from reference.signal_files import write_seismogram


@pytest.mark.parametrize("version", [2, 3])
def test_three_components_are_three_channels(version, tmp_path):
    data = write_seismogram(tmp_path / "a.mseed", version=version)
    signal = read(tmp_path / "a.mseed")
    assert (signal.kind, signal.rate) == ("seismic", 100.0)
    assert np.array_equal(signal.samples.real, data)
    assert [s[-1] for s in signal.provenance["sourceids"]] == ["E", "N", "Z"]
    assert signal.provenance["gaps"] == []


def test_gaps_are_bridged_and_reported(tmp_path):
    data = write_seismogram(tmp_path / "a.mseed", gap=40)
    signal = read(tmp_path / "a.mseed")
    real = signal.samples.real
    assert signal.n == 1540
    assert np.array_equal(real[:, :1000], data[:, :1000])
    assert np.array_equal(real[:, 1040:], data[:, 1000:])
    line = np.linspace(data[0, 999], data[0, 1000], 42)[1:-1]
    assert np.allclose(real[0, 1000:1040], line, atol=1e-2)
    assert signal.provenance["gaps"][0] == {"sourceid": "FDSN:XX_STA__B_H_E", "at": 1000, "samples": 40}
    assert signal.provenance["samples_filled"] == 120


def test_a_component_can_be_chosen(tmp_path):
    data = write_seismogram(tmp_path / "a.mseed")
    assert np.array_equal(read(tmp_path / "a.mseed", key="H_Z").samples.real, data[2:])
    with pytest.raises(InputError, match="H_N"):
        read(tmp_path / "a.mseed", key="H_X")


def test_different_rates_need_a_choice(tmp_path):
    write_seismogram(tmp_path / "a", components="Z", rate=100)
    write_seismogram(tmp_path / "b", components="N", rate=40)
    (tmp_path / "c.mseed").write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
    with pytest.raises(InputError, match="different sample rates"):
        read(tmp_path / "c.mseed")
    assert read(tmp_path / "c.mseed", key="H_N").rate == 40


def test_gaps_longer_than_the_data_are_refused(tmp_path):
    write_seismogram(tmp_path / "a.mseed", gap=10_000_000)
    with pytest.raises(InputError, match="gaps"):
        read(tmp_path / "a.mseed")
