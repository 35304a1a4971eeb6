"""Expander networks that IsoFICReg and LED read (paper, Appendix C, "Projection Head Architecture").

One head per domain, 128 -> 1024, 2,234,368 parameters.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.models.batch_norm import JointBatchNorm

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
        sizes = (embeddings.shape[0], differences.shape[0])
        groups = sizes if self.separate else None
        x = self.linear_1(torch.cat((embeddings, differences)))
        x = self.dropout(F.gelu(self.norm_1(x, groups)))
        x = self.dropout(F.gelu(self.norm_2(self.linear_2(x), groups)))
        first, second = self.linear_3(x).split(sizes)
        return first, second
