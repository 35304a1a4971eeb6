"""Selective fading: a channel whose gain over frequency changes while a sequence is sent."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

TIMES, FREQUENCIES = 5, 16  # points at which the gain is given, evenly over the sequence and over the band
FRAME = 256
DEPTH = 1.2  # natural logarithm of the amplitude for a control value of one


def selective_fade(x: Tensor, control: Tensor, speed: Tensor, scale: Tensor) -> Tensor:
    """Complex ``[B, n]`` through gains ``exp(1.2 control)``, ``control`` ``[B, TIMES, FREQUENCIES]``.

    Frequencies run from the lowest to the highest and the gain is smooth between the points. ``speed[i]`` other than 1
    lets it change earlier or later, ``scale[i]`` other than 1 moves all its peaks away from zero frequency or towards
    it. Frames overlap by half and add up to the signal itself where the gain is one.
    """
    n, hop = x.shape[-1], FRAME // 2
    padded = F.pad(x, (hop, hop + (-n) % hop))
    window = torch.hann_window(FRAME).sqrt()  # squares of neighbours add up to one
    frames = padded.unfold(-1, FRAME, hop) * window  # (B, T, FRAME)
    gain = torch.fft.ifftshift(_gains(control, speed, scale, frames.shape[1]), dim=-1)
    frames = torch.fft.ifft(torch.fft.fft(frames) * gain) * window
    out = torch.zeros_like(padded)
    even, odd = frames[:, ::2].flatten(1), frames[:, 1::2].flatten(1)
    out[:, : even.shape[1]] += even
    out[:, hop : hop + odd.shape[1]] += odd
    return out[:, hop : hop + n]


def _gains(control: Tensor, speed: Tensor, scale: Tensor, count: int) -> Tensor:
    """``[B, count, FRAME]``, the lowest frequency first."""
    time = torch.linspace(0, 1, count)[None] ** speed[:, None]  # (B, T)
    frequency = torch.arange(-FRAME // 2, FRAME // 2) / (FRAME / 2) / scale[:, None]  # (B, FRAME)
    shape = (len(control), count, FRAME)
    grid = torch.stack((frequency[:, None].expand(shape), (2 * time - 1)[:, :, None].expand(shape)), -1)
    curve = F.grid_sample(control[:, None], grid, padding_mode="border", align_corners=True)
    return torch.exp(DEPTH * curve[:, 0])
