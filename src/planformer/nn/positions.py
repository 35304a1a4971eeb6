"""The sinusoidal position table (paper, Appendix A.4.2, "Domain-Specific Positional Encoding")."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoidal_positions(length: int, dim: int) -> Tensor:
    """Table ``[length, dim]``: sines in the even columns, cosines in the odd ones, wavelengths 2 pi to 20,000 pi.

    >>> sinusoidal_positions(2, 4)[0]
    tensor([0., 1., 0., 1.])
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10_000.0) / dim))
    table = torch.empty(length, dim, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate[: dim // 2])
    return table.float()
