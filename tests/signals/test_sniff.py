import shutil

import numpy as np
import pytest

from planformer.errors import InputError
from planformer.signals import read
from reference.signal_files import VALID, make_file

KIND = {
    "wav": "audio", "flac": "audio", "ogg": "audio", "mp3": "audio", "sigmf": "iq", "cf32": "iq",
    "miniseed2": "seismic", "miniseed3": "seismic", "npy": "array", "npz": "array", "csv": "array", "hdf5": "array",
    "png": "image", "jpeg": "image", "tiff": "image", "gif": "video", "mp4": "video", "mkv": "video", "text": "text",
}  # fmt: skip
BY_CONTENT = sorted(set(VALID) - {"sigmf", "cf32", "csv", "text"})


@pytest.mark.parametrize("name", VALID)
def test_every_kind_is_recognised(name, tmp_path):
    assert read(make_file(name, tmp_path), rate=1e6).kind == KIND[name]


@pytest.mark.parametrize("suffix", ["", ".txt", ".dat", ".wav"])
@pytest.mark.parametrize("name", BY_CONTENT)
def test_content_decides_before_the_name(name, suffix, tmp_path):
    disguised = tmp_path / f"renamed{suffix}"
    shutil.copy(make_file(name, tmp_path), disguised)
    assert read(disguised).kind == KIND[name]


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".npy", ".npz", ".h5", ".mp4", ".mseed", ".png", ".jpg"])
def test_a_name_that_the_content_does_not_bear_out_is_refused(suffix, tmp_path):
    path = tmp_path / f"fake{suffix}"
    path.write_text("this is only text, whatever its name says")
    with pytest.raises(InputError, match=r"fake"):
        read(path)
    assert read(path, kind="text").kind == "text"


@pytest.mark.parametrize(
    "content",
    [
        b"BM stands for bitmap, but not here",
        b"ID and more",
        b"P6 is a road",
        b"{'json': 1}",
        bytes(range(256)) * 4,
        b"RIFFraff",
    ],
)
def test_bytes_that_nothing_claims_are_text(content, tmp_path):
    path = tmp_path / "unknown"
    path.write_bytes(content)
    signal = read(path)
    assert (signal.kind, signal.n) == ("text", len(content))


def test_any_file_can_be_read_as_text(tmp_path):
    path = make_file("png", tmp_path)
    assert read(path, kind="text").n == path.stat().st_size


def test_a_kind_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(InputError, match="image"):
        read(make_file("png", tmp_path), kind="audio")


def test_a_kind_picks_the_reader_where_nothing_else_does(tmp_path):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (6, 5, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.tga")
    nameless = (tmp_path / "a.tga").rename(tmp_path / "picture")  # TGA has no magic number
    assert read(nameless, kind="image").n == 60
    (tmp_path / "numbers").write_text("1 2\n3 5\n7 1\n")
    assert read(tmp_path / "numbers", kind="array").channels == 2


@pytest.mark.parametrize("content", ['{"global": "warming", "and": "more"}', "const x: number = 1;"])
def test_source_code_and_json_are_text(content, tmp_path):
    for name in ("a.json", "a.ts", "a"):
        (tmp_path / name).write_text(content)
        assert read(tmp_path / name).kind == "text"
