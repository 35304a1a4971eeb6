import numpy as np
import pytest

from planformer.signals.reading import open_source
from planformer.signals.summary import summarise
from reference.signal_files import make_file, write_sound


def test_the_numbers_of_a_known_sound(tmp_path):
    t = np.arange(80_000)
    wave = np.sin(2 * np.pi * t / 40) * np.where(t < 40_000, 0.5, 0.005)
    summary, start = summarise(open_source(write_sound(tmp_path / "a.wav", wave, subtype="FLOAT")), keep=1000)
    assert (summary.kind, summary.rate, summary.samples, summary.duration) == ("audio", 8000, 80_000, 10)
    assert summary.segments == 16
    assert summary.power == pytest.approx(0.5 * (0.5**2 + 0.005**2) / 2, rel=1e-3)
    assert summary.peak == pytest.approx(0.5, rel=1e-3)
    assert summary.dynamic_range_db == pytest.approx(40, abs=0.5)
    assert np.allclose(start.real[0], wave[:1000], atol=1e-6)


def test_silence_is_counted_and_left_out_of_the_range(tmp_path):
    wave = np.random.default_rng(0).normal(size=40_960) * 0.1
    wave[20_480:] = 0
    summary, _ = summarise(open_source(write_sound(tmp_path / "a.wav", wave)))
    assert summary.silent_percent == pytest.approx(50, abs=1)
    assert summary.dynamic_range_db < 3


def test_a_radio_signals_power_counts_both_parts(tmp_path):
    summary, _ = summarise(open_source(make_file("cf32", tmp_path), rate=1e6))
    assert summary.power == pytest.approx(2, rel=0.1)


def test_an_image_is_one_segment_and_a_video_one_a_frame(tmp_path):
    assert summarise(open_source(make_file("png", tmp_path)))[0].segments == 1
    summary, _ = summarise(open_source(make_file("mp4", tmp_path)))
    assert (summary.segments, summary.details["frames"]) == (6, 6)
