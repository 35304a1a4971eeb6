"""The one resampling path of all radio data, real or simulated: everything becomes 7.69 MHz (paper, Appendix D.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

TARGET_RATE = 7.69e6  # Hz, the native rate of POWDER's 4G and 5G recordings

ComplexArray = npt.NDArray[np.complex64]


def resample(x: ComplexArray, rate: float, target: float = TARGET_RATE) -> ComplexArray:
    """Band-limited resampling of complex samples from ``rate`` to ``target`` Hz; any ratio, linear phase, no delay.

    >>> resample(np.ones(5000, np.complex64), 5e6).size
    7690
    """
    import soxr

    if rate == target:
        return x
    pairs = np.ascontiguousarray(x, np.complex64).view(np.float32).reshape(-1, 2)  # [n] complex -> [n, 2]
    return _to_complex(soxr.resample(pairs, rate, target, quality="HQ"))


def resample_blocks(blocks: Iterable[ComplexArray], rate: float, target: float = TARGET_RATE) -> Iterator[ComplexArray]:
    """:func:`resample` for a stream of blocks: the same samples, with memory for one block."""
    import soxr

    if rate == target:
        yield from blocks
        return
    stream = soxr.ResampleStream(rate, target, 2, dtype="float32", quality="HQ")
    for block in blocks:
        yield _to_complex(stream.resample_chunk(block.view(np.float32).reshape(-1, 2)))
    yield _to_complex(stream.resample_chunk(np.empty((0, 2), np.float32), last=True))


def _to_complex(pairs: Any) -> ComplexArray:
    result: ComplexArray = np.ascontiguousarray(pairs, np.float32).view(np.complex64)[:, 0]
    return result
