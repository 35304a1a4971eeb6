"""Pooling by explicit transforms, on ``[B, C, L]`` interleaved."""

from __future__ import annotations

import torch
from torch import Tensor

from planformer import iq


def average(x: Tensor, factor: int) -> Tensor:
    """Mean of ``factor`` neighbouring complex values."""
    z = iq.deinterleave(x)
    return iq.interleave(z.view(*z.shape[:-1], -1, factor).mean(-1))


def pool(x: Tensor, factor: int, domain: str, pooling: str) -> Tensor:
    if pooling == "native" or domain == "frequency":
        return average(x, factor)
    return iq.ifft(average(iq.fft(x), factor))


def decimate_in_time(x: Tensor, factor: int) -> Tensor:
    """What a conventional network does: average in time."""
    return average(x, factor)


def tone(bin_index: int, length: int) -> Tensor:
    """A complex exponential at one bin, interleaved ``[1, 1, 2 length]``."""
    phase = 2 * torch.pi * bin_index * torch.arange(length) / length
    return iq.interleave(torch.polar(torch.ones(length), phase))[None, None]
