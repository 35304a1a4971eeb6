import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer.errors import InputError
from planformer.signals import Signal, analytic, from_array, unwrap


def rng(seed=0):
    return np.random.default_rng(seed)


def test_real_becomes_analytic_and_complex_stays():
    x = rng().normal(size=(2, 100)).astype(np.float32)
    assert np.array_equal(from_array(x).samples, analytic(x))
    z = (x + 1j * x[::-1]).astype(np.complex64)
    signal = from_array(z, rate=10, kind="iq")
    assert np.array_equal(signal.samples, z)
    assert (signal.is_analytic, signal.channels, signal.n, signal.duration) == (False, 2, 100, 10.0)


def test_a_signal_cannot_be_changed():
    signal = from_array(rng().normal(size=50))
    with pytest.raises(ValueError, match="read-only"):
        signal.samples[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        signal.rate = 2
    with pytest.raises(TypeError):
        signal.provenance["x"] = 1


def test_the_callers_array_stays_writable_and_apart():
    z = (rng().normal(size=20) + 1j).astype(np.complex64)
    signal = from_array(z)
    z[0] = 99
    assert signal.samples[0, 0] != 99


def test_a_signal_survives_pickling():
    signal = from_array(rng().normal(size=50), rate=7, kind="audio")
    copy = pickle.loads(pickle.dumps(signal))
    assert np.array_equal(copy.samples, signal.samples)
    assert (copy.rate, copy.kind, dict(copy.provenance)) == (7, "audio", dict(signal.provenance))


def test_an_image_is_its_path_with_channels_apart():
    picture = rng().integers(0, 255, (5, 7, 3), dtype=np.uint8)
    signal = from_array(picture, kind="image")
    assert signal.samples.shape == (3, 70)
    assert np.array_equal(signal.samples.real, unwrap(np.moveaxis(picture, -1, 0)).astype(np.float32))
    assert (signal.provenance["height"], signal.provenance["width"]) == (5, 7)


def test_a_video_has_5120_points_a_frame():
    clip = rng().integers(0, 255, (4, 6, 8), dtype=np.uint8)
    signal = from_array(clip, rate=25, kind="video")
    assert signal.samples.shape == (1, 4 * 5120)
    assert signal.duration == pytest.approx(4 / 25)


@given(st.text(min_size=2).filter(lambda s: len(set(s.encode("utf-8", "surrogatepass"))) > 1))
@settings(max_examples=50, deadline=None)
def test_text_is_its_utf8_bytes(text):
    signal = from_array(text, kind="text")
    assert bytes(signal.samples[0].real.astype(np.uint8)) == text.encode("utf-8", "surrogatepass")


def test_text_from_bytes_and_byte_values_agree():
    raw = b"any bytes \x00\xff"
    assert np.array_equal(
        from_array(raw, kind="text").samples, from_array(np.frombuffer(raw, np.uint8), kind="text").samples
    )


@pytest.mark.parametrize(
    ("x", "kind", "says"),
    [
        (np.zeros(100), "array", "zero"),
        (np.full(100, 3.0), "array", "constant"),
        (np.full(100, 1 + 1j), "iq", "constant"),
        ([1.0, np.nan, 2.0], "array", "NaN"),
        ([1.0, np.inf, 2.0], "array", "infinite"),
        ([1j, np.nan, 2.0], "iq", "NaN"),
        ([1e35, 0.0], "array", "too large"),
        ([], "array", "no samples"),
        ([5.0], "array", "constant"),
        (np.zeros((2, 3, 4)), "array", "shape"),
        (["a", "b"], "array", "numbers"),
        ([[1, 2], [3]], "array", "rectangular"),
        (np.ones((1, 1)), "image", "too small"),
        (np.ones((8, 8)), "image", "constant"),
        (rng().normal(size=(8, 8, 7)), "image", "colour"),
        (rng().normal(size=8), "image", "shape"),
        (np.ones((4, 4)) * 1j, "image", "real"),
        (np.zeros((0, 4, 4)), "video", "too small"),
        ("", "text", "no samples"),
        (12, "text", "bytes"),
    ],
)
def test_unusable_arrays_are_refused_in_one_line(x, kind, says):
    with pytest.raises(InputError, match=says) as caught:
        from_array(x, kind=kind)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rate", [0, -5, float("nan"), float("inf")])
def test_bad_rates_are_refused(rate):
    with pytest.raises(InputError, match="rate"):
        from_array([0.0, 1.0], rate=rate)


def test_unknown_kinds_are_refused():
    with pytest.raises(InputError, match="kind"):
        from_array([0.0, 1.0], kind="smell")
    with pytest.raises(InputError, match="kind"):
        Signal(np.ones((1, 2), np.complex64), 1.0, "smell")


def test_one_dead_channel_is_no_error():
    x = rng().normal(size=(3, 100))
    x[1] = 0
    assert from_array(x).channels == 3
