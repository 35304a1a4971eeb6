"""Causal cross-window focus (paper, Appendix A.4.2, "Causal Cross-Window Focus", algorithm AR_attention).

Features are ``[B, W, L, C]`` with L = 2n interleaved; a token is one complex sample of all channels, I first, then Q:
``[B, W, n, 2C]`` is a view of it. Window w attends to window w - 1; the first window passes unchanged.

The paper's transforms cancel. FFT, every s-th bin, a real map of the 2C numbers, small inverse FFT equals: fold the
sequence s times, then apply the map's complex-linear part at t and its conjugate-linear part at -t. The way up is the
same with a tiling instead of the fold. A constant in all bins (the bias) is an impulse at t = 0.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.nn.focus import (
    Centring,
    FocusNetwork,
    centre,
    column_variance,
    covariance_focus,
    head_orthogonality,
    merge_heads,
    soft_abs_floor,
    split_heads,
)
from planformer.nn.paired import RMSNorm
from planformer.nn.parseval import Aux, Domain
from planformer.nn.positions import sinusoidal_positions
from planformer.nn.spectral_pooling import native_pool


def spectral_map(tokens: Tensor, weight: Tensor) -> Tensor:
    """``IFFT(W FFT(tokens))`` along the tokens ``[..., N, 2C]`` for a real map ``W [2C, 2C]``, without a transform.

    W = A + B conj as a map of complex numbers, and the spectrum's conjugate belongs to the conjugate at -t.
    """
    half = weight.shape[0] // 2
    rr, ri = weight[:half, :half], weight[:half, half:]
    ir, ii = weight[half:, :half], weight[half:, half:]
    linear_i, linear_q = (rr + ii) / 2, (ir - ri) / 2
    linear = torch.cat((torch.cat((linear_i, -linear_q), 1), torch.cat((linear_q, linear_i), 1)))
    maps = torch.cat((linear, weight - linear), 1)  # (2C, 4C): for t and for -t
    reverse = tokens.roll(-1, -2).flip(-2)  # t -> -t modulo N
    return torch.cat((tokens, reverse), -1) @ maps.T


class CrossWindowFocus(nn.Module):
    """Focus of each window's compressed tokens on those of the window before, added to the features.

    >>> focus = CrossWindowFocus(16, length=64, stride=4, domain="time")
    >>> focus(torch.randn(2, 5, 128, 16))[0].shape
    torch.Size([2, 5, 128, 16])
    """

    def __init__(
        self,
        channels: int,
        *,
        length: int,
        stride: int,
        domain: Domain,
        num_heads: int = 4,
        centring: Centring = "features",
    ) -> None:
        super().__init__()
        dim = 2 * channels
        self.stride, self.num_heads, self.length = stride, num_heads, length // stride
        self.domain: Domain = domain
        self.centring: Centring = centring
        self.down = nn.Linear(dim, dim)  # a 1x1 convolution with this stride
        self.up = nn.Linear(dim, dim)  # the transposed one
        self.norm = RMSNorm(dim)
        self.queries = nn.Linear(dim, dim)
        self.keys_values = nn.Linear(dim, 2 * dim)
        self.network = FocusNetwork()
        positions = sinusoidal_positions(self.length * (2 if domain == "time" else 1), dim)
        self.register_buffer("previous_positions", positions[: self.length], persistent=False)
        self.register_buffer("current_positions", positions[-self.length :], persistent=False)

    def forward(self, x: Tensor, *, return_aux: bool = True) -> tuple[Tensor, Aux]:
        """Features ``[B, W, L, C]`` -> the same shape."""
        if x.shape[1] == 1:
            return x, {}
        tokens = x.view(*x.shape[:2], x.shape[2] // 2, -1)  # (B, W, n, 2C)
        focused, aux = self.attend(self.compress(self.shorten(tokens)), return_aux)
        return self.expand(focused, tokens).view_as(x), aux

    def can_pool(self, factor: int) -> bool:
        """Whether :meth:`forward_pooled` applies: whole tiles, or whole gaps between the bins, are pooled."""
        return (self.length if self.domain == "time" else self.stride) % factor == 0

    def forward_pooled(self, x: Tensor, factor: int, *, return_aux: bool = True) -> tuple[Tensor, Aux]:
        """The average of ``factor`` neighbours of what :meth:`forward` gives: ``[B, W, L, C] -> [B, W, L/factor, C]``.

        Averaging is linear, so the residual is added after it, on a tensor ``factor`` times smaller.
        """
        batch, windows, length, channels = x.shape
        tokens = x.view(batch, windows, length // 2, -1)
        short, pooled = shorten_and_pool(tokens, self.stride, factor, self.domain)
        shape = (batch, windows, length // factor, channels)
        if windows == 1:
            return pooled.view(shape), {}
        focused, aux = self.attend(self.compress(short), return_aux)
        if self.domain == "frequency":
            term = self.spread(self.up(focused) - self.up.bias, self.stride // factor) / factor + self.up.bias
        else:
            mapped = spectral_map(focused, self.up.weight / math.sqrt(self.stride))
            mapped = mapped.unflatten(2, (-1, factor)).mean(3)  # (B, W-1, N/r, 2C)
            impulse = self.impulse(self.up.bias / factor, length // 2, length // (2 * factor))
            term = mapped.repeat(1, 1, self.stride, 1) + impulse
        return torch.cat((pooled[:, :1], pooled[:, 1:] + term), 1).view(shape), aux

    def shorten(self, tokens: Tensor) -> Tensor:
        """``[B, W, n, 2C] -> [B, W, N, 2C]``: every s-th bin, or the fold that equals it for a time sequence."""
        if self.domain == "frequency":
            return tokens[:, :, :: self.stride]
        return tokens.unflatten(2, (self.stride, -1)).sum(2)

    def compress(self, short: Tensor) -> Tensor:
        """The learned spectral compression of shortened tokens, back in this branch's domain."""
        if self.domain == "frequency":
            return self.down(short)
        mapped = spectral_map(short, self.down.weight / math.sqrt(self.stride))
        return mapped + self.impulse(self.down.bias, self.length, self.length)

    def attend(self, tokens: Tensor, return_aux: bool) -> tuple[Tensor, Aux]:
        """Positions, norm and focus: tokens of all windows -> output for all but the first."""
        current = self.norm(tokens[:, 1:] + cast(Tensor, self.current_positions))
        previous = self.norm(tokens[:, :-1] + cast(Tensor, self.previous_positions))
        return self.focus(current, previous, return_aux)

    def focus(self, current: Tensor, previous: Tensor, return_aux: bool) -> tuple[Tensor, Aux]:
        """Multi-head focus with the previous window as keys and values."""
        keys, values = self.keys_values(previous).chunk(2, -1)
        queries = split_heads(soft_abs_floor(self.queries(current)), self.num_heads)  # (B, W-1, H, N, dk)
        keys = split_heads(soft_abs_floor(keys), self.num_heads)
        queries, keys = centre(queries, keys, self.centring)
        factor = self.network(column_variance(queries, keys))
        values = split_heads(values, self.num_heads)
        output, attention = covariance_focus(queries, keys, values, factor, weights=return_aux)
        aux = {} if attention is None else {"orthogonality/cross_window": head_orthogonality(attention)}
        return merge_heads(output), aux

    def expand(self, focused: Tensor, tokens: Tensor) -> Tensor:
        """Spectral upsampling of ``[B, W-1, N, 2C]`` and the residual."""
        if self.domain == "frequency":
            term = self.spread(self.up(focused) - self.up.bias, self.stride) + self.up.bias
        else:
            mapped = spectral_map(focused, self.up.weight / math.sqrt(self.stride))
            term = mapped.repeat(1, 1, self.stride, 1) + self.impulse(self.up.bias, tokens.shape[2], tokens.shape[2])
        return torch.cat((tokens[:, :1], tokens[:, 1:] + term), 1)

    @staticmethod
    def spread(tokens: Tensor, stride: int) -> Tensor:
        """The tokens at every stride-th position, zeros between: ``[B, W, N, 2C] -> [B, W, N stride, 2C]``."""
        return F.pad(tokens.unsqueeze(3), (0, 0, 0, stride - 1)).flatten(2, 3)

    @staticmethod
    def impulse(bias: Tensor, length: int, kept: int) -> Tensor:
        """The inverse transform of ``bias`` in every one of ``length`` bins, as ``[kept, 2C]``."""
        return F.pad(bias[None] * math.sqrt(length), (0, 0, 0, kept - 1))


def shorten_and_pool(tokens: Tensor, stride: int, factor: int, domain: Domain) -> tuple[Tensor, Tensor]:
    """Both readings of features ``[B, W, n, D]``: shortened by ``stride`` for the focus, averaged by ``factor``."""
    if torch.is_grad_enabled() and tokens.requires_grad:
        return _ShortenAndPool.apply(tokens, stride, factor, domain)
    return _shorten_and_pool(tokens, stride, factor, domain)


def _shorten_and_pool(tokens: Tensor, stride: int, factor: int, domain: Domain) -> tuple[Tensor, Tensor]:
    if domain == "frequency":
        short = tokens[:, :, ::stride].contiguous()
    else:
        short = tokens.unflatten(2, (stride, -1)).sum(2)
    batch, windows, _, dim = tokens.shape
    return short, native_pool(tokens.reshape(batch * windows, -1, dim // 2), factor).view(batch, windows, -1, dim)


class _ShortenAndPool(torch.autograd.Function):
    """The two gradients meet in one pass over the full size."""

    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx, tokens: Tensor, stride: int, factor: int, domain: Domain
    ) -> tuple[Tensor, Tensor]:
        ctx.stride, ctx.factor, ctx.domain = stride, factor, domain
        return _shorten_and_pool(tokens, stride, factor, domain)

    @staticmethod
    def backward(  # type: ignore[no-untyped-def]
        ctx, short: Tensor, pooled: Tensor
    ) -> tuple[Tensor, None, None, None]:
        batch, windows, count, dim = pooled.shape
        stride, factor = ctx.stride, ctx.factor
        pooled = (pooled / factor).contiguous()
        grad = pooled.new_empty(batch, windows, count * factor, dim)
        if ctx.domain == "frequency":
            grad.view(batch, windows, count, factor, dim).copy_(pooled.unsqueeze(3))
            grad.view(batch, windows, -1, stride, dim)[:, :, :, 0] += short
        else:
            tiles = short.reshape(batch, windows, 1, -1, factor, dim)  # (B, W, 1, N/r, r, D)
            means = pooled.view(batch, windows, stride, -1, 1, dim)  # (B, W, s, N/r, 1, D)
            torch.add(means, tiles, out=grad.view(batch, windows, stride, -1, factor, dim))
        return grad, None, None, None
