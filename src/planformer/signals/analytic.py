"""Real sequences to analytic (complex) ones by the Hilbert transform (paper, Appendix A.3.1).

Up to :data:`BLOCK` samples the transform is one FFT over the whole signal. Beyond, it runs on a fixed grid of blocks
of :data:`BLOCK` samples, each with :data:`MARGIN` samples of context on both sides that are thrown away. The grid
depends on the sample index only, never on how a file was read, so a stream gives bit for bit what the whole gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft as sp_fft

BLOCK = 1 << 20
MARGIN = 1 << 16

ComplexArray = npt.NDArray[np.complex64]
FloatArray = npt.NDArray[np.float32]


def one_sided(spectrum: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """Scale the ``rfft`` of ``n`` real samples to an analytic spectrum: positive bins twice, DC and Nyquist once."""
    last = (n + 1) // 2  # the Nyquist bin exists only for even n and is its own mirror image
    spectrum[..., 1:last] *= 2
    return spectrum


def hilbert(x: FloatArray) -> ComplexArray:
    """Analytic signal of real ``[..., n]`` by one FFT; the real part is the input itself, exactly."""
    n = x.shape[-1]
    half = one_sided(sp_fft.rfft(x, axis=-1), n)
    full = np.zeros((*x.shape[:-1], n), np.complex64)
    full[..., : half.shape[-1]] = half
    out: ComplexArray = sp_fft.ifft(full, axis=-1, overwrite_x=True).astype(np.complex64, copy=False)
    out.real = x
    return out


def _grid_block(x: FloatArray, start: int, index: int, stop: int) -> ComplexArray:
    """Block ``index`` of the grid, from ``x`` whose first sample has number ``start``; the signal ends at ``stop``."""
    first, last = index * BLOCK, min((index + 1) * BLOCK, stop)
    lo, hi = max(0, first - MARGIN), min(stop, (index + 1) * BLOCK + MARGIN)
    return hilbert(x[..., lo - start : hi - start])[..., first - lo : last - lo]


def analytic(x: npt.ArrayLike) -> ComplexArray:
    """Real ``[..., n]`` -> analytic ``[..., n]`` whose real part is ``x`` and whose negative frequencies are empty.

    >>> import numpy as np
    >>> t = np.arange(64)
    >>> z = analytic(np.cos(2 * np.pi * 4 * t / 64))
    >>> bool(np.allclose(z, np.exp(2j * np.pi * 4 * t / 64), atol=1e-5))
    True
    """
    real = np.ascontiguousarray(x, dtype=np.float32)
    n = real.shape[-1]
    if n <= BLOCK:
        return hilbert(real)
    out = np.empty(real.shape, np.complex64)
    for index in range(-(-n // BLOCK)):
        out[..., index * BLOCK : (index + 1) * BLOCK] = _grid_block(real, 0, index, n)
    return out


def analytic_blocks(blocks: Iterable[npt.NDArray[Any]]) -> Iterator[ComplexArray]:
    """The stream version of :func:`analytic`: real blocks ``[channels, k]`` of any size -> analytic ones, same numbers.

    Holds at most ``BLOCK + 2 MARGIN`` samples plus one incoming block.
    """
    held: list[FloatArray] = []
    start = stop = index = 0  # held covers sample numbers [start, stop)
    for block in blocks:
        held.append(np.ascontiguousarray(block, dtype=np.float32))
        stop += block.shape[-1]
        while stop > (index + 1) * BLOCK + MARGIN:
            x = np.concatenate(held, axis=-1)
            yield _grid_block(x, start, index, stop)
            index += 1
            keep = index * BLOCK - MARGIN
            held = [x[..., keep - start :].copy()]
            start = keep
    if not held:
        return
    x = np.concatenate(held, axis=-1)
    if stop <= BLOCK:
        yield hilbert(x)
        return
    while index * BLOCK < stop:
        yield _grid_block(x, start, index, stop)
        index += 1
