"""Hypernetwork heads: flattened features -> flattened pointwise modulation parameters (paper, Appendix B.3.3).

``rank=None`` is the published size, one full matrix per parameter; a rank factors the matrices through one shared
bottleneck, which is what makes the compact decoder small.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Hypernetwork(nn.Module):
    """Map ``[..., in_dim]`` to ``num_outputs`` tensors ``[..., out_dim]``, each starting near its ``start`` value.

    >>> gamma, alpha = Hypernetwork(8, 4, starts=(0.0, 1.0), rank=2)(torch.zeros(3, 8))
    >>> gamma.shape, alpha[0].tolist()
    (torch.Size([3, 4]), [1.0, 1.0, 1.0, 1.0])
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        starts: tuple[float, ...] = (0.0, 0.0, 0.0),
        rank: int | None = None,
        start_scale: float = 0.02,
    ) -> None:
        super().__init__()
        self.bottleneck = nn.Identity() if rank is None else nn.Linear(in_dim, rank, bias=False)
        width = in_dim if rank is None else rank
        self.heads = nn.ModuleList(nn.Linear(width, out_dim) for _ in starts)
        # Residual branches start near zero, not at zero: gamma sits behind alpha, and a zero alpha would stop its
        # gradient.
        for head, start in zip(self.heads, starts, strict=True):
            assert isinstance(head, nn.Linear)
            nn.init.normal_(head.weight, std=start_scale * width**-0.5)
            nn.init.constant_(head.bias, start)

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        hidden = self.bottleneck(features)
        return tuple(head(hidden) for head in self.heads)


def modulate(x: Tensor, gamma: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """``alpha * tanh(gamma * x + x) + beta``: the modulation of paper eq. (dynamic FiLM) without its outer residual.

    >>> modulate(torch.ones(2), torch.zeros(2), torch.zeros(2), torch.zeros(2)).tolist()
    [0.0, 0.0]
    """
    return torch.addcmul(beta, alpha, torch.tanh(torch.addcmul(x, gamma, x)))
