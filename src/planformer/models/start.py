"""Start values. There is no batch norm in the encoder, so they decide how much of a signal reaches the latents."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from planformer.config import Start
from planformer.models.tokenizer import Stage, Tokenizer
from planformer.nn.cross_window import CrossWindowFocus
from planformer.nn.noise_sink import TOKEN_LENGTH, NoiseSink

CROSS_WINDOW_GAIN = 0.1
SHARP_GAIN = 4.0
LEVEL = 0.1
LEVEL_GAIN = 1.5
LEVEL_SHARE = 8  # one channel of so many carries an offset


@torch.no_grad()
def start_values(module: nn.Module, start: Start) -> None:
    """Set the bricks of ``module``: "torch" keeps the framework's values, docs/decisions.md argues for the others.

    "sharp" is "balanced" with first kernels of four times the size. They have no bias, so their size alone decides
    where on its curve the activation works: at the framework's size it hardly bends over the amplitudes of a signal of
    unit power, and says little about how these are distributed. "level" is "balanced" with :func:`raise_levels`.
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
    if start == "level":
        raise_levels(module)


@torch.no_grad()
def raise_levels(module: nn.Module, level: float = LEVEL, gain: float = LEVEL_GAIN) -> None:
    """Let the sinks keep how strong a token was: an offset of ``level`` in an eighth of their channels.

    A sink ends in a norm of every token (two complex samples), so with offsets of zero a faint sample leaves it as
    strong as a loud one, and training hardly ever moves the offsets away from zero. With them a faint token looks like
    the offset and a loud one like itself. ``gain`` enlarges the first kernels, and the first offsets with them, so that
    the activation bends more over the amplitudes. Meant for start values and for trained weights without offsets alike.
    """
    for tokenizer in module.modules():
        if not isinstance(tokenizer, Tokenizer):
            continue
        for index, stage in enumerate(tokenizer.stages):
            assert isinstance(stage, Stage)
            size = level
            if index == 0:
                stage.convolution.weight.mul_(gain)
                size *= gain
            chosen = _offsets(stage.sink)[:, : max(1, stage.sink.channels // LEVEL_SHARE)]
            chosen[:, ::2] += size
            chosen[:, 1::2] -= size


def _offsets(sink: NoiseSink) -> Tensor:
    """The part of a sink's offsets that no power ratio changes, a view: positions of a token by channels."""
    last = sink.affine[-1]
    assert isinstance(last, nn.Linear)
    offsets: Tensor = last.bias.chunk(2)[1]
    return offsets.view(TOKEN_LENGTH, sink.channels)


def _start_sink(sink: NoiseSink) -> None:
    """gamma = 1 and beta = 0 for every power ratio; the last layer keeps a little weight so that gradient flows."""
    last = sink.affine[-1]
    assert isinstance(last, nn.Linear)
    last.weight.mul_(0.01)
    gamma, beta = last.bias.chunk(2)
    nn.init.ones_(gamma)
    nn.init.zeros_(beta)
