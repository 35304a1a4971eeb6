"""Start values. There is no batch norm in the encoder, so they decide how much of a signal reaches the latents."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from planformer.config import Start
from planformer.models.tokenizer import Stage, Tokenizer
from planformer.nn.cross_window import CrossWindowFocus
from planformer.nn.fusion import FusionGLU
from planformer.nn.noise_sink import TOKEN_LENGTH, NoiseSink
from planformer.nn.parseval import ParsevalTransformer
from planformer.nn.sequence_pooling import AttentionalPooling

CROSS_WINDOW_GAIN = 0.1
SHARP_GAIN = 4.0
LEVEL = 0.1
LEVEL_GAIN = 1.5
LEVEL_SHARE = 8  # one channel of so many carries an offset
FUSION_NOISE = 0.3  # of the framework's values beside a fusion's identity
QUIET = 0.1  # of the framework's values in what a transformer adds, and in the pooling's logits


@torch.no_grad()
def start_values(module: nn.Module, start: Start) -> None:
    """Set the bricks of ``module``: "torch" keeps the framework's values, docs/decisions.md argues for the others.

    "sharp" is "balanced" with first kernels of four times the size. They have no bias, so their size alone decides
    where on its curve the activation works: at the framework's size it hardly bends over the amplitudes of a signal of
    unit power, and says little about how these are distributed. "level" is "balanced" with :func:`raise_levels`,
    "open", the default, is "level" with :func:`open_passage`.
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
    if start in ("level", "open"):
        raise_levels(module)
    if start == "open":
        open_passage(module)


@torch.no_grad()
def open_passage(module: nn.Module) -> None:
    """Let what the tokenizers found reach the latents: at random a fusion scrambles it, three times over.

    Every fusion begins as its own domain's features, gated, with a little of the other's; what a transformer adds to
    its tokens begins small; the pooling begins as nearly a mean.
    """
    for brick in module.modules():
        if isinstance(brick, FusionGLU):
            for glu in (brick.time_glu, brick.frequency_glu):
                value = glu.projection.weight.chunk(2)[0]  # (D, 2 D): own features, then the other domain's
                value.mul_(FUSION_NOISE).add_(torch.eye(*value.shape))
        elif isinstance(brick, ParsevalTransformer):
            last = brick.feed_forward[-1]
            assert isinstance(last, nn.Linear)
            last.weight.mul_(QUIET)
            brick.focus.final_fusion.projection.weight.chunk(2)[0].mul_(QUIET)
        elif isinstance(brick, AttentionalPooling):
            brick.logit.weight.mul_(QUIET)


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
