"""Exponential moving average of an encoder, the eye of the perceptual loss (paper, Appendix C, "EMA Encoder")."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

MOMENTUM = 0.999


class EMAModel(nn.Module):
    """A frozen copy whose parameters follow the trained ones; gradients pass through it to its input.

    >>> source = nn.Linear(2, 2)
    >>> ema = EMAModel(source)
    >>> ema.update(source)
    >>> any(p.requires_grad for p in ema.parameters())
    False
    """

    def __init__(self, source: nn.Module, momentum: float = MOMENTUM) -> None:
        super().__init__()
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum lies in [0, 1], not {momentum}")
        self.momentum = momentum
        self.model = copy.deepcopy(source).eval().requires_grad_(False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)

    def train(self, mode: bool = True) -> EMAModel:
        """The copy always stays in evaluation mode."""
        return super().train(False)

    @torch.no_grad()
    def update(self, source: nn.Module) -> None:
        """``ema <- momentum ema + (1 - momentum) source``; buffers are copied."""
        own, theirs = dict(self.model.named_parameters()), dict(source.named_parameters())
        if own.keys() != theirs.keys():
            raise ValueError("the average and its source have different parameters")
        torch._foreach_lerp_(list(own.values()), [theirs[name] for name in own], 1 - self.momentum)
        for name, buffer in source.named_buffers():
            self.model.get_buffer(name).copy_(buffer)
