"""Episodes: scenes whose members belong to classes, as the data set of a probe does (our addition).

What a class is differs from one data set to the next: a voice whatever it says, a word whoever says it, a note's
instrument at any pitch, a drawing in any hand. An episode draws which of a signal's causes its classes are made of and
which its members have of their own; who can tell the classes apart has learned to see each cause without the others.
Everything is made of radio samples. Scenes as recorded have recordings or emitters as classes; those of all others
exist only within one episode.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from planformer.data.augment import unit_power
from planformer.data.diversify import (
    DiversifyConfig,
    diversify,
    fade,
    gate,
    ranked,
    repeat,
    shape_spectrum,
    smooth,
    smooth_field,
    stretch,
)
from planformer.data.kinds import companions, unit_where_present, vary
from planformer.data.letters import MOST_LEVELS
from planformer.data.pictures import MOST_LINES, Style, scanned
from planformer.data.scenes import analytic, received
from planformer.data.selective import FREQUENCIES, TIMES, selective_fade

IntArray = npt.NDArray[np.int64]
COUNTS = (2, 4, 4, 4, 8)  # classes of an episode, one of these; those that do not divide its size are left out
CAUSES = ("source", "pitch", "filter", "movement", "envelope")
CLASS_PROB = {"source": 0.4, "pitch": 0.15, "filter": 0.5, "movement": 0.5, "envelope": 0.3}
COMMON_PROB = 0.3  # of the causes that make no class: the same for the whole episode instead of each one's own


def draw_classes(size: int, rng: np.random.Generator) -> IntArray:
    """The class of each of ``size`` members (even, 4 or more), equally many of each, those of one class in a row.

    >>> draw_classes(8, np.random.default_rng(0)).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    fitting = [count for count in COUNTS if size % count == 0 and size // count > 1]
    count = int(rng.choice(fitting))
    return np.repeat(np.arange(count), size // count)


def members(
    indices: IntArray, classes: IntArray, recordings: IntArray, emitters: IntArray, rng: np.random.Generator
) -> IntArray:
    """Sequences for an episode as recorded: the first of each class decides, the others are its relatives.

    They are of its recording, or in half of the episodes of its emitter, where the first ones' emitters all differ.
    """
    size = len(classes) // (int(classes.max()) + 1)
    firsts = indices[::size]
    if rng.random() < 0.5 or len(np.unique(emitters[firsts])) < len(firsts):
        return companions(indices, recordings, size, rng)
    rows = [np.append(f, rng.choice(np.flatnonzero(emitters == emitters[f]), size - 1)) for f in firsts]
    return np.concatenate(rows).astype(np.int64)


def stage_episode(
    x: Tensor, classes: Tensor, name: str, generator: torch.Generator, general: DiversifyConfig
) -> Tensor:
    """Complex sequences ``[B, n]`` of unit power as one episode; :func:`planformer.data.scenes.stage` has the scenes.

    >>> x = torch.randn(4, 5120, dtype=torch.complex64)
    >>> classes = torch.tensor([0, 0, 1, 1])
    >>> stage_episode(x, classes, "letters", torch.Generator().manual_seed(0), DiversifyConfig()).shape
    torch.Size([4, 5120])
    """
    if name == "recorded":
        return received(vary(x, generator), generator)
    if name == "general":
        size = len(x) // (int(classes.max()) + 1)
        return diversify(x, generator, general.model_copy(update={"family": len(x), "kind": size, "plain_prob": 0.0}))
    if name == "picture":
        return analytic(_pictures(x, classes, generator))
    if name == "letters":
        return analytic(_letters(x, classes, generator))
    return _sounds(x, classes, generator, tone=name == "tone")


class _Draw:
    """Normal numbers that an episode's members share, share within their class, or have of their own."""

    def __init__(self, classes: Tensor, generator: torch.Generator) -> None:
        self.classes, self.generator = classes, generator

    def uniform(self) -> float:
        return float(torch.rand((), generator=self.generator))

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)

    def of(self, level: str, spread: float, *shape: int) -> Tensor:
        """``[B, *shape]`` of unit variance; ``spread`` is the share of the deviation that each has of its own."""
        count = len(self.classes)
        common, by_class, own = self.normal(1, *shape), self.normal(count, *shape), self.normal(count, *shape)
        if level == "own":
            return own
        shared = common.expand_as(own) if level == "common" else by_class[self.classes]
        return math.sqrt(1 - spread**2) * shared + spread * own

    def source(self, level: str) -> Tensor:
        """Which sequence each member is made from."""
        rows = torch.arange(len(self.classes))
        if level == "own":
            return rows
        if level == "common":
            return torch.zeros_like(rows)
        first = torch.stack([(self.classes == k).nonzero()[0, 0] for k in range(int(self.classes.max()) + 1)])
        return first[self.classes]


def _levels(draw: _Draw) -> dict[str, str]:
    """For each cause "class", "common" or "own"; at least one makes the classes, and not the pitch alone."""
    while True:
        found = {}
        for cause in CAUSES:
            chance = draw.uniform()
            rest = (chance - CLASS_PROB[cause]) / (1 - CLASS_PROB[cause])
            found[cause] = "class" if rest < 0 else "common" if rest < COMMON_PROB else "own"
        if any(found[cause] == "class" for cause in CAUSES if cause != "pitch"):
            return found


def _sounds(x: Tensor, classes: Tensor, generator: torch.Generator, *, tone: bool) -> Tensor:
    """A source that repeats, a filter that stands, one that moves, an envelope: some make the classes."""
    draw, count = _Draw(classes, generator), len(x)
    level = _levels(draw)
    spread = 0.15 + 0.5 * draw.uniform()  # how unlike each other the members of a class are
    factor = (24.0 if tone else 8.0) ** draw.uniform()
    x = stretch(x, torch.full((count,), factor)) if draw.uniform() < 0.7 else x
    if draw.uniform() < (0.9 if tone else 0.6) or "class" in (level["source"], level["pitch"]):
        pitch = 0.8 * draw.of(level["pitch"], 0.1, 1)[:, 0]
        period = (12.0 * 50.0 ** draw.uniform() * torch.exp(pitch)).clamp(8.0, 640.0)
        x = repeat(x, period, draw.source(level["source"]))
    tilt = torch.full((count,), 3 * draw.uniform() if draw.uniform() < 0.75 else 0.0)
    depth = 0.4 + 0.8 * draw.uniform()
    filtered = draw.uniform() < 0.8 or level["filter"] == "class"
    resonance = depth * draw.of(level["filter"], spread, 12) * filtered
    x = shape_spectrum(x, one_sided=torch.ones(count, dtype=torch.bool), tilt=tilt, resonance=resonance)
    moves = level["movement"] == "class" or (not tone and draw.uniform() < 0.5)
    if moves:
        control = draw.of(level["movement"], spread, TIMES, FREQUENCIES)
        speed, scale = torch.exp(0.3 * draw.normal(count)), torch.exp(0.15 * draw.normal(count))
        x = unit_power(selective_fade(x, control, speed, scale))
    if level["envelope"] == "class" or draw.uniform() < (0.4 if tone else 0.8):
        points = 6 + int(20 * draw.uniform())
        x = unit_power(fade(x, draw.of(level["envelope"], spread, points), 1.2 if tone else 2.2))
    if draw.uniform() < 0.25:
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        x = unit_power(x + (10 ** (-2 * torch.rand(count, generator=generator)))[:, None] * noise)
    length = 0.25 + 0.75 * torch.rand(count, generator=generator)
    return unit_where_present(gate(x, length)) if draw.uniform() < (0.05 if tone else 0.7) else x


def _letters(x: Tensor, classes: Tensor, generator: torch.Generator) -> Tensor:
    """Codes of unequal, unequally likely levels: how likely, or in which order, is what the classes differ by."""
    draw, (count, n) = _Draw(classes, generator), x.shape
    levels = 2 + int(draw.uniform() * (MOST_LEVELS - 1))
    between, within = 0.15 + 0.8 * draw.uniform() ** 2, 0.05 + 0.3 * draw.uniform()
    differ = draw.uniform()  # below 0.7 by how likely the levels are, above 0.4 by their order
    likely = torch.exp(1.6 * draw.normal(1, levels) + within * draw.normal(count, levels))
    if differ < 0.7:
        likely = likely * torch.exp(between * draw.of("class", 0.0, levels))
    if levels > 2 and draw.uniform() < 0.5:  # a resting level, frequent and far from the others
        likely[:, 0] = likely.sum(1) * (0.08 + 0.2 * draw.uniform()) * torch.exp(0.2 * draw.normal(count))
    likely = likely / likely.sum(1, keepdim=True)
    gaps = torch.exp((0.3 + 2 * draw.uniform()) * draw.normal(levels)).clamp_max(12)
    gaps[1] = gaps[1] + gaps.sum() * draw.uniform() * (draw.uniform() < 0.5)
    white = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    order = 0.2 * draw.normal(count, 12)
    if differ > 0.4:
        order = order + (0.2 + 1.2 * draw.uniform()) * draw.of("class", 0.0, 12)
    every = torch.ones(count, dtype=torch.bool)
    base = white if draw.uniform() < 0.6 else x
    coloured = shape_spectrum(base, one_sided=every, tilt=torch.zeros(count), resonance=order)
    ranks = ranked(coloured.real)
    if draw.uniform() < 0.5:
        ranks = ranked(ranks + 0.3 * draw.uniform() * smooth(draw.normal(count, 4 + int(60 * draw.uniform())), n))
    index = torch.searchsorted(likely.cumsum(1), ranks.contiguous(), right=True).clamp_max(levels - 1)
    if draw.uniform() < 0.5:
        index = torch.randperm(levels, generator=generator)[index]
    return (gaps.cumsum(0) / gaps.sum())[index].to(x.dtype)


def _pictures(x: Tensor, classes: Tensor, generator: torch.Generator) -> Tensor:
    """Pictures in one style; those of a class show one field, each turned, shifted, bent and inked in its own way."""
    draw, count = _Draw(classes, generator), len(x)
    style = Style.draw(generator, min(MOST_LINES, math.isqrt(x.shape[-1])))
    own_share = 0.2 + 0.7 * draw.uniform()
    sources = draw.source("class")
    fields = torch.stack([smooth_field(row, style.lines, style.detail) for row in x])
    moved = _moved(fields[sources], draw)
    rows = []
    for index in range(count):
        own = fields[index] if int(sources[index]) != index else fields[(index + 1) % count]
        field = moved[index] + own_share * own
        field = field / field.std().clamp_min(1e-8)
        chances = [draw.uniform() for _ in range(4)]
        level = min(1.0, max(0.0, style.level + 0.3 * (chances[0] - 0.5)))
        rows.append(scanned(field, replace(style, level=level), chances[1:], x.shape[-1]))
    return torch.stack(rows).to(x.dtype)


def _moved(fields: Tensor, draw: _Draw) -> Tensor:
    """Each field ``[B, s, s]`` turned by about 8 degrees, scaled by an eighth, slanted and shifted a little."""
    count = len(fields)
    turn, grow, slant = 0.14 * draw.normal(count), torch.exp(0.12 * draw.normal(count)), 0.12 * draw.normal(count)
    cos, sin = turn.cos() * grow, turn.sin() * grow
    shift = 0.12 * draw.normal(count, 2)
    affine = torch.stack((torch.stack((cos, slant - sin, shift[:, 0]), 1), torch.stack((sin, cos, shift[:, 1]), 1)), 1)
    grid = F.affine_grid(affine, [count, 1, *fields.shape[1:]], align_corners=False)
    return F.grid_sample(fields[:, None], grid, padding_mode="reflection", align_corners=False)[:, 0]
