"""Upsampling by a transposed convolution over tokens, in the frequency domain (paper, Appendix B.3.1).

Kernel and stride are equal, so the transposed convolution is one matrix product per token and no scatter:
token k becomes the tokens ``r*k .. r*k + r-1``. Over *bins* it is the mirror of the encoder's spectral pooling; over
*samples* it is the mirror of its native pooling. The two have the same parameters.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from planformer.iq import token_fft

Domain = Literal["time", "frequency"]
UpsamplingAxis = Literal["frequency", "native"]


class SpectralUpsampling(nn.Module):
    """Tokens ``[B, n, in_dim]`` of a domain -> tokens ``[B, ratio * n, out_dim]``.

    ``forward(..., domain="time")`` with ``axis="frequency"`` transforms, upsamples the spectrum and *stays in the
    frequency domain* when ``keep_spectrum`` is set, since the skip connection is fused there before the inverse
    transform.

    >>> SpectralUpsampling(8, 8)(torch.zeros(2, 16, 8), domain="frequency").shape
    torch.Size([2, 64, 8])
    """

    def __init__(self, in_dim: int, out_dim: int, ratio: int = 4, *, axis: UpsamplingAxis = "frequency") -> None:
        super().__init__()
        self.ratio = ratio
        self.axis = axis
        self.expand = nn.Linear(in_dim, ratio * out_dim)
        self._start(in_dim, out_dim)

    @torch.no_grad()
    def _start(self, in_dim: int, out_dim: int) -> None:
        """Near the energy-keeping copy of each token to its ``ratio`` successors, plus a random part."""
        nn.init.zeros_(self.expand.bias)
        weight = torch.randn(self.ratio, out_dim, in_dim) * (0.5 * in_dim**-0.5)
        weight += torch.eye(out_dim, in_dim)
        self.expand.weight.copy_(weight.flatten(0, 1))

    def forward(self, tokens: Tensor, *, domain: Domain, keep_spectrum: bool = False) -> Tensor:
        through_spectrum = domain == "time" and self.axis == "frequency"
        if through_spectrum:
            tokens = token_fft(tokens)
        n = tokens.shape[-2]
        # (B, n, r * D) -> (B, n * r, D): the r successors of a token are neighbours
        tokens = self.expand(tokens).unflatten(-1, (self.ratio, -1)).flatten(-3, -2)
        assert tokens.shape[-2] == n * self.ratio
        if domain == "time" and keep_spectrum:
            return tokens if through_spectrum else token_fft(tokens)
        return token_fft(tokens, inverse=True) if through_spectrum else tokens
