"""Attentional sequence pooling (paper, Appendix A.8), all at once or as a running softmax over pieces."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from planformer.nn.paired import RMSNorm


class AttentionalPooling(nn.Module):
    """``sum_i softmax(w . RMSNorm(t_i) + b) t_i``: tokens ``[..., N, D] -> [..., D]``; D + D + 1 parameters.

    >>> AttentionalPooling(8)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 8])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = RMSNorm(dim)
        self.logit = nn.Linear(dim, 1)

    def logits(self, tokens: Tensor) -> Tensor:
        """One logit per token ``[..., N, 1]``."""
        return self.logit(self.norm(tokens))

    def forward(self, tokens: Tensor) -> Tensor:
        weights = torch.softmax(self.logits(tokens), -2)  # (..., N, 1)
        return (weights.transpose(-1, -2) @ tokens).squeeze(-2)


@dataclass
class RunningPool:
    """The softmax-weighted sum of the tokens so far, relative to the largest logit so that it can't overflow."""

    largest: Tensor  # [..., 1, 1]
    weight: Tensor  # [..., 1, 1]: sum of exp(logit - largest)
    total: Tensor  # [..., 1, D]: the same sum, times the tokens

    @classmethod
    def start(cls, pooling: AttentionalPooling, tokens: Tensor) -> RunningPool:
        logits = pooling.logits(tokens)
        largest = logits.amax(-2, keepdim=True)
        weights = torch.exp(logits - largest)
        return cls(largest, weights.sum(-2, keepdim=True), weights.transpose(-1, -2) @ tokens)

    def merge(self, other: RunningPool) -> RunningPool:
        """The state after both sets of tokens; exact up to rounding, in any order."""
        largest = torch.maximum(self.largest, other.largest)
        ours, theirs = torch.exp(self.largest - largest), torch.exp(other.largest - largest)
        return RunningPool(
            largest, self.weight * ours + other.weight * theirs, self.total * ours + other.total * theirs
        )

    def finish(self) -> Tensor:
        """The pooled vector ``[..., D]``."""
        return (self.total / self.weight).squeeze(-2)
