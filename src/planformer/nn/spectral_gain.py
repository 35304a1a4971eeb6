"""A decoded waveform as the prior of a Wiener filter: what it says about *where* the signal is, not each sample of it.

The decoder sees the signal through features that are 4 and 16 times compressed, so a faint detail of a strong signal is
lost in its waveform, while the power it finds in each short time and narrow band is about right. Here the input itself
passes, each bin of its short-time spectrum times ``P / (P + N)``: P is the decoded power around the bin, N the level of
white noise. The level need not be known: it is found from both by expectation-maximisation, and is never above what
the waveform leaves of the input (a signal as dense as a text looks like noise, but a waveform that follows it knows).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

FRAME = 256  # samples of a short-time spectrum; a quarter of them from one to the next
SMOOTHING = 3  # bins and frames over which decoded power is averaged
ITERATIONS = 8
EMPTY = 0.03  # share of the power below which half of the frequencies are empty; a hundredth leaks across the border
FLOOR = 1e-12


def refine(noisy: Tensor, decoded: Tensor, frame: int = FRAME) -> Tensor:
    """Complex input ``[B, n]`` and the waveform decoded from it -> the input without what is not in the waveform.

    A waveform that is silent silences, and one that equals the input leaves it nearly as it is.

    >>> x = torch.randn(2, 5120, dtype=torch.complex64)
    >>> float(refine(x, 0 * x).abs().max()), bool((refine(x, x) - x).abs().mean() < 0.05)
    (0.0, True)
    """
    spectra, found = short_time(noisy, frame), short_time(decoded, frame)
    prior, rest = local_power(found), (spectra - found).abs().square()
    noise = noise_level(spectra.abs().square().detach(), prior.detach(), rest.detach())
    return from_short_time(spectra * (prior / (prior + noise + FLOOR)), noisy.shape[-1])


def short_time(x: Tensor, frame: int = FRAME) -> Tensor:
    """Complex ``[B, n]`` -> short-time spectra ``[B, frame, times]``, frequencies in the order of the FFT."""
    window = torch.hann_window(frame, device=x.device, dtype=x.real.dtype)
    return torch.stft(x, frame, frame // 4, window=window, onesided=False, return_complex=True)


def from_short_time(spectra: Tensor, n: int) -> Tensor:
    """Short-time spectra ``[B, frame, times]`` -> complex ``[B, n]``, the inverse of :func:`short_time`."""
    frame = spectra.shape[1]
    window = torch.hann_window(frame, device=spectra.device, dtype=spectra.real.dtype)
    return torch.istft(spectra, frame, frame // 4, window=window, onesided=False, length=n, return_complex=True)


def local_power(spectra: Tensor) -> Tensor:
    """Power averaged over neighbouring bins and frames; the highest and the lowest frequency are neighbours."""
    power = spectra.abs().square()[:, None]
    reach = SMOOTHING // 2
    padded = F.pad(F.pad(power, (0, 0, reach, reach), mode="circular"), (reach, reach, 0, 0), mode="replicate")
    return F.avg_pool2d(padded, SMOOTHING, stride=1)[:, 0]


def noise_level(power: Tensor, prior: Tensor, rest: Tensor) -> Tensor:
    """The most likely level of white noise in ``power`` ``[B, bins, times]`` around a signal of power ``prior``.

    ``[B, 1, 1]``, the mean power of a bin that holds noise only, at most the mean of ``rest``. Each round splits every
    bin into signal and noise as they are expected to be at the level so far, and takes the mean of the noise. A half of
    the frequencies that is empty, as in every analytic signal, does not count.
    """
    halves = power.unflatten(1, (2, -1)).sum((2, 3))  # (B, 2): frequencies above and below zero
    counted = (halves >= EMPTY * halves.sum(1, keepdim=True)).to(power.dtype)
    counted = counted.repeat_interleave(power.shape[1] // 2, dim=1)[..., None]  # (B, bins, 1)
    weights = counted / (counted.sum(1, keepdim=True) * power.shape[2])

    def mean(x: Tensor) -> Tensor:
        return (weights * x).sum((1, 2), keepdim=True)

    level = mean(power)  # everything is noise; the rounds make it less
    for _ in range(ITERATIONS):
        gain = prior / (prior + level + FLOOR)
        level = mean((1 - gain).square() * power + gain * level)
    return torch.minimum(level, mean(rest))
