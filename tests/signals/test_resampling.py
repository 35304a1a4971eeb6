import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer.errors import InputError
from planformer.signals import analytic, analytic_resample, from_array, resample_length, resample_rate


@given(n=st.integers(16, 400), num=st.integers(16, 900), cycles=st.integers(-200, 200))
@settings(max_examples=80, deadline=None)
def test_a_tone_keeps_its_number_of_cycles(n, num, cycles):
    """Positive and negative frequencies alike: the resampler is complex-aware."""
    limit = (min(n, num) - 1) // 2
    cycles = int(np.clip(cycles, -limit, limit))
    tone = np.exp(2j * np.pi * cycles * np.arange(n) / n)
    expected = np.exp(2j * np.pi * cycles * np.arange(num) / num)
    assert np.allclose(resample_length(tone, num), expected, atol=1e-4)


def test_what_the_lower_rate_cannot_hold_is_removed_not_folded():
    tone = np.exp(2j * np.pi * 200 * np.arange(1000) / 1000)
    assert np.abs(resample_length(tone, 300)).max() < 1e-4


@given(n=st.integers(2, 300), num=st.integers(2, 300), seed=st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_real_stays_real_and_the_mean_stays(n, num, seed):
    x = np.random.default_rng(seed).normal(size=n)
    y = resample_length(x.astype(np.complex64), num)
    assert np.abs(y.imag).max() < 1e-4
    assert abs(y.mean() - x.mean()) < 1e-4


@given(n=st.integers(4, 400), num=st.integers(4, 900))
@settings(max_examples=60, deadline=None)
def test_one_pass_equals_hilbert_then_resampling(n, num):
    x = np.random.default_rng(n).normal(size=n)
    spectrum = np.fft.fft(x)
    spectrum[min(n, num) // 2] = spectrum[-(min(n, num) // 2)] = 0  # the bin that both sides may treat differently
    x = np.fft.ifft(spectrum).real
    assert np.allclose(analytic_resample(x, num), resample_length(analytic(x), num), atol=2e-4)


def test_rate_conversion_moves_a_tone_to_where_it_should_be():
    rate, new_rate, hertz = 44_100, 16_000, -3_000
    z = np.exp(2j * np.pi * hertz * np.arange(rate) / rate)
    y = resample_rate(z, rate, new_rate)
    assert len(y) == new_rate
    spectrum = np.abs(np.fft.fft(y))
    assert np.fft.fftfreq(len(y), 1 / new_rate)[spectrum.argmax()] == pytest.approx(hertz, abs=1)
    assert np.abs(y[200:-200]).std() < 0.02


def test_rate_conversion_removes_what_would_alias():
    z = np.exp(2j * np.pi * 15_000 * np.arange(44_100) / 44_100)
    assert np.abs(resample_rate(z, 44_100, 16_000)[200:-200]).max() < 0.01


def test_a_signal_changes_its_rate_and_says_so():
    signal = from_array(np.random.default_rng(0).normal(size=800), rate=8000, kind="audio").resampled(4000)
    assert (signal.n, signal.rate, signal.provenance["resampled_from"]) == (400, 4000, 8000)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_bad_rates_are_refused(rate):
    with pytest.raises(InputError):
        resample_rate(np.ones(10), 100, rate)


def test_an_image_has_no_rate_to_change():
    with pytest.raises(InputError, match="no sample rate"):
        from_array(np.eye(4), kind="image").resampled(2)
