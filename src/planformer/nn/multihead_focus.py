"""Multi-head scaled covariance focus of one sequence on another (paper, Appendix A.6), as the decoder uses it.

Queries, keys and values are projected with a bias, there is no output projection, and all heads share a focus network.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from planformer.nn.focus import (
    FocusNetwork,
    centre,
    column_variance,
    covariance_focus,
    head_orthogonality,
    merge_heads,
    soft_abs_floor,
    split_heads,
)


def heads_for(dim: int, most: int = 4, head_dim: int = 8) -> int:
    """As many heads as leave ``head_dim`` features each: a head of one feature has nothing left after centring.

    >>> heads_for(64), heads_for(16), heads_for(4)
    (4, 2, 1)
    """
    heads = max(1, min(most, dim // head_dim))
    while dim % heads:
        heads -= 1
    return heads


class MultiHeadFocus(nn.Module):
    """Queries ``[..., Nq, D]``, context ``[..., Nk, D]`` -> ``[..., Nq, D]``, and the head orthogonality if asked for.

    >>> focus = MultiHeadFocus(16, 2)
    >>> focus(torch.zeros(3, 5, 16), torch.zeros(3, 7, 16), aux=False)[0].shape
    torch.Size([3, 5, 16])
    """

    def __init__(self, dim: int, num_heads: int, *, project_queries: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(dim, dim) if project_queries else nn.Identity()
        self.key_value = nn.Linear(dim, 2 * dim)
        self.focus = FocusNetwork()

    def forward(self, queries: Tensor, context: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        lead = context.shape[:-2]
        keys, values = self.key_value(context).chunk(2, dim=-1)
        queries = self.query(queries).expand(*lead, -1, -1)
        # (..., N, D) -> (rows, H, N, dk): the fused kernel takes four axes
        q, k, v = (split_heads(t.flatten(0, -3), self.num_heads) for t in (queries, keys, values))
        q, k = centre(soft_abs_floor(q), soft_abs_floor(k), "features")
        factor = self.focus(column_variance(q, k))
        out, attention = covariance_focus(q, k, v, factor, weights=aux)
        loss = None if attention is None else head_orthogonality(attention)
        return merge_heads(out).unflatten(0, lead), loss


def join_orthogonality(*terms: Tensor | None) -> Tensor | None:
    """Sum of the terms that were computed."""
    present = [term for term in terms if term is not None]
    return torch.stack(present).sum() if present else None
