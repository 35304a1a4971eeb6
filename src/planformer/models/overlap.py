"""A long signal through a network that sees one segment: overlapping segments, cross-faded, in bounded memory.

Segments start every ``length - overlap`` samples. Where two of them overlap, one fades out and the next fades in with
raised-cosine weights that add up to one, so the output has no step at a border. The last segment ends where the
signal ends: it reaches back instead of being padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

ComplexArray = npt.NDArray[np.complex64]
# Segments [K, C, length] -> sources [S, K, C, length].
Process = Callable[[ComplexArray], ComplexArray]


@dataclass(frozen=True)
class Cut:
    """One segment ``[C, length]``; the signal continues at index ``fresh`` of it (later than 0 in the last one)."""

    samples: ComplexArray
    fresh: int = 0
    last: bool = False


def cut(blocks: Iterable[ComplexArray], length: int, overlap: int) -> Iterator[Cut]:
    """Blocks ``[C, k]`` of a signal of at least ``length`` samples -> overlapping segments.

    >>> signal = np.arange(10, dtype=np.complex64)[None]
    >>> [(c.samples.real.astype(int).tolist(), c.fresh) for c in cut([signal], 4, 1)]
    [([[0, 1, 2, 3]], 0), ([[3, 4, 5, 6]], 0), ([[6, 7, 8, 9]], 0)]
    """
    held: ComplexArray | None = None
    previous: ComplexArray | None = None
    for block in blocks:
        held = block if held is None else np.concatenate([held, block], axis=1)
        while held.shape[1] > length:  # not the last: there is more
            previous = held[:, :length].copy()  # a copy, so that the block can go
            yield Cut(previous)
            held = held[:, length - overlap :]
    if held is None or (previous is None and held.shape[1] < length):
        raise ValueError(f"a signal of at least {length} samples is needed")
    missing = length - held.shape[1]
    if missing and previous is not None:
        held = np.concatenate([previous, held[:, overlap:]], axis=1)[:, -length:]
    yield Cut(held, missing, last=True)


def fade(overlap: int) -> npt.NDArray[np.float32]:
    """Rising raised-cosine weights; reversed they are the falling ones, and both add up to one.

    >>> bool(np.allclose(fade(8) + fade(8)[::-1], 1))
    True
    """
    return (0.5 - 0.5 * np.cos(np.pi * (np.arange(overlap) + 0.5) / overlap)).astype(np.float32)


def overlap_add(
    blocks: Iterable[ComplexArray], process: Process, *, length: int, overlap: int, batch: int = 16
) -> Iterator[ComplexArray]:
    """Blocks ``[C, k]`` -> finished blocks ``[S, C, m]`` of the same total length, ``batch`` segments at a time.

    >>> x = np.random.default_rng(0).normal(size=(1, 1000)).astype(np.complex64)
    >>> y = np.concatenate(list(overlap_add([x], lambda s: s[None], length=64, overlap=16)), axis=-1)
    >>> bool(np.allclose(y[0], x, atol=1e-6))
    True
    """
    if not 0 <= overlap <= length // 2:
        raise ValueError(f"an overlap of {overlap} samples: from 0 to half of {length}")
    rising = fade(overlap) if overlap else np.zeros(0, np.float32)
    tail: ComplexArray | None = None
    cuts = cut(blocks, length, overlap)
    while group := list(islice(cuts, batch)):
        processed = process(np.stack([c.samples for c in group]))  # (S, K, C, length)
        for index, piece in enumerate(group):
            out = processed[:, index, :, piece.fresh :].copy()
            if tail is not None and overlap:
                out[..., :overlap] = tail * rising[::-1] + out[..., :overlap] * rising
            stop = out.shape[-1] - (0 if piece.last else overlap)
            yield out[..., :stop]
            tail = out[..., stop:]
