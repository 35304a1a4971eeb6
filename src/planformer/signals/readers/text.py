"""Text, and any bytes at all: one byte is one sample (paper, Appendix E, text tasks)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.signals.reading import Request
from planformer.signals.source import BLOCK_SAMPLES, Source


def open_file(request: Request) -> Source:
    def blocks() -> Iterator[npt.NDArray[Any]]:
        with request.path.open("rb") as file:
            while chunk := file.read(BLOCK_SAMPLES):
                yield np.frombuffer(chunk, np.uint8)[None]

    provenance = {"format": "text", "bytes": request.path.stat().st_size}
    return Source(request.name, "text", request.rate or 1.0, 1, True, blocks, provenance)
