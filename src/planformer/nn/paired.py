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
    return torch.rsqrt(torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1] + NORM_EPS)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """``x / rms(x) * weight`` over the last axis; weight ``[D]``, or ``[count, 1, D]`` for ``x [count, rows, D]``."""
    x = x.to(weight.dtype)  # under autocast x may be bfloat16: statistics stay in the weight's precision
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return _RMSNorm.apply(x, weight)
    return x * rms_scale(x) * weight


class _RMSNorm(torch.autograd.Function):
    """Saves the input and one number per row; the weight's gradient is a product instead of a full-size reduction."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        scale = rms_scale(x)
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
        x, weight, scale = ctx.saved_tensors
        dim = x.shape[-1]
        count = weight.numel() // dim
        column = weight.reshape(count, dim, 1)
        product = (grad * x).view(count, -1, dim)  # (count, rows, D)
        weight_grad = torch.bmm(scale.view(count, 1, -1), product).view_as(weight)
        along = torch.bmm(product, column).view_as(scale)  # (..., 1): sum of grad weight x
        x_grad = (grad * weight).mul_(scale)
        return x_grad.addcmul_(x, along * scale.pow(3), value=-1 / dim), weight_grad


class RMSNorm(nn.Module):
    """Root-mean-square normalisation over the last axis with a learned scale.

    >>> RMSNorm(4)(torch.full((1, 4), 3.0)).detach()
    tensor([[1., 1., 1., 1.]])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight)


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
