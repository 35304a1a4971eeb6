"""Two equal layers with their own weights, run as one batched product.

The Parseval focus (paper, Appendix A.7) treats a time view and a frequency view alike but with separate weights;
the leading axis of every tensor here is that pair, so both views cost one kernel call instead of two.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

NORM_EPS = 1e-6


def rms_scale(x: Tensor) -> Tensor:
    """``1 / rms`` over the last axis, kept as an axis of length one."""
    return torch.rsqrt(x.square().mean(-1, keepdim=True) + NORM_EPS)


class RMSNorm(nn.Module):
    """Root-mean-square normalisation over the last axis with a learned scale.

    >>> RMSNorm(4)(torch.full((1, 4), 3.0))
    tensor([[1., 1., 1., 1.]], grad_fn=<MulBackward0>)
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * rms_scale(x) * self.weight


class PairedLinear(nn.Module):
    """``count`` linear layers of one shape: ``[count, rows, in] -> [count, rows, out]``."""

    def __init__(self, in_dim: int, out_dim: int, count: int = 2) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, in_dim, out_dim))
        self.bias = nn.Parameter(torch.empty(count, 1, out_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(in): what ``nn.Linear`` starts with."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)
