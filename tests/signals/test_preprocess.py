import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer.errors import InputError
from planformer.signals import PreprocessConfig, Signal, analytic, from_array, iter_segments, prepare, prepare_images

SEGMENT = 5120
PLAIN = PreprocessConfig(remove_mean=False)
lengths = st.integers(2, 14_000)


def rng(seed=0):
    return np.random.default_rng(seed)


def radio(n, channels=1, seed=0):
    z = rng(seed).normal(size=(channels, n)) + 1j * rng(seed + 1).normal(size=(channels, n))
    return from_array(z, rate=1e6, kind="iq")


def power(x):
    return np.mean(np.abs(x.astype(np.complex128)) ** 2, axis=-1)


@given(n=lengths, scale=st.floats(-12, 12), short=st.sampled_from(["pad", "tile", "resample"]))
@settings(max_examples=60, deadline=None)
def test_unit_power_at_any_scale(n, scale, short):
    signal = Signal(radio(n).samples * np.float32(10**scale), 1.0, "iq")
    segments = prepare(signal, PreprocessConfig(short=short))
    assert segments.shape == (1, -(-n // SEGMENT), SEGMENT)
    expected = np.ones(segments.shape[1])
    if short == "pad" and n % SEGMENT:
        expected[-1] = n % SEGMENT / SEGMENT  # padding is silence, not signal
    assert np.allclose(power(segments)[0], expected, rtol=1e-5)


@given(n=lengths, seed=st.integers(0, 20))
@settings(max_examples=40, deadline=None)
def test_segment_and_concatenate_loses_no_sample(n, seed):
    signal = radio(n, channels=2, seed=seed)
    config = PreprocessConfig(normalise="signal", remove_mean=False)
    joined = prepare(signal, config).reshape(2, -1)
    scale = np.sqrt(power(signal.samples))[:, None]
    assert np.allclose(joined[:, :n] * scale, signal.samples, atol=1e-4)
    assert not joined[:, n:].any()


@given(n=lengths, cut=st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_the_parts_of_a_signal_give_the_segments_of_the_whole(n, cut):
    signal = radio(n)
    parts = np.concatenate(list(iter_segments(signal, batch=cut)), axis=1)
    assert np.array_equal(parts, prepare(signal))


def test_the_mean_of_real_signals_goes_that_of_radio_stays():
    x = rng().normal(size=6000)
    real, shifted = prepare(from_array(x)), prepare(from_array(x + 50))
    assert np.allclose(real, shifted, atol=1e-3)
    assert np.abs(real.mean(axis=-1)).max() < 1e-3
    leak = from_array(radio(SEGMENT).samples + 5, kind="iq")
    assert np.abs(prepare(leak).mean(axis=-1)).min() > 0.5  # a carrier at 0 Hz is part of the recording


def test_without_mean_removal_a_real_signal_keeps_it():
    assert prepare(from_array(rng().normal(size=SEGMENT) + 50), PLAIN).real.mean() > 0.9


def test_tiles_repeat_and_stretches_stretch():
    t = np.arange(1024)
    tone = from_array(np.exp(2j * np.pi * 8 * t / 1024), kind="iq")
    tiled = prepare(tone, PreprocessConfig(short="tile"))[0, 0]
    stretched = prepare(tone, PreprocessConfig(short="resample"))[0, 0]
    assert np.abs(np.fft.fft(tiled)).argmax() == 40  # 8 cycles in each of five copies: the frequency stays
    assert np.abs(np.fft.fft(stretched)).argmax() == 8  # 8 cycles in all: the frequency falls with the length
    assert np.allclose(tiled[:1024], tiled[1024:2048])


def test_normalising_the_signal_keeps_the_levels_between_segments():
    quiet, loud = radio(SEGMENT).samples, 10 * radio(SEGMENT, seed=5).samples
    signal = Signal(np.concatenate([quiet, loud], axis=1), 1.0, "iq")
    each = power(prepare(signal, PreprocessConfig(normalise="segment")))[0]
    whole = power(prepare(signal, PreprocessConfig(normalise="signal")))[0]
    assert np.allclose(each, 1, rtol=1e-5)
    assert whole[1] / whole[0] == pytest.approx(100, rel=0.1)
    assert whole.mean() == pytest.approx(1, rel=1e-5)


def test_silence_stays_silence():
    x = rng().normal(size=3 * SEGMENT)
    x[SEGMENT : 2 * SEGMENT] = 0
    x[2 * SEGMENT :] = 7.3  # constant: nothing is left without its mean
    segments = prepare(Signal((x + 0j).astype(np.complex64)[None], 1.0, "array", {"analytic": True}))
    assert power(segments)[0].tolist() == pytest.approx([1, 0, 0], abs=1e-5)


@pytest.mark.parametrize("normalise", ["segment", "signal"])
@pytest.mark.parametrize("order", ["vertical_first", "horizontal_first"])
def test_many_images_equal_each_image(order, normalise):
    images = rng().integers(0, 255, (5, 9, 12, 3), dtype=np.uint8)
    config = PreprocessConfig(pass_order=order, normalise=normalise)
    batch = prepare_images(images, config)
    assert batch.shape == (5, 3, 1, SEGMENT)
    for image, segments in zip(images, batch, strict=True):
        assert np.allclose(segments, prepare(from_array(image, kind="image"), config), atol=2e-5)


def test_an_image_is_resampled_whatever_short_says():
    images = rng().integers(0, 255, (2, 28, 28), dtype=np.uint8)
    assert np.array_equal(prepare_images(images), prepare_images(images, PreprocessConfig(short="tile")))
    assert np.allclose(power(prepare_images(images)), 1, rtol=1e-5)


def test_the_image_segment_is_the_path_resampled_and_analytic():
    """Against the plain way: Hilbert, then Fourier resampling, one step after the other."""
    from planformer.signals import resample_length, unwrap

    image = np.add.outer(np.sin(np.arange(28) / 5), np.cos(np.arange(28) / 4))  # smooth: nothing at the Nyquist bin
    slow = resample_length(analytic(unwrap(image) - image.mean()), SEGMENT)
    slow /= np.sqrt(power(slow))
    assert np.allclose(prepare_images(image[None])[0, 0, 0], slow, atol=1e-3)


def test_swapping_the_passes_equals_unwrapping_in_the_other_order():
    image = rng().integers(0, 255, (10, 14), dtype=np.uint8).astype(np.float64)
    swapped = prepare_images(image[None], PreprocessConfig(pass_order="horizontal_first"))[0, 0, 0]
    transposed = prepare_images(image.T[None])[0, 0, 0]  # rows of an image are columns of its transpose
    assert np.allclose(swapped, transposed, atol=1e-4)


def test_a_video_gives_one_segment_a_frame_each_as_its_image():
    clip = rng().integers(0, 255, (4, 9, 12), dtype=np.uint8)
    assert np.allclose(
        prepare(from_array(clip, kind="video")), np.moveaxis(prepare_images(clip)[:, :, 0], 0, 1), atol=1e-5
    )


def test_a_blank_image_among_many_is_silence():
    images = rng().integers(0, 255, (3, 28, 28), dtype=np.uint8)
    images[1] = 77
    assert power(prepare_images(images))[:, 0, 0].tolist() == pytest.approx([1, 0, 1], abs=1e-5)


@pytest.mark.parametrize(
    "images", [np.zeros((3, 4)), np.zeros((2, 1, 1)), np.full((1, 4, 4), np.nan), np.full((1, 4, 4), "a")]
)
def test_unusable_image_batches_are_refused(images):
    with pytest.raises(InputError):
        prepare_images(images)


def test_the_configuration_is_frozen_strict_and_knows_the_paper():
    config = PreprocessConfig()
    with pytest.raises(pydantic.ValidationError):
        config.short = "tile"
    with pytest.raises(pydantic.ValidationError):
        PreprocessConfig(shrot="tile")
    with pytest.raises(pydantic.ValidationError):
        PreprocessConfig(short="loop")
    assert PreprocessConfig.paper().short == "resample"
    assert PreprocessConfig.model_validate(config.model_dump()) == config
    assert hash(config) == hash(PreprocessConfig())


def test_other_segment_lengths_work():
    assert prepare(radio(1000), PreprocessConfig(segment_length=256)).shape == (1, 4, 256)


def test_the_package_does_not_import_torch():
    import subprocess
    import sys

    code = "import sys, planformer.signals; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_values_at_the_ends_of_single_precision():
    """The largest that the checks let through, and some whose inverse would overflow: found by fuzzing."""
    for scale in (1e29, 1e-25, 1e-42):
        for config in (PreprocessConfig(), PreprocessConfig(normalise="signal", short="resample")):
            segments = prepare(from_array(scale * np.sin(np.arange(7000.0))), config)
            assert np.isfinite(segments.view(np.float32)).all()
            assert power(segments)[0, 0] == pytest.approx(float(scale > 1e-30), abs=0.05)
