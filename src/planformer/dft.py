"""Fourier transforms in real arithmetic, as products with small matrices: the same numbers as :mod:`planformer.iq`.

For runtimes without complex numbers. ONNX Runtime's own transform loses accuracy at lengths that are not powers of two,
and the exporter handles complex views badly; a 64- or 80-point matrix product is exact and quick. The 1,024-point
transform is done in two steps of 32 points (Cooley-Tukey) with twiddle factors between them.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def dft_matrix(n: int, *, inverse: bool = False) -> Tensor:
    """The orthonormal DFT as a real matrix ``[2n, 2n]`` acting on real parts stacked over imaginary parts.

    >>> matrix = dft_matrix(8)
    >>> bool(torch.allclose(matrix @ matrix.T, torch.eye(16), atol=1e-6))
    True
    """
    phase = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n) * (1 if inverse else -1)
    cos, sin = np.cos(phase) / math.sqrt(n), np.sin(phase) / math.sqrt(n)
    return torch.tensor(np.block([[cos, -sin], [sin, cos]]), dtype=torch.float32)


def token_dft(tokens: Tensor, *, inverse: bool = False) -> Tensor:
    """As :func:`planformer.iq.token_fft`: along the token axis of ``[..., n, 2C]``."""
    n = tokens.shape[-2]
    pairs = tokens.unflatten(-1, (-1, 2))  # (..., n, C, 2)
    stacked = torch.cat((pairs[..., 0], pairs[..., 1]), -2)  # (..., 2n, C)
    real, imaginary = (dft_matrix(n, inverse=inverse) @ stacked).split(n, -2)
    return torch.stack((real, imaginary), -1).flatten(-2)  # (..., n, 2C)


def dft(x: Tensor, *, inverse: bool = False) -> Tensor:
    """As :func:`planformer.iq.fft` (or ``ifft``): along the last axis of an interleaved ``[..., 2n]``."""
    n = x.shape[-1] // 2
    rows = 1 << (int(math.log2(n)) // 2)
    if n % rows:
        rows = 1
    columns = n // rows
    grid = x.unflatten(-1, (rows, 2 * columns))  # (..., rows, 2 columns): sample r * columns + c
    grid = token_dft(grid, inverse=inverse)  # along the rows -> index k1
    phase = 2 * np.pi / n * np.outer(np.arange(rows), np.arange(columns)) * (1 if inverse else -1)
    cos, sin = (torch.tensor(f(phase), dtype=torch.float32) for f in (np.cos, np.sin))  # (rows, columns)
    pairs = grid.unflatten(-1, (columns, 2))  # (..., k1, c, 2)
    real, imaginary = pairs[..., 0], pairs[..., 1]
    turned = torch.stack((real * cos - imaginary * sin, real * sin + imaginary * cos), -1)  # (..., k1, c, 2)
    swapped = turned.transpose(-3, -2).flatten(-2)  # (..., c, 2 k1)
    return token_dft(swapped, inverse=inverse).flatten(-2)  # (..., k2, 2 k1): bin k1 + rows * k2
