"""The list of bad inputs: each one is one line that names the file, and nothing but the project's own error."""

import os
import struct
import zlib

import numpy as np
import pytest

from planformer.errors import InputError, PlanFormerError
from planformer.signals import read
from reference.signal_files import (
    VALID,
    complex_noise,
    make_file,
    write_image,
    write_metadata,
    write_sigmf_pair,
    write_sound,
    write_video,
)


def refused(path, says, **options):
    with pytest.raises(PlanFormerError, match=says) as caught:
        read(path, **options)
    message = str(caught.value)
    assert os.fspath(path) in message
    assert "\n" not in message
    assert len(message) - len(os.fspath(path)) < 300


def test_a_missing_file(tmp_path):
    refused(tmp_path / "nothing.wav", "no such file")


@pytest.mark.parametrize("suffix", [".wav", ".png", ".txt", ".npy", ".mp4", ".sigmf-meta", ".cf32", ""])
def test_an_empty_file(suffix, tmp_path):
    path = tmp_path / f"empty{suffix}"
    path.touch()
    refused(path, "empty", rate=1.0)


def test_a_directory(tmp_path):
    refused(tmp_path, "is a directory")


def test_a_device():
    refused("/dev/null", "not a regular file")


def test_no_permission(tmp_path, monkeypatch):
    path = make_file("wav", tmp_path)
    path.chmod(0)
    if os.geteuid() == 0:  # root may read everything: let the system say no all the same

        def denied(self, *args, **kwargs):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("pathlib.Path.open", denied)
    refused(path, "permission")


def test_a_name_that_no_file_can_have(tmp_path):
    refused(tmp_path / ("x" * 5000), "cannot be opened")
    refused("nul\0byte.wav", "cannot be opened")


# Formats that say how much there should be. Text, raw IQ and MP3 do not: a part of them is a whole.
STATES_ITS_LENGTH = sorted(set(VALID) - {"text", "mp3", "csv", "sigmf", "cf32", "mp4"})


@pytest.mark.parametrize("share", [0.3, 0.6, 0.97])
@pytest.mark.parametrize("name", STATES_ITS_LENGTH)
def test_truncated(name, share, tmp_path):
    path = make_file(name, tmp_path)
    if name == "mkv" and share > 0.9:
        pytest.skip("only the index at the end is missing; every frame is there")
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    refused(path, ".")


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_truncated_mp4(share, tmp_path):
    path = make_file("mp4", tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    refused(path, ".")


@pytest.mark.parametrize("name", ["cf32", "sigmf"])
def test_radio_cut_within_a_sample(name, tmp_path):
    path = make_file(name, tmp_path)
    data = path.with_suffix(".sigmf-data") if name == "sigmf" else path
    data.write_bytes(data.read_bytes()[:-3])
    refused(path, "whole number of", rate=1e6)


def test_sigmf_without_data(tmp_path):
    path = write_sigmf_pair(tmp_path / "a")
    path.with_suffix(".sigmf-data").unlink()
    refused(path, "no data")


def test_sigmf_data_without_metadata(tmp_path):
    path = write_sigmf_pair(tmp_path / "a")
    path.unlink()
    refused(path.with_suffix(".sigmf-data"), "no metadata")


@pytest.mark.parametrize("datatype", ["cf16_le", "ci24_le", "xf32", "", "CF32_LE", None, 7, ["cf32_le"], "cf32_le\n"])
def test_sigmf_with_an_unknown_datatype(datatype, tmp_path):
    path = write_sigmf_pair(tmp_path / "a")
    write_metadata(path, datatype)
    refused(path, "unknown datatype")


@pytest.mark.parametrize("rate", [0, -1e6, float("nan"), float("inf"), "fast", True])
def test_sigmf_with_a_bad_rate(rate, tmp_path):
    path = write_sigmf_pair(tmp_path / "a")
    write_metadata(path, rate=rate)
    refused(path, "rate")


@pytest.mark.parametrize("rate", [0, -3.0, float("nan")])
def test_a_bad_rate_from_the_user(rate, tmp_path):
    refused(make_file("cf32", tmp_path), "rate", rate=rate)


def test_raw_radio_without_a_rate(tmp_path):
    refused(make_file("cf32", tmp_path), "--rate")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("suffix", [".cf32", ".npy", ".wav", ".csv"])
def test_nan_and_infinity(suffix, value, tmp_path):
    path = tmp_path / f"bad{suffix}"
    samples = complex_noise(500).astype(np.complex64)
    samples[123] = value
    if suffix == ".cf32":
        samples.tofile(path)
    elif suffix == ".npy":
        np.save(path, samples)
    elif suffix == ".wav":
        write_sound(path, samples.real, subtype="FLOAT")
    else:
        np.savetxt(path, samples.real)
    refused(path, "NaN or infinite samples, the first at sample 123", rate=1e6)


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_constant_signals(value, tmp_path):
    says = "zero" if value == 0 else "constant"
    refused(write_sound(tmp_path / "a.wav", np.full(9000, value)), says)
    np.save(tmp_path / "a.npy", np.full((2, 300), value))
    refused(tmp_path / "a.npy", says)
    np.full(300, value, np.complex64).tofile(tmp_path / "a.cf32")
    refused(tmp_path / "a.cf32", says, rate=1.0)
    (tmp_path / "a.txt").write_bytes(bytes([int(100 * value)]) * 500)
    refused(tmp_path / "a.txt", says)


def test_a_blank_image_and_a_blank_video(tmp_path):
    from PIL import Image

    Image.new("RGB", (30, 20), (9, 9, 9)).save(tmp_path / "blank.png")
    refused(tmp_path / "blank.png", "constant")
    path = write_video(tmp_path / "blank.mkv", "ffv1", size=(32, 24), frames=1)
    assert read(path).n == 5120
    import av

    with av.open(str(tmp_path / "blank2.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=5)
        stream.width, stream.height, stream.pix_fmt = 32, 24, "yuv420p"
        for _ in range(3):
            frame = av.VideoFrame.from_ndarray(np.full((24, 32, 3), 128, np.uint8), format="rgb24")
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    refused(tmp_path / "blank2.mkv", "constant|zero")


def test_sound_of_zero_length(tmp_path):
    for suffix in (".wav", ".flac", ".ogg"):
        refused(write_sound(tmp_path / f"none{suffix}", np.zeros(0)), ".")


def test_an_image_of_one_pixel(tmp_path):
    write_image(tmp_path / "dot.png", size=(1, 1))
    refused(tmp_path / "dot.png", "too small")


def png_chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


@pytest.mark.parametrize("side", [9_500, 60_000])  # where Pillow warns, and where it refuses
def test_a_decompression_bomb(side, tmp_path):
    """A kilobyte that unpacks to a row of a picture of many million pixels."""
    path = tmp_path / "bomb.png"
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    content = zlib.compress(bytes(side + 1))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", content) + png_chunk(b"IEND", b"")
    )
    refused(path, "decompression bomb")


def test_a_video_without_frames(tmp_path):
    import av

    path = tmp_path / "none.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=5)
        stream.width, stream.height, stream.pix_fmt = 32, 24, "yuv420p"
        container.start_encoding()
    refused(path, "frames")


def test_a_film_of_sound_only(tmp_path):
    import av

    path = tmp_path / "sound.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        for packet in stream.encode(frame):
            container.mux(packet)
    refused(path, "no video")


@pytest.mark.parametrize("name", VALID)
def test_paths_with_spaces_and_other_scripts(name, tmp_path):
    folder = tmp_path / "mes données 数据 'quoted' [x]"
    folder.mkdir()
    assert read(make_file(name, folder), rate=1e6).n > 1


def test_the_extra_is_named_when_a_decoder_is_missing(tmp_path, monkeypatch):
    import sys

    for name, module, extra in (("mp4", "av", "video"), ("miniseed2", "pymseed", "seismic")):
        path = make_file(name, tmp_path)
        monkeypatch.setitem(sys.modules, module, None)
        refused(path, rf"planformer\[{extra}\]")


def test_unknown_kinds_and_channels(tmp_path):
    path = make_file("wav", tmp_path)
    with pytest.raises(InputError, match="kind"):
        read(path, kind="smell")
    with pytest.raises(InputError, match="channel"):
        read(path, channels="left")
    with pytest.raises(InputError, match="no channel 4"):
        read(path, channels=4)
