"""Continuous-phase modulations: CPFSK, GFSK and narrow-band CPM, all of constant envelope."""

from __future__ import annotations

import numpy as np

from planformer.data.impairments import rotate
from planformer.data.resampling import ComplexArray

_GRID = 32  # phase samples per symbol before interpolation to the native rate


def cpm_waveform(
    rng: np.random.Generator,
    n: int,
    samples_per_symbol: float,
    *,
    levels: int = 2,
    index: float = 0.5,
    pulse: str = "rectangular",
    product: float = 0.35,
) -> ComplexArray:
    """``n`` samples of CPM with modulation ``index`` and a rectangular, raised-cosine or Gaussian frequency pulse.

    ``product`` is the Gaussian filter's bandwidth times the symbol duration. Any real number of samples per symbol.

    >>> from planformer.data.seeding import generator
    >>> bool(np.allclose(abs(cpm_waveform(generator(0), 100, 8)), 1, atol=1e-6))
    True
    """
    shape = _frequency_pulse(pulse, product)
    num_symbols = int(n / samples_per_symbol) + 12
    data = 2 * rng.integers(levels, size=num_symbols) - (levels - 1)
    steps = np.zeros(num_symbols * _GRID)
    steps[::_GRID] = data
    frequency = np.convolve(steps, shape)[: steps.size]
    phase = np.concatenate([[0.0], np.cumsum(frequency) * (index / 2)])  # in cycles: pi h per symbol of +1
    position = (5 + rng.random() + np.arange(n) / samples_per_symbol) * _GRID
    return rotate(np.ones(n, np.complex64), np.interp(position, np.arange(phase.size), phase) + rng.random())


def _frequency_pulse(name: str, product: float) -> np.ndarray:
    """Sums to 1, so that one symbol turns the phase by pi times the index."""
    if name == "rectangular":
        pulse = np.ones(_GRID)
    elif name == "raised cosine":  # two symbols long
        pulse = 1 - np.cos(2 * np.pi * (np.arange(2 * _GRID) + 0.5) / (2 * _GRID))
    else:
        t = (np.arange(-2 * _GRID, 2 * _GRID) + 0.5) / _GRID
        bell = np.exp(-2 * (np.pi * product * t) ** 2 / np.log(2))
        pulse = np.convolve(bell, np.ones(_GRID))
    return pulse / pulse.sum()
