"""Latent source separation transformer (paper, Appendix C, "Latent Source Separation Transformer").

Tokens of a mixture -> tokens of the dominant source A and of the interferer B; one network per domain, 8,603,907
parameters. The three ICA layers are orthogonal by parametrisation, the unmixing layer only at the start.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrize import register_parametrization

from planformer.models.batch_norm import JointBatchNorm
from planformer.nn.parseval import Domain, ParsevalTransformer

NORM_EPS = 1e-8
NUM_ITERATIONS = 3


class CayleyOrthogonal(nn.Module):
    """Square matrix A -> ``(I - S)^-1 (I + S)`` with S the skew part of A: orthogonal for every A.

    The product is a rotation with no fixed plane excluded but angles of exactly pi, and ``I - S`` is always well
    conditioned enough to solve in single precision.
    """

    def forward(self, weight: Tensor) -> Tensor:
        skew = (weight - weight.T) / 2
        identity = torch.eye(weight.shape[0], dtype=weight.dtype, device=weight.device)
        return torch.linalg.solve(identity - skew, identity + skew)


def orthogonal_linear(dim: int) -> nn.Module:
    """A bias-free ``dim x dim`` layer that stays orthogonal whatever the optimiser does to its parameter.

    >>> weight = orthogonal_linear(8).weight
    >>> torch.allclose(weight @ weight.T, torch.eye(8), atol=1e-5)
    True
    """
    layer = nn.Linear(dim, dim, bias=False)
    # A skew Gaussian matrix of this scale has singular values up to 2: rotations by up to 127 degrees.
    nn.init.normal_(layer.weight, std=math.sqrt(2 / dim))
    register_parametrization(layer, "weight", CayleyOrthogonal())
    return layer


class _LogCosh(torch.autograd.Function):
    """log cosh x without cancellation: log1p(2 sinh^2(x / 2)) for small x, |x| + softplus(-2|x|) - ln 2 beyond."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        size = x.abs()
        small = torch.log1p(2 * torch.sinh(size.clamp_max(1.0) / 2).square())
        return torch.where(size < 1, small, size + F.softplus(-2 * size) - math.log(2))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * torch.tanh(x)


def log_cosh(x: Tensor) -> Tensor:
    """``log(cosh(x))``, accurate for tiny and huge x; its slope is tanh(x).

    >>> log_cosh(torch.tensor([0.0, 10.0]))
    tensor([0.0000, 9.3069])
    """
    result: Tensor = _LogCosh.apply(x)
    return result


class LatentSeparationTransformer(nn.Module):
    """Expand, focus, refine by three ICA-like steps, unmix into two sources.

    >>> network = LatentSeparationTransformer(16, num_heads=4, domain="time")
    >>> a, b, aux = network(torch.randn(3, 10, 16))
    >>> a.shape, b.shape
    (torch.Size([3, 10, 16]), torch.Size([3, 10, 16]))
    """

    def __init__(
        self,
        dim: int = 128,
        *,
        domain: Domain,
        expansion: int = 4,
        num_heads: int = 8,
        dropout_prob: float = 0.25,
    ) -> None:
        super().__init__()
        self.domain: Domain = domain
        wide = expansion * dim
        self.linear_1, self.norm_1 = nn.Linear(dim, wide), JointBatchNorm(wide)
        self.linear_2, self.norm_2 = nn.Linear(wide, wide), JointBatchNorm(wide)
        self.dropout = nn.Dropout(dropout_prob)
        self.block = ParsevalTransformer(wide, num_heads)
        self.rotations = nn.ModuleList(orthogonal_linear(wide) for _ in range(NUM_ITERATIONS))
        self.unmixing = nn.Linear(wide, 2 * dim, bias=False)
        nn.init.orthogonal_(self.unmixing.weight)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Tokens ``[B, N, D]`` of the mixture -> those of A and B, and the block's regularisers."""
        batch, count, _ = tokens.shape
        x = tokens.flatten(0, 1)  # (B N, D): batch norm per feature over all tokens
        x = self.dropout(F.gelu(self.norm_1(self.linear_1(x))))
        x = self.dropout(F.gelu(self.norm_2(self.linear_2(x))))
        x, aux = self.block(x.unflatten(0, (batch, count)), domain=self.domain)
        for rotation in self.rotations:
            x = rotation(x)
            x = log_cosh(x - x.mean(1, keepdim=True))  # centred over tokens
            x = x / (x.norm(dim=-1, keepdim=True) + NORM_EPS)
        a, b = self.unmixing(x).chunk(2, -1)
        return a, b, aux
