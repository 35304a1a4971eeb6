import numpy as np
import pytest

from planformer.errors import InputError
from planformer.signals import from_array, match_level, prepare, read, resample_length, write, write_sigmf
from reference.signal_files import complex_noise, make_file, noise, write_image, write_seismogram, write_sound

SAME_BACK = {"wav": 1e-4, "flac": 1e-4, "sigmf": 1e-6, "cf32": 1e-6, "miniseed2": 0, "npy": 0, "csv": 1e-6, "png": 0,
             "tiff": 0, "text": 0}  # fmt: skip


@pytest.mark.parametrize("name", SAME_BACK)
def test_what_is_written_in_the_inputs_format_reads_back_the_same(name, tmp_path):
    source = make_file(name, tmp_path)
    signal = read(source, rate=1e6)
    target = tmp_path / f"copy{source.suffix}"
    copy = read(write(target, signal.samples, signal), rate=1e6)
    assert np.abs(copy.samples - signal.samples).max() <= SAME_BACK[name] * (1 + np.abs(signal.samples).max())
    assert (copy.kind, copy.rate, copy.channels) == (signal.kind, signal.rate, signal.channels)


def test_an_image_comes_back_from_5120_points(tmp_path):
    """Down to 5,120 points and back: the two passes blur differently, and their mean is close to the picture."""
    y, x = np.mgrid[:64, :64]
    picture = (127 + 60 * np.sin(x / 9) + 60 * np.cos(y / 7)).astype(np.uint8)
    template = from_array(picture, kind="image")
    points = prepare(template)[:, 0]
    restored = match_level(resample_length(points, template.n), template)
    back = read(write(tmp_path / "a.png", restored, template)).samples.real
    assert np.abs(back - template.samples.real).mean() < 3


def test_a_short_path_is_stretched_to_the_pictures_size(tmp_path):
    template = from_array(np.random.default_rng(0).integers(0, 255, (9, 8, 3), np.uint8), kind="image")
    assert read(write(tmp_path / "a.png", resample_length(template.samples, 5120), template)).n == 144


def test_sixteen_bits_are_kept(tmp_path):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 65536, (9, 8), dtype=np.uint16)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    signal = read(tmp_path / "a.png")
    assert np.array_equal(read(write(tmp_path / "b.png", signal)).samples.real, signal.samples.real)
    write(tmp_path / "c.jpg", signal)
    assert read(tmp_path / "c.jpg").samples.real.max() <= 255


def test_loud_sound_is_scaled_not_clipped(tmp_path):
    signal = from_array(5 * noise(2000), rate=8000, kind="audio")
    back = read(write(tmp_path / "a.wav", signal)).samples.real
    assert np.corrcoef(back[0], signal.samples.real[0])[0, 1] > 0.99999


def test_the_subtype_of_a_sound_file_is_kept(tmp_path):
    signal = read(write_sound(tmp_path / "a.wav", 3 * noise(900), subtype="FLOAT"))
    copy = read(write(tmp_path / "b.wav", signal))
    assert copy.provenance["subtype"] == "FLOAT"
    assert np.allclose(copy.samples, signal.samples, atol=1e-5)


def test_a_recordings_metadata_goes_with_it(tmp_path):
    meta = write_sigmf(
        tmp_path / "a",
        complex_noise(99),
        1e6,
        "ci16_le",
        {"core:author": "me", "annotations": [{"core:sample_start": 3}]},
    )
    signal = read(meta)
    copy = read(write(tmp_path / "b.sigmf-meta", signal.samples, signal))
    assert copy.provenance["datatype"] == "ci16_le"
    assert copy.provenance["global"]["core:author"] == "me"
    assert copy.provenance["annotations"] == [{"core:sample_start": 3}]


def test_components_keep_their_names_and_start(tmp_path):
    write_seismogram(tmp_path / "a.mseed")
    signal = read(tmp_path / "a.mseed")
    copy = read(write(tmp_path / "b.mseed", signal))
    for name in ("sourceids", "start"):
        assert copy.provenance[name] == signal.provenance[name]


def test_level_matching_is_per_channel():
    template = from_array(np.stack([noise(500), 9 + 4 * noise(500, 1)]))
    assert np.allclose(match_level(template.samples * [[3], [0.1]] + 1, template), template.samples, atol=1e-4)


@pytest.mark.parametrize(
    ("target", "says"), [("a.mp4", "cannot write"), ("a", "cannot write"), ("a.png", "picture"), ("no/a.wav", "folder")]
)
def test_what_cannot_be_written(target, says, tmp_path):
    signal = from_array(noise(100), rate=8000, kind="audio")
    with pytest.raises(InputError, match=says):
        write(tmp_path / target, signal)
    assert list(tmp_path.iterdir()) == []


def test_complex_or_broken_samples_and_missing_templates(tmp_path):
    radio = from_array(complex_noise(50), kind="iq")
    with pytest.raises(InputError, match="complex"):
        write(tmp_path / "a.csv", radio)
    with pytest.raises(InputError, match="NaN"):
        write(tmp_path / "a.wav", np.full((1, 9), np.nan), radio)
    with pytest.raises(InputError, match="template"):
        write(tmp_path / "a.wav", np.ones((1, 9)))
    with pytest.raises(InputError, match="rate"):
        write(tmp_path / "a.wav", from_array(noise(9), rate=0.1))
    with pytest.raises(InputError):
        write(tmp_path / "a.flac", from_array(noise(99), rate=5_000_000_00, kind="audio"))
    write_image(tmp_path / "b.png")
    assert [path.name for path in tmp_path.iterdir()] == ["b.png"]
