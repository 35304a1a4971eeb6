"""Start values. There is no batch norm in the encoder, so they decide how much of a signal reaches the latents."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from planformer.config import Start
from planformer.models.tokenizer import Stage, Tokenizer
from planformer.nn.channel_attention import ChannelTemporalAttention
from planformer.nn.cross_window import CrossWindowFocus
from planformer.nn.fusion import FusionGLU
from planformer.nn.noise_sink import TOKEN_LENGTH, NoiseSink
from planformer.nn.parseval import ParsevalTransformer
from planformer.nn.sequence_pooling import AttentionalPooling

Patterns = tuple[tuple[float, ...], ...]

RAISED: tuple[Start, ...] = ("level", "open", "clear")  # start values whose sinks have offsets

CROSS_WINDOW_GAIN = 0.1
SHARP_GAIN = 4.0
LEVEL = 0.1
LEVEL_GAIN = 1.5
LEVEL_SHARE = 8  # one channel of so many carries an offset
FUSION_NOISE = 0.3  # of the framework's values beside a fusion's identity
CLEAR_NOISE = 0.1
KERNEL_SIZE = 0.87  # norm of a first kernel of "level", on average
SIZES = {"time": (0.87, 10.4), "frequency": (0.43, 5.2)}  # of the first kernels of "clear", smallest and largest
# One sample; both parts of it; steps from one sample to the next; and I, Q, I, Q, I of neighbours in pairs.
SHAPES = (
    (0.0, 0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 1.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, -1.0),
    (0.0, 0.0, 1.0, -1.0, 0.0),
    (1.0, 0.0, -1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 0.0, 1.0),
    (1.0, 0.0, 0.0, 1.0, 0.0),
    (0.5, 0.0, 1.0, 0.0, 0.5),
)
QUIET = 0.1  # of the framework's values in what a transformer adds, in the pooling's logits and in the gates of "clear"


@torch.no_grad()
def start_values(module: nn.Module, start: Start) -> None:
    """Set the bricks of ``module``: "torch" keeps the framework's values, docs/decisions.md argues for the others.

    "sharp" is "balanced" with first kernels of four times the size. They have no bias, so their size alone decides
    where on its curve the activation works: at the framework's size it hardly bends over the amplitudes of a signal of
    unit power, and says little about how these are distributed. "level" is "balanced" with :func:`raise_levels`,
    "open", the default, is "level" with :func:`open_passage`; "clear" is "open" with :func:`clear_passage` and
    first kernels from :func:`plain_kernels`.
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
    if start in RAISED:
        raise_levels(module)
    if start in ("open", "clear"):
        open_passage(module, FUSION_NOISE if start == "open" else CLEAR_NOISE)
    if start == "clear":
        clear_passage(module)
        for tokenizer in module.modules():
            if isinstance(tokenizer, Tokenizer):
                plain_kernels(tokenizer, SHAPES if tokenizer.domain == "time" else None, SIZES[tokenizer.domain])


@torch.no_grad()
def open_passage(module: nn.Module, noise: float = FUSION_NOISE) -> None:
    """Let what the tokenizers found reach the latents: at random a fusion scrambles it, three times over.

    Every fusion begins as its own domain's features, gated, with a little of the other's; what a transformer adds to
    its tokens begins small; the pooling begins as nearly a mean.
    """
    for brick in module.modules():
        if isinstance(brick, FusionGLU):
            for glu in (brick.time_glu, brick.frequency_glu):
                value = glu.projection.weight.chunk(2)[0]  # (D, 2 D): own features, then the other domain's
                value.mul_(noise).add_(torch.eye(*value.shape))
        elif isinstance(brick, ParsevalTransformer):
            last = brick.feed_forward[-1]
            assert isinstance(last, nn.Linear)
            last.weight.mul_(QUIET)
            brick.focus.final_fusion.projection.weight.chunk(2)[0].mul_(QUIET)
        elif isinstance(brick, AttentionalPooling):
            brick.logit.weight.mul_(QUIET)


@torch.no_grad()
def clear_passage(module: nn.Module) -> None:
    """Gates that hardly depend on what passes them: half open at the start, in fusions and channel attentions.

    A gate that answers to a token multiplies what the token says with something else. The mean over the tokens, which
    is what reaches the latents, then says how often a small amplitude occurred only roughly.
    """
    for brick in module.modules():
        if isinstance(brick, FusionGLU):
            for glu in (brick.time_glu, brick.frequency_glu):
                glu.projection.weight.chunk(2)[1].mul_(QUIET)
        elif isinstance(brick, ChannelTemporalAttention):
            brick.expand.weight.mul_(QUIET)
            brick.temporal.weight.mul_(QUIET)


@torch.no_grad()
def plain_kernels(tokenizer: Tokenizer, patterns: Patterns | None, sizes: tuple[float, float]) -> None:
    """First kernels of many sizes, so that the activation bends at many amplitudes; the sinks' factors undo the sizes.

    ``patterns``: their shapes, each with either sign, instead of the random ones; the more samples a kernel adds up,
    the less its response says about how the samples are distributed. The sizes grow by equal ratios, and kernels next
    to each other or of the same shape get sizes far apart.
    """
    stage = tokenizer.stages[0]
    assert isinstance(stage, Stage)
    kernels, channels = stage.convolution.weight, stage.sink.channels
    if patterns is not None:
        for channel in range(channels):
            turns, shape = divmod(channel, len(patterns))
            kernels[channel, 0] = torch.tensor(patterns[shape]) * (-1) ** turns
    ladder = _ladder(*sizes, channels)
    kernels.mul_((ladder / kernels.flatten(1).norm(dim=1))[:, None, None])
    _undo_sizes(stage.sink, ladder / KERNEL_SIZE)


@torch.no_grad()
def spread_kernels(module: nn.Module, largest: float) -> None:
    """Make the first kernels of trained weights 1 to ``largest`` times as large, in the time branch.

    The sinks undo it, so that only where the activation bends changes: trained weights then read nearly what they read
    before, and have kernels that tell small amplitudes apart, which training on its own hardly ever makes.
    """
    for tokenizer in module.modules():
        if not isinstance(tokenizer, Tokenizer) or tokenizer.domain != "time":
            continue
        stage = tokenizer.stages[0]
        assert isinstance(stage, Stage)
        ratios = _ladder(1.0, largest, stage.sink.channels)
        stage.convolution.weight.mul_(ratios[:, None, None])
        _undo_sizes(stage.sink, ratios)
        last = stage.sink.affine[-1]
        assert isinstance(last, nn.Linear)
        last.weight.chunk(2)[0].view(TOKEN_LENGTH, len(ratios), -1).div_(ratios[:, None])


def _ladder(smallest: float, largest: float, channels: int) -> Tensor:
    """Sizes that grow by equal ratios, those of neighbouring channels far apart."""
    stride = next(step for step in range(7, 7 + channels) if math.gcd(step, channels) == 1)
    sizes = torch.logspace(math.log10(smallest), math.log10(largest), channels)
    return sizes[torch.arange(channels) * stride % channels]


def _undo_sizes(sink: NoiseSink, ratios: Tensor) -> None:
    """Factors for channels that have become ``ratios`` times as large; their noise is estimated at their own scale."""
    factors, _ = _affine(sink)
    factors.div_(ratios)
    sink.squeeze.weight.div_(ratios[:, None])
    sink.expand.weight.mul_(ratios[:, None, None])


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
            _, offsets = _affine(stage.sink)
            chosen = offsets[:, : max(1, stage.sink.channels // LEVEL_SHARE)]
            chosen[:, ::2] += size
            chosen[:, 1::2] -= size


def _affine(sink: NoiseSink) -> tuple[Tensor, Tensor]:
    """A sink's factors and offsets that no power ratio changes, as views: positions of a token by channels."""
    last = sink.affine[-1]
    assert isinstance(last, nn.Linear)
    factors, offsets = last.bias.chunk(2)
    return factors.view(TOKEN_LENGTH, sink.channels), offsets.view(TOKEN_LENGTH, sink.channels)


def _start_sink(sink: NoiseSink) -> None:
    """gamma = 1 and beta = 0 for every power ratio; the last layer keeps a little weight so that gradient flows."""
    last = sink.affine[-1]
    assert isinstance(last, nn.Linear)
    last.weight.mul_(0.01)
    factors, offsets = _affine(sink)
    nn.init.ones_(factors)
    nn.init.zeros_(offsets)
