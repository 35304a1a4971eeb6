import contextlib

import numpy as np
import pytest

from planformer.errors import InputError
from planformer.signals import read
from reference.signal_files import noise, write_sound

STEREO = np.clip(0.1 * noise(6000), -1, 1).reshape(-1, 2)


@pytest.mark.parametrize(("suffix", "subtype", "error"), [
    (".wav", "PCM_16", 1e-4), (".wav", "PCM_24", 1e-6), (".wav", "PCM_U8", 1e-2), (".wav", "FLOAT", 1e-7),
    (".wav", "ULAW", 0.02), (".flac", "PCM_16", 1e-4), (".aiff", "PCM_16", 1e-4), (".au", "PCM_16", 1e-4),
    (".caf", "PCM_16", 1e-4), (".w64", "PCM_16", 1e-4),
])  # fmt: skip
def test_lossless_formats_give_the_samples(suffix, subtype, error, tmp_path):
    path = write_sound(tmp_path / f"a{suffix}", STEREO, 22_050, subtype=subtype)
    signal = read(path, channels="each")
    assert (signal.kind, signal.rate, signal.channels, signal.is_analytic) == ("audio", 22_050, 2, True)
    assert np.abs(signal.samples.real - STEREO.T).max() < error


@pytest.mark.parametrize("suffix", [".ogg", ".mp3"])
def test_lossy_formats_give_the_tone(suffix, tmp_path):
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(32_000) / 16_000)
    signal = read(write_sound(tmp_path / f"a{suffix}", tone, 16_000))
    spectrum = np.abs(np.fft.fft(signal.samples[0]))
    assert np.fft.fftfreq(signal.n, 1 / 16_000)[spectrum.argmax()] == pytest.approx(1000, abs=5)


def test_channels_are_mixed_unless_asked_for(tmp_path):
    path = write_sound(tmp_path / "a.wav", STEREO, subtype="FLOAT")
    mixed = read(path)
    assert mixed.channels == 1
    assert mixed.provenance["mixed_from"] == 2
    assert np.allclose(mixed.samples.real[0], STEREO.mean(axis=1), atol=1e-6)
    assert np.allclose(read(path, channels=1).samples.real[0], STEREO[:, 1], atol=1e-6)
    assert np.array_equal(read(path, channels="1").samples, read(path, channels=1).samples)


def test_many_channels(tmp_path):
    data = 0.1 * noise(8 * 500).reshape(-1, 8)
    assert read(write_sound(tmp_path / "a.wav", data), channels="each").samples.shape == (8, 500)


def test_a_streamed_wav_has_no_known_end(tmp_path):
    """Recorders that write to a pipe leave the largest number as the length."""
    path = write_sound(tmp_path / "a.wav")
    raw = bytearray(path.read_bytes())
    raw[4:8] = raw[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    assert read(path).n == 4000


def test_a_wav_without_its_data_chunk(tmp_path):
    path = write_sound(tmp_path / "a.wav")
    path.write_bytes(path.read_bytes()[:36])
    with pytest.raises(InputError, match="truncated"):
        read(path)


def test_a_damaged_mp3_says_nothing_of_its_own(tmp_path, capfd):
    path = write_sound(tmp_path / "a.mp3")
    raw = bytearray(path.read_bytes())
    raw[600:700] = bytes(100)
    path.write_bytes(raw)
    with contextlib.suppress(InputError):
        read(path)
    assert capfd.readouterr() == ("", "")
