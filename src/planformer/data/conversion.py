"""Real recordings, in whatever sample format they came, to what training reads: labelled SigMF, ci16, 7.69 MHz."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.data.resampling import TARGET_RATE, ComplexArray, resample_blocks
from planformer.errors import InputError

BLOCK = 1 << 20
_FORMATS = {"cf32_le": ("<f4", 8), "cf64_le": ("<f8", 16)}  # name -> (numpy type of I and Q, bytes per sample)
_PEAK = 0.9  # of full scale after conversion


@dataclass(frozen=True)
class RealRecording:
    """One file of a public data set: where it is, how to read it, what its name says."""

    data: Path
    datatype: str  # cf32_le or cf64_le, as decided
    decision: str  # why: what the metadata state and what the values look like
    rate: float
    labels: dict[str, Any] = field(default_factory=dict)  # emitter, family, collection, protocol, day and more

    @property
    def samples(self) -> int:
        return self.data.stat().st_size // _FORMATS[self.datatype][1]

    @property
    def resampled(self) -> int:
        """Samples after conversion to 7.69 MHz."""
        return round(self.samples * TARGET_RATE / self.rate)

    @property
    def name(self) -> str:
        return self.data.name.removesuffix(".sigmf-data").removesuffix(".bin")


def decide_datatype(data: Path, stated: object) -> tuple[str, str]:
    """(datatype, reason): the stated one if the values bear it out, otherwise the one that they do.

    Public copies of these sets state cf32 for files that hold pairs of float64, and the reverse.
    """
    size = data.stat().st_size
    if size < 16:
        raise InputError(f"{data}: {size} bytes, not one complex sample; download it again")
    head = np.fromfile(data, np.uint8, count=min(size // 16 * 16, 1 << 16))
    likely = [name for name, (dtype, _) in _FORMATS.items() if _plausible(head.view(dtype))]
    wanted = {"cf32": "cf32_le", "cf64": "cf64_le", "cf128": "cf64_le"}.get(str(stated).removesuffix("_le"))
    if wanted in likely:
        return str(wanted), f"stated {stated}, plausible"
    if len(likely) == 1:
        return likely[0], f"stated {stated!r}, but only {likely[0]} gives plausible values"
    raise InputError(f"{data}: neither float32 nor float64 IQ gives plausible values (stated: {stated!r})")


def _plausible(values: npt.NDArray[Any]) -> bool:
    """Amplitudes of one recording lie within a few decades; the wrong width scatters them over dozens."""
    if not np.all(np.isfinite(values)):  # before any arithmetic: random bits make signalling NaNs
        return False
    magnitudes = np.abs(values[values != 0].astype(np.float64))
    if magnitudes.size < values.size // 4:
        return False
    low, middle, high = np.log10(np.quantile(magnitudes, [0.05, 0.5, 0.95]))
    return bool(high - low < 5 and -8 < middle < 6)


def read_blocks(recording: RealRecording, limit: int | None = None) -> Iterator[ComplexArray]:
    """The samples in blocks of complex64; a file that ends within a sample is an error."""
    dtype, width = _FORMATS[recording.datatype]
    size = recording.data.stat().st_size
    if size % width:
        raise InputError(
            f"{recording.data}: {size} bytes is no whole number of {recording.datatype} samples; truncated?"
        )
    count = size // width if limit is None else min(limit, size // width)
    for start in range(0, count, BLOCK):
        pairs = np.fromfile(recording.data, dtype, count=2 * min(BLOCK, count - start), offset=start * width)
        block: ComplexArray = pairs.astype(np.float32).view(np.complex64)
        if not np.all(np.isfinite(block)):
            raise InputError(f"{recording.data}: not a number between samples {start} and {start + block.size}")
        yield block


def convert(recording: RealRecording, folder: Path, limit: int | None = None) -> tuple[Path, bool]:
    """Write ``recording`` below ``folder`` for training; returns the metadata's path and whether it was new."""
    from planformer.data.labels import label_metadata
    from planformer.signals.sigmf_files import write_sigmf

    target = folder / str(recording.labels["collection"]) / recording.name
    meta = Path(f"{target}.sigmf-meta")
    if _converted(meta, recording, limit):
        return meta, False
    blocks = [block for block in resample_blocks(read_blocks(recording, limit), recording.rate) if block.size]
    samples = np.concatenate(blocks) if blocks else np.zeros(0, np.complex64)
    peak = float(np.max(np.abs(samples.view(np.float32)), initial=0.0))
    if samples.size == 0 or peak == 0:
        raise InputError(f"{recording.data}: no signal in it (all samples are zero)")
    samples *= np.float32(_PEAK / peak)
    labels = dict(recording.labels) | {"source_bytes": recording.data.stat().st_size, "limit": limit}
    header = label_metadata(**labels, native_rate=recording.rate, datatype_decision=recording.decision)
    target.parent.mkdir(parents=True, exist_ok=True)
    return write_sigmf(target, samples, TARGET_RATE, "ci16_le", header, scale=1.0), True


def _converted(meta: Path, recording: RealRecording, limit: int | None) -> bool:
    try:
        header = json.loads(meta.read_text())["global"]
    except (OSError, ValueError, KeyError):
        return False
    same = header.get("planformer:source_bytes") == recording.data.stat().st_size
    return bool(same and header.get("planformer:limit") == limit and meta.with_suffix(".sigmf-data").is_file())


def read_json(path: Path) -> dict[str, Any]:
    """Metadata of a recording as a dictionary; problems name the file."""
    if not path.is_file():
        raise InputError(f"{path}: missing; every data file has its metadata beside it")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as JSON ({error})") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: not an object with 'global' metadata")
    return document
