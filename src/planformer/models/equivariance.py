"""Latent equivariant transformer and the prediction head (paper, Appendix C, "Latent Equivariant Transformer").

One transformer per domain, 480,771 parameters; the head, 10,245, reads the projections of both domains' differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from planformer.models.batch_norm import JointBatchNorm, normalise_together
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
        return self.move(tokens, self.condition(code))

    def move(self, tokens: Tensor, condition: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The same with the conditioning token ``[B, D]`` instead of the code."""
        moved, aux = self.block(torch.cat((condition.unsqueeze(1), tokens), 1), domain=self.domain)
        return moved[:, 1:], aux


def conditions_together(networks: Sequence[LatentEquivariantTransformer], code: Tensor) -> list[Tensor]:
    """Each network's conditioning token ``[B, D]`` for the same code; their norms ask other ranks together."""
    norms = [cast(JointBatchNorm, network.condition[1]) for network in networks]
    rows = normalise_together(norms, [network.condition[0](code) for network in networks])
    return [network.condition[2:](x) for network, x in zip(networks, rows, strict=True)]


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
