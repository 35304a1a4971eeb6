"""Seismograms in miniSEED: the components of a station as channels on one time grid, gaps filled and reported.

Missing samples inside the common time span are bridged by a straight line: zeros would put steps into raw counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError, MissingExtraError
from planformer.signals.reading import Request
from planformer.signals.signal import check_rate
from planformer.signals.source import BLOCK_SAMPLES, Source

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class _Piece:
    """Samples without a gap; ``start`` in nanoseconds."""

    start: int
    samples: npt.NDArray[Any]


def open_file(request: Request) -> Source:
    traces, rate = _load(request)
    first, count = _common_span(request.name, traces, rate)
    data = np.empty((len(traces), count), np.float64)
    gaps: list[dict[str, Any]] = []
    for row, (sourceid, pieces) in zip(data, traces.items(), strict=True):
        gaps += _fill(row, pieces, first, rate, sourceid)
    channels = len(traces)

    def blocks() -> Iterator[npt.NDArray[Any]]:
        step = max(1, BLOCK_SAMPLES // channels)
        for start in range(0, count, step):
            yield data[:, start : start + step]

    provenance = {
        "format": "miniseed",
        "sourceids": list(traces),
        "start": str(np.datetime64(first, "ns")),
        "gaps": gaps,
        "samples_filled": sum(gap["samples"] for gap in gaps),
    }
    return Source(request.name, "seismic", check_rate(rate, request.name), channels, True, blocks, provenance)


def _load(request: Request) -> tuple[dict[str, list[_Piece]], float]:
    try:
        import pymseed
    except ImportError as error:
        raise MissingExtraError("pymseed", "seismic", f"{request.name}: reading miniSEED") from error
    with pymseed.MS3RecordReader(str(request.path)) as records:
        complete = sum(record.reclen for record in records)
    if complete < request.path.stat().st_size:  # libmseed ends at half a record without a word
        raise InputError(f"{request.name}: truncated or damaged after {complete} bytes; copy it again")
    traces: dict[str, list[_Piece]] = {}
    rates: set[float] = set()
    with pymseed.MS3TraceList.from_file(str(request.path), unpack_data=True) as found:
        names = sorted({trace.sourceid for trace in found})
        for trace in found:
            if request.key is not None and request.key not in trace.sourceid:
                continue
            pieces = [
                _Piece(part.starttime, np.array(part.np_datasamples))
                for part in trace
                if part.sampletype in ("i", "f", "d") and part.numsamples > 0
            ]
            if pieces:
                rates |= {part.samprate for part in trace}
                traces.setdefault(trace.sourceid, []).extend(pieces)
    if not traces:
        wanted = f" whose name contains {request.key!r}; there are: {', '.join(names)}" if request.key else ""
        raise InputError(f"{request.name}: there is no waveform in it{wanted}")
    if max(rates) - min(rates) > 1e-4 * max(rates):
        shown = ", ".join(f"{rate:g}" for rate in sorted(rates))
        raise InputError(
            f"{request.name}: components with different sample rates ({shown} Hz); "
            f"choose some with key (--key), a part of: {', '.join(names)}"
        )
    return traces, check_rate(max(rates), request.name)


def _common_span(name: str, traces: dict[str, list[_Piece]], rate: float) -> tuple[int, int]:
    """First time and number of samples that all components cover (but for their gaps)."""
    step = NANOSECONDS / rate
    first = max(min(p.start for p in pieces) for pieces in traces.values())
    last = min(max(p.start + (len(p.samples) - 1) * step for p in pieces) for pieces in traces.values())
    count = round((last - first) / step) + 1
    present = sum(len(p.samples) for pieces in traces.values() for p in pieces)
    if count < 1:
        raise InputError(f"{name}: its components have no time in common; choose one with key (--key)")
    if count * len(traces) > 4 * present + 1_000_000:
        raise InputError(f"{name}: the gaps are longer than the data; split the file at them")
    return first, count


def _fill(
    row: npt.NDArray[np.float64], pieces: list[_Piece], first: int, rate: float, sourceid: str
) -> list[dict[str, Any]]:
    """Lay the pieces into their places; bridge what is missing and list it."""
    missing = np.ones(len(row), bool)
    for piece in sorted(pieces, key=lambda p: p.start):
        at = round((piece.start - first) * rate / NANOSECONDS)
        lo, hi = max(0, at), min(len(row), at + len(piece.samples))
        if lo < hi:
            row[lo:hi] = piece.samples[lo - at : hi - at]
            missing[lo:hi] = False
    if not missing.any():
        return []
    if missing.all():
        row[:] = 0
    else:
        have = np.flatnonzero(~missing)
        row[missing] = np.interp(np.flatnonzero(missing), have, row[have])
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(np.int8)))
    return [
        {"sourceid": sourceid, "at": int(start), "samples": int(stop - start)}
        for start, stop in zip(edges[::2], edges[1::2], strict=True)
    ]
