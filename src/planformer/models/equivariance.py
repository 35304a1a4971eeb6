"""Latent equivariant transformer and the prediction head (paper, Appendix C, "Latent Equivariant Transformer").

One transformer per domain, 480,771 parameters; the head, 10,245, reads the projections of both domains' differences.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from planformer.models.batch_norm import JointBatchNorm
from planformer.nn.parseval import Domain, ParsevalTransformer

CODE_DIM = 5


class LatentEquivariantTransformer(nn.Module):
    """Moves clean tokens by a transformation code: a conditioning token in front, one Parseval block, token removed.

    >>> network = LatentEquivariantTransformer(32, num_heads=4, domain="time")
    >>> tokens, aux = network(torch.randn(3, 10, 32), torch.rand(3, 5))
    >>> tokens.shape
    torch.Size([3, 10, 32])
    """

    def __init__(self, dim: int = 128, *, domain: Domain, num_heads: int = 8, code_dim: int = CODE_DIM) -> None:
        super().__init__()
        self.domain: Domain = domain
        self.condition = nn.Sequential(nn.Linear(code_dim, dim), JointBatchNorm(dim), nn.GELU(), nn.Linear(dim, dim))
        self.block = ParsevalTransformer(dim, num_heads)

    def forward(self, tokens: Tensor, code: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Tokens ``[B, N, D]`` and code ``[B, 5]`` -> moved tokens ``[B, N, D]`` and the block's regularisers."""
        condition = self.condition(code).unsqueeze(1)  # (B, 1, D)
        moved, aux = self.block(torch.cat((condition, tokens), 1), domain=self.domain)
        return moved[:, 1:], aux


class PredictionHead(nn.Module):
    """Projected differences of time and frequency -> transformation code in (0, 1).

    >>> PredictionHead(16)(torch.randn(4, 16), torch.randn(4, 16)).shape
    torch.Size([4, 5])
    """

    def __init__(self, projection_dim: int = 1024, code_dim: int = CODE_DIM) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * projection_dim, code_dim)

    def forward(self, time: Tensor, frequency: Tensor) -> Tensor:
        """``[B, d]`` of each domain -> ``[B, 5]``."""
        return torch.sigmoid(self.linear(torch.cat((time, frequency), -1)))
