"""Which signals of a batch are of one kind, told by the angle between their embeddings (supervised contrast)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def contrast(embedding: Tensor, kinds: Tensor, temperature: float = 0.2) -> Tensor:
    """Mean cross-entropy of picking, for each row, another one of its kind among all other rows.

    ``embedding`` ``[n, d]``, ``kinds`` ``[n]``; divided by log(n - 1), so that guessing gives 1. 0 is perfect.
    Rows that are alone in their kind ask for nothing.

    >>> z = torch.eye(4).repeat_interleave(2, 0)
    >>> bool(contrast(z, torch.arange(4).repeat_interleave(2), 0.05) < 1e-4)
    True
    """
    z = F.normalize(embedding, dim=-1)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    logits = (z @ z.T / temperature).masked_fill(itself, -torch.inf)
    alike = (kinds[:, None] == kinds) & ~itself
    chances = logits.log_softmax(-1).masked_fill(~alike, 0.0)
    count = alike.sum(-1)
    losses = -chances.sum(-1) / count.clamp_min(1)
    asked = count > 0
    mean = (losses * asked).sum() / asked.sum().clamp_min(1)
    return mean / math.log(max(len(z) - 1, 2))
