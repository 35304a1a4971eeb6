"""Start values. There is no batch norm in the encoder, so they decide how much of a signal reaches the latents."""

from __future__ import annotations

import torch
from torch import nn

from planformer.config import Start
from planformer.models.tokenizer import Stage, Tokenizer
from planformer.nn.cross_window import CrossWindowFocus
from planformer.nn.noise_sink import NoiseSink

CROSS_WINDOW_GAIN = 0.1
SHARP_GAIN = 4.0


@torch.no_grad()
def start_values(module: nn.Module, start: Start) -> None:
    """Set the bricks of ``module``: "torch" keeps the framework's values, docs/decisions.md argues for the others.

    "sharp" is "balanced" with first kernels of four times the size. They have no bias, so their size alone decides
    where on its curve the activation works: at the framework's size it hardly bends over the amplitudes of a signal of
    unit power, and says little about how these are distributed.
    """
    if start == "torch":
        return
    for brick in module.modules():
        if isinstance(brick, NoiseSink):
            _start_sink(brick)
        elif isinstance(brick, CrossWindowFocus):
            brick.up.weight.mul_(CROSS_WINDOW_GAIN)
            nn.init.zeros_(brick.up.bias)
        elif isinstance(brick, Tokenizer) and start == "sharp":
            first = brick.stages[0]
            assert isinstance(first, Stage)
            first.convolution.weight.mul_(SHARP_GAIN)


def _start_sink(sink: NoiseSink) -> None:
    """gamma = 1 and beta = 0 for every power ratio; the last layer keeps a little weight so that gradient flows."""
    last = sink.affine[-1]
    assert isinstance(last, nn.Linear)
    last.weight.mul_(0.01)
    gamma, beta = last.bias.chunk(2)
    nn.init.ones_(gamma)
    nn.init.zeros_(beta)
