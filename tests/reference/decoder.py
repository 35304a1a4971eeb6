"""Slow, obvious versions of the decoder's bricks: loops and complex numbers instead of reshapes."""

from __future__ import annotations

import cmath
import math

import torch
from torch import Tensor


def transposed_convolution(tokens: Tensor, weight: Tensor, bias: Tensor, ratio: int) -> Tensor:
    """Tokens [n, D] through a transposed convolution with kernel = stride = ratio; weight [ratio * D, D]."""
    dim = tokens.shape[1]
    out = torch.zeros(ratio * len(tokens), weight.shape[0] // ratio)
    width = out.shape[1]
    for k in range(len(tokens)):
        for j in range(ratio):
            for o in range(width):
                row = j * width + o
                out[ratio * k + j, o] = bias[row] + sum(weight[row, i] * tokens[k, i] for i in range(dim))
    return out


def modulate_sample(z: complex, gamma: tuple[float, float], alpha: tuple[float, float]) -> complex:
    """The complex activation of one sample, as the paper writes it."""
    magnitude, phase = abs(z), cmath.phase(z)
    bent = alpha[0] * math.tanh(gamma[0] * magnitude + magnitude)
    return bent * cmath.exp(1j * (phase + gamma[1] + alpha[1]))


def strided_bins(tokens: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """Time tokens [n, 2C]: full transform, keep every stride-th bin, linear map, small inverse transform."""
    spectrum = torch.fft.fft(torch.view_as_complex(tokens.unflatten(-1, (-1, 2)).contiguous()), dim=0, norm="ortho")
    kept = torch.view_as_real(spectrum[::stride]).flatten(-2) @ weight.T + bias
    back = torch.fft.ifft(torch.view_as_complex(kept.unflatten(-1, (-1, 2)).contiguous()), dim=0, norm="ortho")
    return torch.view_as_real(back).flatten(-2)


def zero_stuffed_bins(tokens: Tensor, weight: Tensor, stride: int) -> Tensor:
    """The counterpart: small transform, linear map, one bin in stride, full inverse transform."""
    spectrum = torch.fft.fft(torch.view_as_complex(tokens.unflatten(-1, (-1, 2)).contiguous()), dim=0, norm="ortho")
    mapped = torch.view_as_real(spectrum).flatten(-2) @ weight.T
    full = torch.zeros(len(tokens) * stride, mapped.shape[1] // 2, dtype=torch.complex64)
    full[::stride] = torch.view_as_complex(mapped.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(torch.fft.ifft(full, dim=0, norm="ortho")).flatten(-2)
