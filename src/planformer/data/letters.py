"""Letters: radio on a few unequally likely levels, as a code for texts would send them (our addition)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from planformer.data.diversify import ranked, scramble, smooth

MOST_LEVELS = 96


def letter_signals(x: Tensor, generator: torch.Generator, words: float = 0.0) -> Tensor:
    """The real part on 2 to 96 levels, unequally far apart and unequally likely, a little otherwise in each sequence.

    What follows what is left of the signal's own order: all of it, none (as behind an interleaver), or a slow drift.
    Levels may come in an order of their own, so that neighbouring values have nothing to do with each other, and one
    of them may be a resting level, far from the others and frequent. With a chance of ``words`` every level has levels
    that like to follow it, and the resting level comes between stretches of a few others (:func:`in_words`).
    """
    count, n = x.shape
    u = torch.rand(9, generator=generator).tolist()
    levels = 2 + int(u[0] * (MOST_LEVELS - 1))
    likely = torch.exp(1.6 * torch.randn(1, levels, generator=generator))
    likely = likely * torch.exp((0.2 + 1.2 * u[1] ** 2) * torch.randn(count, levels, generator=generator))
    likely = likely / likely.sum(1, keepdim=True)
    gaps = torch.exp((0.3 + 2 * u[2]) * torch.randn(levels, generator=generator)).clamp_max(12)
    resting = u[3] < 0.5 and levels > 2
    written = words > 0 and float(torch.rand((), generator=generator)) < words
    if written:
        resting = levels > 2 and u[3] < 0.9
        gaps, blocks = code_of(levels, generator)
        likely = likely * blocks / (likely * blocks).sum(1, keepdim=True)
    if resting:
        apart = 1 + int(0.25 * levels * u[8]) if written else 1  # a few codes may stand beside the resting one
        gaps[apart] = gaps.sum() * (0.3 + (2.0 if written else 0.7) * u[4])
        likely[:, 0] = (0.08 + 0.2 * u[5]) * torch.exp(0.2 * torch.randn(count, generator=generator))
        likely = likely / likely.sum(1, keepdim=True)
    ranks = ranked(scramble(x, generator).real if u[6] < 0.65 else x.real)
    if u[7] < 0.5:
        drift = smooth(torch.randn(count, 4 + int(60 * u[4]), generator=generator), n)
        ranks = ranked(ranks + 0.4 * u[5] * drift)
    if written:
        index = in_words(ranks, likely, resting, generator)
    else:
        index = torch.searchsorted(likely.cumsum(1), ranks, right=True).clamp_max(levels - 1)
    if u[8] < 0.6 and not written:
        kept = 1 if resting else 0
        order = torch.cat((torch.arange(kept), kept + torch.randperm(levels - kept, generator=generator)))
        index = order[index]
    return (gaps.cumsum(0) / gaps.sum())[index].to(x.dtype)


def code_of(levels: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The gaps below ``levels`` codes that stand in a few blocks of equal steps, and how much each block is used.

    A character code is like that: figures, capitals and small letters are blocks, and one block is most of a text.
    """
    u = torch.rand(levels, generator=generator)
    border = u < 3.0 / levels
    gaps = torch.where(border, 2 + 15 * torch.rand(levels, generator=generator) ** 2, torch.ones(levels))
    block = border.cumsum(0)
    return gaps, torch.exp(1.5 * torch.randn(levels + 1, generator=generator))[block]


def in_words(ranks: Tensor, likely: Tensor, resting: bool, generator: torch.Generator) -> Tensor:
    """Numbers of levels ``[B, n]``: each drawn by its rank (0 to 1) from what likes to follow the one before it.

    ``likely`` ``[B, levels]`` is how likely each level is; all rows share which levels like each other. With
    ``resting`` level 0 comes only between words, whose lengths vary about a mean that the rows nearly share.
    """
    (count, n), levels = ranks.shape, likely.shape[1]
    u = torch.rand(3, generator=generator).tolist()
    liking = torch.exp(2.0 * u[0] * torch.randn(1, levels, levels, generator=generator))
    follows = (liking * likely[:, None]).numpy()  # (B, levels before, levels)
    if resting:
        follows[:, :, 0] = 0
    chances = (follows / follows.sum(-1, keepdims=True)).cumsum(-1).astype(np.float32)
    chances[:, :, -1] = 2.0  # a rank of one is the last level, whatever the sum was rounded to
    steps, rows, place = ranks.numpy().T, np.arange(count), np.zeros((n, count), np.int64)
    before = place[0]
    for step, rank in enumerate(steps):
        before = (chances[rows, before] <= rank[:, None]).sum(1)
        place[step] = before
    index = torch.from_numpy(place.T.copy())
    if resting:
        mean = (3 + 5 * u[1]) * torch.exp(0.08 * torch.randn(count, 1, generator=generator))
        lengths = mean * torch.exp((0.2 + 0.5 * u[2]) * torch.randn(count, n // 2, generator=generator))
        ends = (lengths.round().clamp_min(1) + 1).cumsum(1).long() - 1
        between = torch.zeros(count, n + 1, dtype=torch.bool).scatter_(1, ends.clamp_max(n), True)
        index[between[:, :n]] = 0
    return index
