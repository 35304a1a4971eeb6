"""Expander networks that IsoFICReg and LED read (paper, Appendix C, "Projection Head Architecture").

One head per domain, 128 -> 1024, 2,234,368 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.models.batch_norm import JointBatchNorm, normalise_together

Statistics = Literal["separate", "shared"]


class ProjectionHead(nn.Module):
    """Linear, batch norm, GELU, dropout, twice, then a linear layer without bias.

    Embeddings and differences of embeddings go through the same weights but have different distributions; with
    ``statistics="separate"`` each kind is normalised by its own mean and variance, with "shared" by the mixture's.

    >>> head = ProjectionHead(8, 16)
    >>> embeddings, differences = head(torch.randn(6, 8), torch.randn(6, 8))
    >>> embeddings.shape
    torch.Size([6, 16])
    """

    def __init__(
        self,
        in_dim: int = 128,
        out_dim: int = 1024,
        *,
        dropout_prob: float = 0.25,
        statistics: Statistics = "separate",
    ) -> None:
        super().__init__()
        self.separate = statistics == "separate"
        groups = 2 if self.separate else 1
        self.linear_1 = nn.Linear(in_dim, out_dim)
        self.norm_1 = JointBatchNorm(out_dim, groups)
        self.linear_2 = nn.Linear(out_dim, out_dim)
        self.norm_2 = JointBatchNorm(out_dim, groups)
        self.linear_3 = nn.Linear(out_dim, out_dim, bias=False)
        self.dropout = nn.Dropout(dropout_prob)

    def forward(self, embeddings: Tensor, differences: Tensor) -> tuple[Tensor, Tensor]:
        """``[n, in]`` and ``[m, in]`` -> ``[n, out]`` and ``[m, out]``; one product per layer for both."""
        return project_together([self], [(embeddings, differences)])[0]


def project_together(
    heads: Sequence[ProjectionHead], inputs: Sequence[tuple[Tensor, Tensor]]
) -> list[tuple[Tensor, Tensor]]:
    """What each head gives for its own embeddings and differences, layer by layer: the norms ask other ranks together.

    The heads are alike, and so are the shapes of their inputs.
    """
    sizes = (inputs[0][0].shape[0], inputs[0][1].shape[0])
    groups = sizes if heads[0].separate else None
    rows = [head.linear_1(torch.cat(pair)) for head, pair in zip(heads, inputs, strict=True)]
    rows = normalise_together([head.norm_1 for head in heads], rows, groups)
    rows = [head.linear_2(head.dropout(F.gelu(x))) for head, x in zip(heads, rows, strict=True)]
    rows = normalise_together([head.norm_2 for head in heads], rows, groups)
    projected = []
    for head, x in zip(heads, rows, strict=True):
        first, second = head.linear_3(head.dropout(F.gelu(x))).split(sizes)
        projected.append((first, second))
    return projected
