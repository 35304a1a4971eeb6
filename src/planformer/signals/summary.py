"""What is in a file, in a few numbers, from one pass with bounded memory: what `planformer inspect` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.signals.analytic import ComplexArray
from planformer.signals.preprocess import SEGMENT, rechunk
from planformer.signals.source import Source

FRAME = 1024


@dataclass(frozen=True)
class Summary:
    """Power is the mean square (of the measured part: a real signal's imaginary part does not count).

    ``dynamic_range_db`` is the level of the loudest short frame (1,024 samples, or a sixteenth of a short signal) over
    that of the quietest 5 %; frames that are exactly silent are left out and counted.
    """

    file: str
    kind: str
    rate: float
    channels: int
    samples: int
    duration: float
    segments: int
    power: float
    peak: float
    dynamic_range_db: float
    silent_percent: float
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarise(source: Source, keep: int = 0) -> tuple[Summary, ComplexArray]:
    """Go through a source once; also return its first ``keep`` samples ``[channels, up to keep]``.

    >>> import pathlib, tempfile
    >>> from planformer.signals.reading import open_source
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("abcd" * 256)
    >>> summary, _ = summarise(open_source(file))
    >>> summary.samples, summary.kind, summary.segments
    (1024, 'text', 1)
    """
    levels: list[npt.NDArray[np.float64]] = []
    kept: list[ComplexArray] = []
    count, held, peak, energy = 0, 0, 0.0, 0.0
    measured_real = source.real or bool(source.provenance.get("analytic", False))
    for block in rechunk(source.complex_blocks(), FRAME * 256):
        if held < keep:
            kept.append(block[:, : keep - held].copy())
            held += kept[-1].shape[1]
        square = _square(block, measured_real)
        peak = max(peak, float(square.max()))
        energy += float(square.sum())
        levels.append(_frame_powers(square, _frame_length(block.shape[1], count)))
        count += block.shape[1]
    power_of_frames = np.concatenate(levels)
    segments = 1 if source.kind == "image" else -(-count // SEGMENT)
    summary = Summary(
        file=source.name,
        kind=source.kind,
        rate=source.rate,
        channels=source.channels,
        samples=count,
        duration=count / source.rate,
        segments=segments,
        power=energy / (count * source.channels),
        peak=peak**0.5,
        dynamic_range_db=_range_db(power_of_frames),
        silent_percent=float(100 * (power_of_frames == 0).mean()),
        details={**source.provenance, **source.report()},
    )
    return summary, np.concatenate(kept, axis=1) if kept else np.zeros((source.channels, 0), np.complex64)


def _square(block: ComplexArray, measured_real: bool) -> npt.NDArray[np.float64]:
    real = np.square(block.real, dtype=np.float64)
    return real if measured_real else real + np.square(block.imag, dtype=np.float64)


def _frame_length(samples: int, before: int) -> int:
    return FRAME if before or samples >= 16 * FRAME else max(1, samples // 16)


def _frame_powers(square: npt.NDArray[np.float64], length: int) -> npt.NDArray[np.float64]:
    """Mean power of each frame of each channel; a rest shorter than a frame is left out, unless it is all there is."""
    count = square.shape[1] // length
    if not count:
        return square.mean(axis=1)
    return square[:, : count * length].reshape(len(square), count, length).mean(axis=2).ravel()


def _range_db(powers: npt.NDArray[np.float64]) -> float:
    heard = powers[powers > 0]
    if not heard.size:
        return 0.0
    return float(10 * np.log10(heard.max() / np.quantile(heard, 0.05)))
