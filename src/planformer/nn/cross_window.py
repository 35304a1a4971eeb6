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
        self.stride, self.domain, self.num_heads = stride, domain, num_heads
        self.centring: Centring = centring
        self.down = nn.Linear(dim, dim)  # a 1x1 convolution with this stride
        self.up = nn.Linear(dim, dim)  # the transposed one
        self.norm = RMSNorm(dim)
        self.queries = nn.Linear(dim, dim)
        self.keys_values = nn.Linear(dim, 2 * dim)
        self.network = FocusNetwork()
        short = length // stride
        positions = sinusoidal_positions(2 * short if domain == "time" else short, dim)
        self.register_buffer("previous_positions", positions[:short], persistent=False)
        self.register_buffer("current_positions", positions[-short:], persistent=False)

    def forward(self, x: Tensor, *, return_aux: bool = True) -> tuple[Tensor, Aux]:
        """Features ``[B, W, L, C]`` -> the same shape."""
        batch, windows = x.shape[:2]
        if windows == 1:
            return x, {}
        tokens = self.compress(x.view(batch, windows, x.shape[2] // 2, -1))  # (B, W, N, 2C)
        current = self.norm(tokens[:, 1:] + cast(Tensor, self.current_positions))
        previous = self.norm(tokens[:, :-1] + cast(Tensor, self.previous_positions))
        focused, aux = self.focus(current, previous, return_aux)
        return self.expand(focused, x), aux

    def compress(self, tokens: Tensor) -> Tensor:
        """``[B, W, n, 2C] -> [B, W, n/s, 2C]``: the learned spectral compression, back in this branch's domain."""
        if self.domain == "frequency":
            return self.down(tokens[:, :, :: self.stride])
        folded = tokens.unflatten(2, (self.stride, -1)).sum(2)  # (B, W, N, 2C)
        mapped = spectral_map(folded, self.down.weight / math.sqrt(self.stride))
        return mapped + self.impulse(self.down.bias, folded.shape[2])

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

    def expand(self, focused: Tensor, x: Tensor) -> Tensor:
        """Spectral upsampling of ``[B, W-1, N, 2C]`` and the residual."""
        tokens = x.view(*x.shape[:2], x.shape[2] // 2, -1)
        if self.domain == "frequency":
            mapped = self.up(focused) - self.up.bias  # the bias is in every bin, so it is added below
            sparse = torch.zeros_like(tokens[:, 1:]).unflatten(2, (-1, self.stride))
            sparse[:, :, :, 0] = mapped
            term = sparse.flatten(2, 3) + self.up.bias
        else:
            mapped = spectral_map(focused, self.up.weight / math.sqrt(self.stride))
            term = mapped.repeat(1, 1, self.stride, 1) + self.impulse(self.up.bias, tokens.shape[2])
        return torch.cat((tokens[:, :1], tokens[:, 1:] + term), 1).view_as(x)

    @staticmethod
    def impulse(bias: Tensor, length: int) -> Tensor:
        """The inverse transform of ``bias`` in every one of ``length`` bins: ``[length, 2C]``."""
        return torch.nn.functional.pad(bias[None] * math.sqrt(length), (0, 0, 0, length - 1))
