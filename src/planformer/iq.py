"""Interleaved IQ: complex sequences stored as real ones, and the orthonormal FFT on them (paper, Appendix A.3).

A complex sequence of n samples is a real one of length 2n, ``[I0 Q0 I1 Q1 ...]``, along the last axis.
``view_as_complex`` on contiguous pairs is free, so none of these functions copies unless its input is strided.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from planformer import dft

_in_real_arithmetic = False


@contextmanager
def real_arithmetic() -> Iterator[None]:
    """Inside, transforms are products with small real matrices (:mod:`planformer.dft`), for other runtimes."""
    global _in_real_arithmetic
    before, _in_real_arithmetic = _in_real_arithmetic, True
    try:
        yield
    finally:
        _in_real_arithmetic = before


def interleave(x: Tensor) -> Tensor:
    """Complex ``[..., n]`` -> real interleaved ``[..., 2n]``.

    >>> interleave(torch.tensor([1 + 2j, 3 + 4j]))
    tensor([1., 2., 3., 4.])
    """
    return torch.view_as_real(x.resolve_conj()).flatten(-2)


def deinterleave(x: Tensor) -> Tensor:
    """Real interleaved ``[..., 2n]`` -> complex ``[..., n]``.

    >>> deinterleave(torch.tensor([1., 2., 3., 4.]))
    tensor([1.+2.j, 3.+4.j])
    """
    if x.shape[-1] % 2:
        raise ValueError(f"an interleaved sequence has an even length, not {x.shape[-1]}")
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())


def fft(x: Tensor) -> Tensor:
    """Orthonormal FFT along the last axis of an interleaved tensor: energy is conserved."""
    if _in_real_arithmetic:
        return dft.dft(x)
    return interleave(torch.fft.fft(deinterleave(x), norm="ortho"))


def ifft(x: Tensor) -> Tensor:
    """Inverse of :func:`fft`."""
    if _in_real_arithmetic:
        return dft.dft(x, inverse=True)
    return interleave(torch.fft.ifft(deinterleave(x), norm="ortho"))


def channels_to_tokens(x: Tensor) -> Tensor:
    """Features ``[..., C, 2n]`` -> tokens ``[..., n, 2C]``: each token interleaves the IQ pairs of all channels.

    Token k is ``[I_k^0 Q_k^0 I_k^1 Q_k^1 ...]`` over the channels, so the token axis counts complex samples.
    """
    pairs = x.unflatten(-1, (-1, 2))  # (..., C, n, 2)
    return pairs.transpose(-3, -2).flatten(-2)  # (..., n, 2C)


def tokens_to_channels(tokens: Tensor) -> Tensor:
    """Inverse of :func:`channels_to_tokens`: ``[..., n, 2C]`` -> ``[..., C, 2n]``."""
    pairs = tokens.unflatten(-1, (-1, 2))  # (..., n, C, 2)
    return pairs.transpose(-3, -2).flatten(-2)  # (..., C, 2n)


def token_fft(tokens: Tensor, *, inverse: bool = False) -> Tensor:
    """Orthonormal (I)FFT along the token axis of ``[..., n, 2C]``, each IQ pair of the width being one channel."""
    if _in_real_arithmetic:
        return dft.token_dft(tokens, inverse=inverse)
    x = torch.view_as_complex(tokens.unflatten(-1, (-1, 2)).contiguous())  # (..., n, C)
    transform = torch.fft.ifft if inverse else torch.fft.fft
    return interleave(transform(x, dim=-2, norm="ortho"))
