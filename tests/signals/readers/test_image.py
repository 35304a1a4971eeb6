import numpy as np
import pytest
from PIL import Image

from planformer.signals import read, unwrap
from planformer.signals.readers import image as reader
from reference.signal_files import write_image

GREY = np.random.default_rng(0).integers(0, 256, (11, 17), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (11, 17, 3), dtype=np.uint8)


def path_of(pixels):
    planes = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    return unwrap(planes).astype(np.float32)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".webp", ".ppm"])
@pytest.mark.parametrize("pixels", [GREY, COLOUR], ids=["grey", "colour"])
def test_lossless_formats_give_the_pixels(pixels, suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    Image.fromarray(pixels).save(path, **({"lossless": True} if suffix == ".webp" else {}))
    signal = read(path)
    expected = pixels
    if suffix == ".webp" and pixels.ndim == 2:  # WebP knows colour only
        expected = np.repeat(pixels[..., None], 3, axis=-1)
    assert np.array_equal(signal.samples.real, path_of(expected))
    assert (signal.kind, signal.provenance["height"], signal.provenance["width"]) == ("image", 11, 17)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_sixteen_bits_stay_sixteen_bits(suffix, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 65536, (11, 17), dtype=np.uint16)
    Image.fromarray(pixels).save(tmp_path / f"a{suffix}")
    assert np.array_equal(read(tmp_path / f"a{suffix}").samples.real, path_of(pixels))


def test_a_palette_becomes_its_colours(tmp_path):
    small = (COLOUR // 128 * 255).astype(np.uint8)
    Image.fromarray(small).convert("P", palette=Image.Palette.ADAPTIVE, colors=8).save(tmp_path / "a.png")
    assert np.array_equal(read(tmp_path / "a.png").samples.real, path_of(small))


def test_black_and_white(tmp_path):
    Image.fromarray(GREY > 128).save(tmp_path / "a.png")
    assert np.array_equal(read(tmp_path / "a.png").samples.real, path_of((GREY > 128) * np.uint8(255)))


def test_transparency_is_laid_over_white(tmp_path):
    pixels = np.concatenate([COLOUR, np.full((11, 17, 1), 255, np.uint8)], axis=-1)
    pixels[:5, ..., 3] = 0  # whatever colour is stored there, none of it is seen
    Image.fromarray(pixels).save(tmp_path / "a.png")
    expected = COLOUR.copy()
    expected[:5] = 255
    assert np.array_equal(read(tmp_path / "a.png").samples.real, path_of(expected))


def test_grey_with_alpha_stays_grey(tmp_path):
    Image.fromarray(GREY).convert("LA").save(tmp_path / "a.png")
    assert read(tmp_path / "a.png").channels == 1


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr"])
def test_other_colour_spaces_become_rgb(mode, tmp_path):
    Image.fromarray(COLOUR).convert(mode).save(tmp_path / "a.jpg")
    assert read(tmp_path / "a.jpg").channels == 3


def test_a_large_image_is_shrunk_first(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "UNWRAP_PIXELS", 60)
    Image.fromarray(COLOUR).save(tmp_path / "a.png")
    signal = read(tmp_path / "a.png")
    assert signal.provenance["shrunk_from"] == (11, 17)
    assert signal.n == 2 * signal.provenance["height"] * signal.provenance["width"] <= 120
    assert abs(signal.samples.real.mean() - COLOUR.mean()) < 12


def test_a_still_gif_is_an_image_and_an_animated_one_can_be(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "still.gif")
    assert read(tmp_path / "still.gif").kind == "image"
    Image.fromarray(GREY).save(tmp_path / "moving.gif", save_all=True, append_images=[Image.fromarray(GREY[::-1])])
    assert read(tmp_path / "moving.gif").kind == "video"
    assert read(tmp_path / "moving.gif", kind="image").kind == "image"


def test_channels_can_be_mixed_to_grey(tmp_path):
    pixels = write_image(tmp_path / "a.png")
    assert np.allclose(read(tmp_path / "a.png", channels="mix").samples.real, path_of(pixels).mean(axis=0), atol=1e-3)
