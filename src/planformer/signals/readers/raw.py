"""Headerless IQ recordings: the name gives the datatype, the user gives the rate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.signals.reading import Request
from planformer.signals.sigmf_files import EXAMPLES, Datatype, raw_blocks
from planformer.signals.sniff import RAW_SUFFIXES, suffix_of
from planformer.signals.source import BLOCK_SAMPLES, Source


def open_file(request: Request) -> Source:
    suffix = suffix_of(request.path)
    name = request.datatype or RAW_SUFFIXES.get(suffix)
    if name is None:
        raise InputError(
            f"{request.name}: the datatype of a raw IQ file named {suffix or 'without suffix'} is unknown; "
            f"give it with datatype (--datatype), e.g. {EXAMPLES}"
        )
    if request.rate is None:
        raise InputError(
            f"{request.name}: a raw IQ file does not state its sample rate; give it with rate (--rate), in Hz"
        )
    guessed = not name
    kind = Datatype.parse(name or guess_datatype(request.path), request.name)
    size = request.path.stat().st_size
    if size % kind.sample_bytes:
        raise InputError(
            f"{request.name}: {size} bytes are no whole number of {kind.name} samples "
            f"({kind.sample_bytes} bytes each); the file is truncated or has another datatype"
        )

    def blocks() -> Iterator[npt.NDArray[Any]]:
        return raw_blocks(request.path, kind, 1, start=0, stop=size, block_samples=BLOCK_SAMPLES)

    provenance = {"format": "raw", "datatype": kind.name, "datatype_guessed": guessed}
    return Source(request.name, "iq", request.rate, 1, not kind.is_complex, blocks, provenance)


def guess_datatype(path: Path) -> str:
    """`.iq` is written both as float32 and as int16 pairs: read as floats, integers have absurd magnitudes."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    values = np.abs(np.frombuffer(head[: len(head) // 8 * 8], "<f4").astype(np.float64))
    plausible = (values == 0) | ((values > 1e-12) & (values < 1e7))  # false for NaN and infinity
    return "cf32_le" if values.size and plausible.mean() > 0.95 else "ci16_le"
