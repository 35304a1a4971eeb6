import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from planformer.errors import InputError
from planformer.signals import PreprocessConfig, iter_segments, prepare, read
from reference.signal_files import VALID, make_file, noise, sparse_sigmf, sparse_wav, write_sound

CONFIGS = {
    "default": PreprocessConfig(),
    "paper": PreprocessConfig.paper(),
    "signal": PreprocessConfig(normalise="signal", short="tile", pass_order="horizontal_first"),
}


def options(name):
    return {"rate": 1e6} if name == "cf32" else {}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", VALID)
def test_streamed_equals_offline_for_every_kind(name, config, tmp_path):
    path = make_file(name, tmp_path)
    whole = prepare(read(path, **options(name)), CONFIGS[config])
    parts = list(iter_segments(path, CONFIGS[config], batch=2, **options(name)))
    assert all(part.shape[1] == 2 for part in parts[:-1])
    assert np.array_equal(np.concatenate(parts, axis=1), whole)


def test_streamed_equals_offline_beyond_one_hilbert_block(tmp_path):
    path = write_sound(tmp_path / "long.wav", 0.1 * np.clip(noise(1_200_000), -5, 5), 44_100)
    whole = prepare(read(path))
    assert np.array_equal(np.concatenate(list(iter_segments(path)), axis=1), whole)
    config = PreprocessConfig(normalise="signal")
    assert np.array_equal(np.concatenate(list(iter_segments(path, config)), axis=1), prepare(read(path), config))


def test_channels_stay_apart_in_a_stream(tmp_path):
    path = write_sound(tmp_path / "two.wav", 0.1 * noise(24_000).reshape(-1, 2))
    parts = list(iter_segments(path, channels="each"))
    assert parts[0].shape == (2, 3, 5120)
    assert np.array_equal(parts[0], prepare(read(path, channels="each")))


def test_a_constant_file_is_noticed_at_its_end(tmp_path):
    path = write_sound(tmp_path / "dc.wav", np.full(20_000, 0.25))
    with pytest.raises(InputError, match="constant"):
        list(iter_segments(path))


def test_a_batch_of_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="batch"):
        iter_segments(tmp_path / "x", batch=0)


MEASURE = """
import resource, sys
from planformer.signals import iter_segments

def peak(path):
    for part in iter_segments(path):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

print(*[peak(path) for path in sys.argv[1:]])
"""


def peaks(*paths: Path) -> list[float]:
    """Peak resident memory in MB after each file, in one process: the peak only ever grows."""
    run = subprocess.run([sys.executable, "-c", MEASURE, *map(str, paths)], capture_output=True, text=True, check=True)
    return [float(value) for value in run.stdout.split()]


def test_two_hours_of_sound_need_no_more_memory_than_a_minute(tmp_path):
    minute = sparse_wav(tmp_path / "minute.wav", 60, 4000)
    hours = sparse_wav(tmp_path / "hours.wav", 7200, 4000)
    first, second = peaks(minute, hours)
    assert second - first < 100


def test_a_long_radio_recording_needs_no_more_memory_than_a_short_one(tmp_path):
    short = sparse_sigmf(tmp_path / "short", 8 << 20)
    long = sparse_sigmf(tmp_path / "long", 256 << 20)
    first, second = peaks(short, long)
    assert second - first < 100


@pytest.mark.slow
def test_four_gigabytes_of_radio_and_two_hours_of_cd_sound(tmp_path):
    minute = sparse_wav(tmp_path / "minute.wav", 60, 44_100)
    hours = sparse_wav(tmp_path / "hours.wav", 7200, 44_100)
    short = sparse_sigmf(tmp_path / "short", 60 * 4 * 1_000_000)
    long = sparse_sigmf(tmp_path / "long", 4 << 30)
    first, second = peaks(minute, hours)
    assert second - first < 100
    first, second = peaks(short, long)
    assert second - first < 100
