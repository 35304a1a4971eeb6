"""Linear modulations with root-raised-cosine pulses."""

from __future__ import annotations

import numpy as np

from planformer.data.resampling import ComplexArray
from planformer.data.waveforms.symbols import random_symbols

LINEAR = ("BPSK", "QPSK", "8PSK", "PAM4", "16QAM", "64QAM")


def root_raised_cosine(samples_per_symbol: int, rolloff: float, span: int = 12) -> np.ndarray:
    """The pulse over ``span`` symbols, its energy such that unit-power symbols give unit power.

    >>> h = root_raised_cosine(8, 0.35)
    >>> h.size, round(float(np.sum(h**2)), 3)
    (97, 8.0)
    """
    t = np.arange(-span * samples_per_symbol // 2, span * samples_per_symbol // 2 + 1) / samples_per_symbol
    b = rolloff
    with np.errstate(divide="ignore", invalid="ignore"):
        h = (np.sin(np.pi * t * (1 - b)) + 4 * b * t * np.cos(np.pi * t * (1 + b))) / (
            np.pi * t * (1 - (4 * b * t) ** 2)
        )
    h[np.isclose(t, 0)] = 1 + b * (4 / np.pi - 1)
    edge = np.isclose(np.abs(t), 1 / (4 * b))
    h[edge] = b / np.sqrt(2) * (
        (1 + 2 / np.pi) * np.sin(np.pi / (4 * b)) + (1 - 2 / np.pi) * np.cos(np.pi / (4 * b))
    )  # fmt: skip
    return h * np.sqrt(samples_per_symbol / np.sum(h**2))


def linear_waveform(
    rng: np.random.Generator, n: int, name: str, samples_per_symbol: int = 8, rolloff: float = 0.35, span: int = 12
) -> ComplexArray:
    """``n`` samples of the named constellation, from a random phase of the symbol clock.

    >>> from planformer.data.seeding import generator
    >>> linear_waveform(generator(0), 1000, "QPSK").shape
    (1000,)
    """
    from scipy.signal import upfirdn

    pulse = root_raised_cosine(samples_per_symbol, rolloff, span).astype(np.float32)
    symbols = random_symbols(rng, name, n // samples_per_symbol + span + 3)
    start = pulse.size - 1 + int(rng.integers(samples_per_symbol))
    samples: ComplexArray = upfirdn(pulse, symbols, samples_per_symbol)[start : start + n].astype(np.complex64)
    return samples
