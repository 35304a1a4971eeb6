"""The readers on real recordings, where they are at hand."""

import os
from pathlib import Path

import numpy as np
import pytest

from planformer.signals import iter_segments, prepare, read

DATA = Path(os.environ.get("PLANFORMER_DATA", Path(__file__).parents[3] / "shared" / "data"))
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not DATA.is_dir(), reason="set PLANFORMER_DATA to the data sets"),
]


def first(pattern):
    found = sorted(DATA.glob(pattern))
    if not found:
        pytest.skip(f"no {pattern} in {DATA}")
    return found[0]


def test_a_spoken_digit_is_speech_at_8_khz():
    signal = read(first("fsdd/recordings/*.wav"))
    spectrum = np.abs(np.fft.fft(signal.samples[0])) ** 2
    frequency = np.fft.fftfreq(signal.n, 1 / signal.rate)
    assert (signal.kind, signal.rate) == ("audio", 8000)
    assert spectrum[(frequency > 80) & (frequency < 3500)].sum() > 0.9 * spectrum.sum()


def test_a_note_has_its_pitch():
    """A4 of some instrument: the strongest line is a harmonic of 440 Hz."""
    signal = read(first("tinysol/*/*/ordinario/*-A4-*.wav"))
    spectrum = np.abs(np.fft.fft(signal.samples[0]))
    peak = np.fft.fftfreq(signal.n, 1 / signal.rate)[spectrum.argmax()]
    assert abs(peak / 440 - round(peak / 440)) < 0.05


def test_documents_fill_two_segments():
    path = first("text/*/*/*.txt")
    assert read(path).n == path.stat().st_size
    assert prepare(read(path)).shape == (1, 2, 5120)


def test_seismograms_from_an_archive():
    path = first("seismic/*.npz")
    with pytest.raises(Exception, match="neither"):
        read(path, key="x")  # many windows: one has to be chosen in Python
    window = np.load(path)["x"][0]
    assert window.shape == (3, 3000)


def test_every_sound_can_be_streamed():
    for path in sorted(DATA.glob("tinysol/*/*/ordinario/*.wav"))[::40]:
        assert np.array_equal(np.concatenate(list(iter_segments(path, batch=3)), axis=1), prepare(read(path)))
