"""Gated linear unit for fusion (paper, Appendix A.5, algorithm "Gated Linear Unit Fusion"): 4 d^2 + 4 d parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.nn.paired import PairedLinear, RMSNorm, rms_norm


class GLU(nn.Module):
    """RMSNorm, then value times sigmoid(gate): ``[..., in] -> [..., out]``.

    >>> GLU(8, 4)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 4])
    """

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.norm = RMSNorm(in_dim)
        self.projection = nn.Linear(in_dim, 2 * out_dim)  # value, then gate

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(self.projection(self.norm(x)), dim=-1)


class PairedGLU(nn.Module):
    """``count`` GLUs with their own weights: ``[count, rows, in] -> [count, rows, out]``."""

    def __init__(self, in_dim: int, out_dim: int, count: int = 2) -> None:
        super().__init__()
        self.norm_weight = nn.Parameter(torch.ones(count, 1, in_dim))
        self.projection = PairedLinear(in_dim, 2 * out_dim, count)

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(self.projection(rms_norm(x, self.norm_weight)), dim=-1)
