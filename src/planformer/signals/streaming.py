"""Segments of a file with bounded memory (paper, Appendix A.9): a two-hour recording needs what a minute needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from planformer.errors import InputError
from planformer.signals.analytic import ComplexArray
from planformer.signals.preprocess import PreprocessConfig, frame_blocks, measure, segments, signal_segments
from planformer.signals.reading import open_source
from planformer.signals.signal import Kind, Signal
from planformer.signals.source import Source, collect


def iter_segments(
    path_or_signal: str | Path | Signal,
    config: PreprocessConfig | None = None,
    *,
    kind: Kind | None = None,
    rate: float | None = None,
    channels: str | int | None = None,
    key: str | None = None,
    first_frame: bool = False,
    datatype: str | None = None,
    batch: int = 64,
) -> Iterator[ComplexArray]:
    """Segments ``[channels, up to batch, 5120]`` in order; together exactly ``prepare(read(path))``.

    ``normalise="signal"`` reads the file twice. A signal that turns out to be constant raises after its last segment.

    >>> from planformer.signals import from_array
    >>> [x.shape for x in iter_segments(from_array(range(20_000)), batch=3)]
    [(1, 3, 5120), (1, 1, 5120)]
    """
    if batch < 1:
        raise InputError(f"batch {batch}: at least one segment at a time")
    config = config or PreprocessConfig()
    if isinstance(path_or_signal, Signal):
        return _rebatch(signal_segments(path_or_signal, config), batch)
    source = open_source(
        path_or_signal, kind, rate=rate, channels=channels, key=key, first_frame=first_frame, datatype=datatype
    )
    return _rebatch(_source_segments(source, config), batch)


def _source_segments(source: Source, config: PreprocessConfig) -> Iterator[ComplexArray]:
    if source.kind == "image":
        yield from signal_segments(collect(source), config)
        return
    removes = config.remove_mean and (source.real or bool(source.provenance.get("analytic", False)))

    def blocks() -> Iterator[ComplexArray]:
        if source.kind != "video":
            yield from source.complex_blocks()
            return
        for frame in source.complex_blocks():  # one frame a block
            one = Signal(frame, source.rate, "video", {"analytic": True, "frames": 1})
            yield from frame_blocks(one, config)

    level = measure(blocks(), removes, config) if config.normalise == "signal" else None
    yield from segments(blocks(), config, removes_mean=removes, level=level)


def _rebatch(parts: Iterator[ComplexArray], batch: int) -> Iterator[ComplexArray]:
    held: list[ComplexArray] = []
    count = 0
    for part in parts:
        held.append(part)
        count += part.shape[1]
        while count >= batch:
            joined = held[0] if len(held) == 1 else np.concatenate(held, axis=1)
            yield joined[:, :batch]
            held, count = [joined[:, batch:]], count - batch
    if count:
        yield np.concatenate(held, axis=1)
