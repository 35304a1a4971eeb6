"""Segments of many signals through the network in full batches, results in order, memory of one batch.

A short file is one segment; running it alone would use the machine badly. Here the segments of consecutive items (and
of their channels) fill one batch, and each item's running state is kept only until its last segment has passed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError, PlanFormerError
from planformer.models.readout import Partial, Readout, SegmentPool

if TYPE_CHECKING:
    from planformer.signals import PreprocessConfig

Segments = npt.NDArray[np.complex64]
T = TypeVar("T")


@dataclass(frozen=True)
class Embedded:
    """One finished item: its place in the input, its numbers, and what they were made of."""

    index: int
    embedding: npt.NDArray[np.float32]  # [channels * width]
    channels: int
    segments: int


def item_segments(
    item: Any,
    config: PreprocessConfig,
    *,
    rate: float | None = None,
    kind: str | None = None,
    batch: int = 64,
    read: dict[str, Any] | None = None,
) -> Iterator[Segments]:
    """Normalised segments ``[channels, k, 5120]`` of a path, array, bytes or Signal.

    A generator on purpose: a bad item raises when it is iterated, so that one among many fails alone.
    """
    from planformer import signals

    if isinstance(item, str | os.PathLike):
        yield from signals.iter_segments(Path(item), config, kind=kind, rate=rate, batch=batch, **(read or {}))  # type: ignore[arg-type]
        return
    if read:
        raise InputError(f"{', '.join(read)}: only for paths; index the array instead")
    if not isinstance(item, signals.Signal):
        item = signals.from_array(item, rate=rate, kind=kind or ("text" if isinstance(item, bytes) else "array"))  # type: ignore[arg-type]
    yield from signals.iter_segments(item, config, batch=batch)


@dataclass
class _Open:
    """An item whose segments are on their way: one running state per channel."""

    index: int
    channels: int = 0
    segments: int = 0
    waiting: int = 0  # segments read but not yet through the network
    complete: bool = False
    failed: bool = False
    states: list[Partial | None] = field(default_factory=list)

    def add(self, block: Segments) -> None:
        if self.channels and block.shape[0] != self.channels:
            raise InputError(f"item {self.index}: the number of channels changes inside the signal")
        if not self.channels:
            self.channels = block.shape[0]
            self.states = [None] * self.channels
        self.segments += block.shape[1]
        self.waiting += block.shape[0] * block.shape[1]


def embed_sources(
    pool: SegmentPool,
    sources: Iterable[Iterator[Segments]],
    *,
    batch_size: int,
    readout: Readout,
    on_error: Callable[[int, PlanFormerError], None] | None = None,
) -> Iterator[Embedded]:
    """Run every source's segments, ``batch_size`` at a time, and yield each item as it is finished, in order.

    Without ``on_error`` the first bad item raises, after the items before it have been finished.
    """
    queue: deque[_Open] = deque()
    pending: list[tuple[_Open, int, Segments]] = []  # (item, channel, one segment)
    stopped: PlanFormerError | None = None
    try:
        for item, block in _blocks(sources, queue, on_error):
            if block is not None:
                pending.extend((item, c, block[c, s]) for s in range(block.shape[1]) for c in range(item.channels))
            while len(pending) >= batch_size:
                _run(pool, pending[:batch_size])
                del pending[:batch_size]
            yield from _finished(pool, queue, readout)
    except PlanFormerError as error:
        stopped = error
    for start in range(0, len(pending), batch_size):
        _run(pool, pending[start : start + batch_size])
    yield from _finished(pool, queue, readout)
    if stopped is not None:
        raise stopped


def _blocks(
    sources: Iterable[Iterator[Segments]],
    queue: deque[_Open],
    on_error: Callable[[int, PlanFormerError], None] | None,
) -> Iterator[tuple[_Open, Segments | None]]:
    """Blocks of all sources in turn; None marks the end of one. A bad item fails alone."""
    iterator = iter(sources)
    index = -1
    while True:
        index += 1
        item = _Open(index)
        try:
            try:
                source = next(iterator)
            except StopIteration:
                return
            queue.append(item)
            for block in source:
                item.add(block)
                yield item, block
            if not item.segments:
                raise InputError(f"item {index}: empty signal")
        except PlanFormerError as error:
            item.failed = item.complete = True
            if on_error is None:
                raise
            on_error(index, error)
        item.complete = True
        yield item, None


def _run(pool: SegmentPool, batch: list[tuple[_Open, int, Segments]]) -> None:
    """One batch through the network, its results merged into the states of the items it belongs to."""
    owners: dict[tuple[int, int], int] = {}
    rows = [owners.setdefault((id(item), channel), len(owners)) for item, channel, _ in batch]
    merged = pool.reduce(pool.partials(np.stack([segment for _, _, segment in batch])), rows, len(owners))
    for item, channel, _ in batch:
        item.waiting -= 1
        row = owners.pop((id(item), channel), None)
        if row is None:
            continue
        part, earlier = merged[row], item.states[channel]
        item.states[channel] = part if earlier is None else pool.reduce(Partial.stack([earlier, part]), [0, 0], 1)


def _finished(pool: SegmentPool, queue: deque[_Open], readout: Readout) -> Iterator[Embedded]:
    """Items at the head of the queue whose last segment has passed; their last layers run as one batch."""
    ready: list[_Open] = []
    while queue and queue[0].complete and (queue[0].failed or not queue[0].waiting):
        item = queue.popleft()
        if not item.failed:
            ready.append(item)
    if not ready:
        return
    states = [state for item in ready for state in item.states if state is not None]
    values = pool.read(Partial.stack(states), readout)
    row = 0
    for item in ready:
        yield Embedded(item.index, values[row : row + item.channels].reshape(-1), item.channels, item.segments)
        row += item.channels


def with_progress(results: Iterable[T], total: int | None, *, enabled: bool) -> Iterator[T]:
    """Pass results through, with a bar on standard error."""
    if not enabled:
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, "embedding", total=total, console=Console(stderr=True), transient=True)
