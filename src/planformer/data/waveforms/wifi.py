"""802.11a/g-like frames: training fields, signal field, data symbols with pilots; 64 carriers at the sample rate.

At 5 MS/s (quarter clock) the 52 used carriers span 4.1 MHz. Bits are not coded: scrambled and coded bits look
uniformly random on the air.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from planformer.data.resampling import ComplexArray
from planformer.data.seeding import generator
from planformer.data.waveforms.symbols import random_symbols

SIZE, PREFIX = 64, 16
PILOTS = np.array([-21, -7, 7, 21])
DATA = np.array([k for k in range(-26, 27) if k and abs(k) not in (7, 21)])
PILOT_VALUES = np.array([1, 1, 1, -1], np.float32)
_LONG = [1, 1, -1, -1, 1, 1, -1, 1, -1, 1, 1, 1, 1, 1, 1, -1, -1, 1, 1, -1, 1, -1, 1, 1, 1, 1, 0,
         1, -1, -1, 1, 1, -1, 1, -1, 1, -1, -1, -1, -1, -1, 1, 1, -1, -1, 1, -1, 1, -1, 1, 1, 1, 1]  # fmt: skip
_SHORT = {-24: 1, -20: -1, -16: 1, -12: -1, -8: -1, -4: 1, 4: -1, 8: -1, 12: 1, 16: 1, 20: 1, 24: 1}


def _to_time(carriers: ComplexArray) -> ComplexArray:
    """Spectrum ``[symbols, 64]`` (FFT order) -> samples of unit mean power."""
    result: ComplexArray = (np.fft.ifft(carriers, axis=-1) * (SIZE / np.sqrt(52))).astype(np.complex64)
    return result


@lru_cache(maxsize=1)
def preamble() -> ComplexArray:
    """Ten short and two long training symbols, 320 samples."""
    short, long = np.zeros(SIZE, np.complex64), np.zeros(SIZE, np.complex64)
    for carrier, sign in _SHORT.items():
        short[carrier] = sign * (1 + 1j) * np.sqrt(13 / 6)
    long[np.arange(-26, 27)] = _LONG
    short_time, long_time = _to_time(short), _to_time(long)
    return np.concatenate([np.tile(short_time, 3)[:160], long_time[-32:], long_time, long_time])


@lru_cache(maxsize=1)
def pilot_polarity() -> np.ndarray:
    """The 127 signs of the scrambler x^7 + x^4 + 1 started with ones, by which the pilots are multiplied."""
    state, signs = [1] * 7, []
    for _ in range(127):
        bit = state[6] ^ state[3]
        signs.append(1 - 2 * bit)
        state = [bit, *state[:6]]
    return np.array(signs, np.float32)


def frame(rng: np.random.Generator, modulation: str, num_symbols: int) -> ComplexArray:
    """One frame with ``num_symbols`` data symbols after the BPSK signal field.

    >>> frame(generator(0), "QPSK", 10).size == 320 + 80 * 11
    True
    """
    grid = np.zeros((num_symbols + 1, SIZE), np.complex64)
    grid[0, DATA] = random_symbols(rng, "BPSK", DATA.size)
    grid[1:, DATA] = random_symbols(rng, modulation, num_symbols, DATA.size)
    polarity = np.resize(pilot_polarity(), num_symbols + 1)
    grid[:, PILOTS] = polarity[:, None] * PILOT_VALUES
    symbols = _to_time(grid)  # [symbols, 64]
    with_prefix = np.concatenate([symbols[:, -PREFIX:], symbols], axis=1)  # [symbols, 80]
    return np.concatenate([preamble(), with_prefix.ravel()])


@lru_cache(maxsize=1)
def playlist() -> tuple[ComplexArray, ...]:
    """The 127 frames that *every* ORACLE radio sends: identical data, so that only the hardware differs."""
    rng = generator("oracle playlist")
    modulations = rng.choice(["BPSK", "QPSK", "16QAM", "64QAM"], 127, p=[0.3, 0.3, 0.25, 0.15])
    return tuple(frame(rng, str(name), int(rng.integers(8, 60))) for name in modulations)


def oracle_waveform(rng: np.random.Generator, n: int) -> ComplexArray:
    """Frames of the common playlist from a random entry, with contention gaps; complex64 ``[n]``."""
    frames = playlist()
    start = int(rng.integers(len(frames)))
    return _burst_sequence(rng, n, (frames[(start + k) % len(frames)] for k in range(10**9)), mean_gap=400)


def wifi_waveform(rng: np.random.Generator, n: int) -> ComplexArray:
    """Frames with fresh content, random rates and lengths, and a random load; complex64 ``[n]``."""
    names = ("BPSK", "QPSK", "16QAM", "64QAM")
    mean_gap = int(10 ** rng.uniform(2.0, 3.7))
    frames = (frame(rng, names[rng.integers(4)], int(10 ** rng.uniform(0.5, 2.2))) for _ in range(10**9))
    return _burst_sequence(rng, n, frames, mean_gap)


def _burst_sequence(rng: np.random.Generator, n: int, frames: Iterable[ComplexArray], mean_gap: int) -> ComplexArray:
    """Frames separated by an inter-frame space and a random back-off, cut to ``n`` samples."""
    out = np.zeros(n, np.complex64)
    position = -int(rng.integers(1000))
    for samples in frames:
        lo, hi = max(position, 0), min(position + samples.size, n)
        if hi > lo:
            out[lo:hi] = samples[lo - position : hi - position]
        position += samples.size + 80 + int(rng.exponential(mean_gap))
        if position >= n:
            return out
    return out
