"""Pairs of one kind: two stretches of one recording that took the same steps, each with a channel and noise of its own.

A probe asks which signals are of one kind although they were recorded elsewhere, at another time, at another pitch. Who
sends and how says the same in every stretch of a recording; the channel does too, and would be the easiest thing to
recognise a recording by. So each stretch goes through another channel here, and what is left in common is the kind.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from planformer.data.augment import unit_power

CHANNEL_PROB, NOISE_PROB = 0.5, 0.3
PATHS, MAX_DELAY, PATH_AMPLITUDE = 3, 12, 0.5  # echoes beside the direct path: how many, samples, at most so strong
NOISE_DB = (8.0, 40.0)

IntArray = npt.NDArray[np.int64]


def first_of(count: int, size: int) -> Tensor:
    """Index of the first of each row's ``size`` neighbours, which decides for all of them."""
    index = torch.arange(count)
    return index - index % size


def alike(values: Tensor, first: Tensor, spread: float, generator: torch.Generator) -> Tensor:
    """Normal numbers ``[B, ...]`` that are nearly those of the first of each kind, as widely spread as before."""
    own = torch.randn(values.shape, generator=generator)
    return math.sqrt(1 - spread**2) * values[first] + spread * own


def companions(chosen: IntArray, recordings: IntArray, size: int, rng: np.random.Generator) -> IntArray:
    """Keep the first of every ``size`` indices; the others become other sequences of its recording.

    ``recordings`` names the recording of every sequence of the data set, those of one recording in a row. A recording
    of one sequence gives that one again.

    >>> companions(np.array([0, 4]), np.array([7, 7, 8, 8, 8]), 2, np.random.default_rng(0)).tolist()
    [0, 1]
    """
    out = chosen.copy()
    for start in range(0, len(chosen), size):
        own = recordings[chosen[start]]
        low, high = (int(np.searchsorted(recordings, own, side=side)) for side in ("left", "right"))
        others = np.setdiff1d(np.arange(low, high), chosen[start])
        for place in range(start + 1, min(start + size, len(chosen))):
            out[place] = rng.choice(others) if len(others) else chosen[start]
    return out


def vary(x: Tensor, generator: torch.Generator) -> Tensor:
    """Complex sequences ``[B, n]`` through channels and noise of their own; silence stays silent, power stays one.

    The carrier stays where it is: by how much it is off is one of the things that tell emitters apart.
    """
    count, n = x.shape
    through = torch.rand(count, generator=generator) < CHANNEL_PROB
    noisy = torch.rand(count, generator=generator) < NOISE_PROB
    delay = 1 + (MAX_DELAY - 1) * torch.rand(count, PATHS, generator=generator)
    path = torch.polar(
        PATH_AMPLITUDE * torch.rand(count, PATHS, generator=generator),
        2 * torch.pi * torch.rand(count, PATHS, generator=generator),
    )
    phase = torch.polar(torch.ones(count), 2 * torch.pi * torch.rand(count, generator=generator))
    low, high = NOISE_DB
    amplitude = 10 ** (-(low + (high - low) * torch.rand(count, generator=generator)) / 20)
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)

    frequency = torch.fft.fftfreq(n)
    echoes = torch.polar(torch.ones(()), -2 * torch.pi * delay[:, :, None] * frequency)  # (B, paths, n)
    gain = 1 + (path[:, :, None] * echoes).sum(1)
    heard = torch.where(through[:, None], phase[:, None] * torch.fft.ifft(torch.fft.fft(x) * gain), x)
    present = x != 0
    heard = heard * present
    scale = (present.sum(-1, keepdim=True) / heard.abs().square().sum(-1, keepdim=True).clamp_min(1e-12)).sqrt()
    heard = scale * heard + (amplitude * noisy)[:, None] * noise * present
    return torch.where((through | noisy)[:, None], unit_where_present(heard), x)


def unit_where_present(x: Tensor) -> Tensor:
    """Unit power over the samples that are there: silence is not signal."""
    return unit_power(x) * (x != 0).float().mean(-1, keepdim=True).sqrt()
