"""Gated fusion of decoder features with a cleaned skip connection (paper, Appendix A.4 GLU, Algorithm B.1).

The encoder's GLU normalises every token by itself. Between spectra that would lift each empty bin to the level of the
carrier and forget the spectral envelope, so here one root mean square is taken over the whole segment: the relative
levels of bins, samples and windows survive. The parameters are those of the encoder's GLU.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SegmentRMSNorm(nn.Module):
    """Divide ``[B, ..., D]`` by its root mean square over all axes but the first, then scale each feature.

    >>> SegmentRMSNorm(4)(torch.full((2, 3, 5, 4), 7.0)).unique()
    tensor([1.], grad_fn=<Unique2Backward0>)
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        power = x.square().flatten(1).mean(dim=1)
        scale = torch.rsqrt(power + self.eps).view(-1, *[1] * (x.dim() - 1))
        return x * scale * self.weight


class SkipFusion(nn.Module):
    """``value * sigmoid(gate)`` of the concatenation of two token sequences of width D each -> width D.

    >>> SkipFusion(8)(torch.zeros(2, 5, 64, 8), torch.zeros(2, 5, 64, 8)).shape
    torch.Size([2, 5, 64, 8])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = SegmentRMSNorm(2 * dim)
        self.project = nn.Linear(2 * dim, 2 * dim)  # value and gate in one product
        # Start as twice the half-open gate of the mean of both inputs plus a random part: features pass at once.
        with torch.no_grad():
            nn.init.zeros_(self.project.bias)
            both = torch.cat([torch.eye(dim), torch.eye(dim)], dim=1)
            self.project.weight[:dim].add_(2 * 0.5**0.5 * both)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        value, gate = self.project(self.norm(torch.cat([x, skip], dim=-1))).chunk(2, dim=-1)
        return value * torch.sigmoid(gate)
