"""The decoded waveform as a filter: the level of the noise is found, and what the waveform says passes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from planformer.nn.spectral_gain import FRAME, from_short_time, local_power, noise_level, refine, short_time

N = 5120


def white(batch: int = 4, *, analytic: bool = False, seed: int = 0) -> Tensor:
    x = torch.randn(batch, N, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))
    if analytic:
        spectrum = torch.fft.fft(x)
        spectrum[:, N // 2 :] = 0
        x = torch.fft.ifft(spectrum) * math.sqrt(2)
    return x


def tone(frequency: float = 0.11, batch: int = 4) -> Tensor:
    return torch.exp(2j * math.pi * frequency * torch.arange(N)).to(torch.complex64).expand(batch, N)


def snr(clean: Tensor, estimate: Tensor) -> float:
    return float(10 * torch.log10(clean.abs().square().mean() / (clean - estimate).abs().square().mean()))


@pytest.mark.parametrize("analytic", [False, True])
@pytest.mark.parametrize("power", [0.01, 1.0])
def test_the_level_of_the_noise_is_found(power: float, analytic: bool) -> None:
    """In units of a bin of the short-time spectrum; noise of one half of the frequencies is twice as dense there."""
    noisy = tone() + math.sqrt(power) * white(analytic=analytic)
    rest = short_time(noisy - tone()).abs().square()
    found = noise_level(short_time(noisy).abs().square(), local_power(short_time(tone())), rest)
    density = power * float(torch.hann_window(FRAME).square().sum()) * (2 if analytic else 1)
    assert found.shape == (4, 1, 1)
    assert (found / density - 1).abs().max() < 0.1


def test_a_tone_passes_and_noise_does_not() -> None:
    noisy = tone() + white()
    assert snr(tone(), noisy) == pytest.approx(0, abs=0.2)
    # Five bins of 256 pass: the noise that is left has a fiftieth of its power.
    assert snr(tone(), refine(noisy, tone())) > 14


def test_a_wrong_phase_does_not_matter_and_a_wrong_frequency_does() -> None:
    noisy = tone() + white()
    assert snr(tone(), refine(noisy, 1j * tone())) == pytest.approx(snr(tone(), refine(noisy, tone())), abs=0.1)
    assert snr(tone(), refine(noisy, tone(-0.3))) < 1


def frames_of(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Short-time spectra [times, bins], one frame after the other, the ends mirrored."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    padded = np.pad(x, FRAME // 2, mode="reflect")
    starts = range(0, len(padded) - FRAME + 1, FRAME // 4)
    return np.stack([np.fft.fft(window * padded[start : start + FRAME]) for start in starts])


def plain_refine(noisy: npt.NDArray[Any], decoded: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same filter without a batch, loop by loop."""
    spectra, found = frames_of(noisy), np.abs(frames_of(decoded)) ** 2
    times, bins = found.shape
    prior = np.zeros_like(found)
    for t in range(times):
        for b in range(bins):
            near = [found[min(max(t + i, 0), times - 1), (b + j) % bins] for i in (-1, 0, 1) for j in (-1, 0, 1)]
            prior[t, b] = np.mean(near)
    power = np.abs(spectra) ** 2
    level = power.mean()
    for _ in range(8):
        gain = prior / (prior + level)
        level = np.mean((1 - gain) ** 2 * power + gain * level)
    level = min(level, np.mean(np.abs(spectra - frames_of(decoded)) ** 2))
    filtered = spectra * prior / (prior + level)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    total, weight = np.zeros(len(noisy) + FRAME, complex), np.zeros(len(noisy) + FRAME)
    for index, row in enumerate(filtered):
        span = slice(index * FRAME // 4, index * FRAME // 4 + FRAME)
        total[span] += window * np.fft.ifft(row)
        weight[span] += window**2
    inside = slice(FRAME // 2, FRAME // 2 + len(noisy))
    return total[inside] / weight[inside]


def test_equals_the_plain_filter() -> None:
    noisy, decoded = white(1)[:, :1024], tone(batch=1)[:, :1024] + 0.3 * white(1, seed=4)[:, :1024]
    expected = plain_refine(noisy[0].numpy().astype(complex), decoded[0].numpy().astype(complex))
    np.testing.assert_allclose(refine(noisy, decoded)[0].numpy(), expected, atol=2e-5)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.floats(1e-3, 1e3), st.sampled_from([256, 257, 1000, 5120]))
def test_any_scale_and_length(seed: int, scale: float, n: int) -> None:
    """The filter only ever takes away, and knows no unit of power."""
    noisy, decoded = white(2, seed=seed)[:, :n], white(2, seed=seed + 1)[:, :n]
    out = refine(noisy, decoded)
    assert out.shape == noisy.shape
    assert (out.abs().square().sum(-1) <= 1.001 * noisy.abs().square().sum(-1)).all()
    torch.testing.assert_close(refine(scale * noisy, scale * decoded), scale * out, rtol=1e-3, atol=1e-3 * scale)


def test_a_dense_signal_that_the_waveform_follows_is_no_noise() -> None:
    """By its powers alone three quarters of this white signal are noise; but the waveform follows it."""
    signal = white()
    assert snr(signal, refine(signal, 0.5 * signal)) > 5  # at most a quarter is noise, so half and more of it passes
    assert snr(signal, refine(signal, 0.5 * signal.roll(1000, -1))) < 3


@pytest.mark.parametrize(("n", "frame"), [(5120, FRAME), (1001, 64)])
def test_short_time_spectra_are_turned_back(n: int, frame: int) -> None:
    x = white()[:, :n]
    torch.testing.assert_close(from_short_time(short_time(x, frame), n), x, atol=1e-5, rtol=0)


def test_silence() -> None:
    nothing = torch.zeros(2, N, dtype=torch.complex64)
    for noisy, decoded in ((nothing, nothing), (nothing, white(2)), (white(2), nothing)):
        assert (refine(noisy, decoded) == 0).all()


def test_gradients_reach_the_waveform() -> None:
    decoded = white(2).requires_grad_()
    (refine(white(2, seed=5), decoded) - tone(batch=2)).abs().square().mean().backward()
    assert decoded.grad is not None and (decoded.grad.abs() > 0).all()
    silent = torch.zeros(2, N, dtype=torch.complex64, requires_grad=True)
    refine(white(2), silent).abs().square().mean().backward()
    assert silent.grad is not None and torch.view_as_real(silent.grad).isfinite().all()
