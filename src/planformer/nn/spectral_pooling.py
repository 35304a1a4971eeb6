"""Pooling by averaging neighbours (paper, Appendix A.4.2, "Spectral Compression Via Frequency Domain Pooling").

Features are ``[M, L, C]`` with L = 2n interleaved, so ``[M, n, 2, C]`` is a view that separates I and Q.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def native_pool(x: Tensor, factor: int) -> Tensor:
    """Average ``factor`` neighbouring complex positions: samples of a time sequence, bins of a spectrum.

    >>> native_pool(torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 4, 1), 2).flatten()
    tensor([2., 3.])
    """
    m, length, channels = x.shape
    image = x.reshape(m, 1, length // 2, 2 * channels).permute(0, 3, 1, 2)  # (M, 2C, 1, n), channels_last in memory
    return F.avg_pool2d(image, (1, factor)).permute(0, 2, 3, 1).reshape(m, length // factor, channels)


def fold_window(length: int, factor: int) -> Tensor:
    """``w[k] = r^(-3/2) sum_{j<r} exp(-2 pi i j k / n)`` as ``[r, n/r]`` complex: see :class:`SpectralPooling`."""
    k = torch.arange(length, dtype=torch.float64)
    j = torch.arange(factor, dtype=torch.float64)[:, None]
    window = torch.polar(torch.ones(factor, length, dtype=torch.float64), -2 * math.pi * j * k / length).sum(0)
    return (window / factor**1.5).view(factor, -1).to(torch.complex64)


class SpectralPooling(nn.Module):
    """Average ``factor`` neighbouring bins of the spectrum of a *time* sequence, without a transform.

    FFT, average over r bins, inverse FFT (orthonormal) equals a product with a fixed complex window and a sum of the
    r folded segments of length n/r. The window is 1 at its ends and 0 at n/4, n/2 and 3n/4 for r = 4: the spectrum's
    envelope is kept, and time near the window's borders is what carries it.
    """

    def __init__(self, length: int, factor: int) -> None:
        super().__init__()
        self.factor = factor
        window = torch.view_as_real(fold_window(length, factor))  # (r, n/r, 2)
        self.register_buffer("real", window[..., 0, None].contiguous(), persistent=False)  # (r, n/r, 1)
        self.register_buffer("imaginary", window[..., 1, None].contiguous(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        m, length, channels = x.shape
        parts = x.reshape(m, self.factor, -1, 2, channels)  # (M, r, n/r, 2, C)
        i, q = parts.unbind(3)
        real, imaginary = cast(Tensor, self.real), cast(Tensor, self.imaginary)
        pooled_i = (i * real).sum(1) - (q * imaginary).sum(1)
        pooled_q = (q * real).sum(1) + (i * imaginary).sum(1)
        return torch.stack((pooled_i, pooled_q), 2).view(m, length // self.factor, channels)
