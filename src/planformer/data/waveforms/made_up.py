"""Protocols that do not exist: OFDM of any numerology, and single carriers (our addition).

A radio is to be known by its hardware, whatever it sends; a network that has heard it send WiFi and 4G alone knows it
in those two. Here carriers, prefix, frame, load, pilots and band are drawn for every recording. The transform sizes
leave out those of LTE and NR (512 and 256), so that neither standard's numerology can come out.
"""

from __future__ import annotations

import numpy as np

from planformer.data.resampling import ComplexArray
from planformer.data.waveforms.cellular import grid_to_time
from planformer.data.waveforms.linear import LINEAR, linear_waveform
from planformer.data.waveforms.symbols import random_symbols

SIZES = (64, 96, 128, 160, 192, 320, 384, 448, 640, 768, 1024)
_NAMES = ("QPSK", "8PSK", "16QAM", "64QAM", "256QAM")
_SINGLE_PROB = 0.2


def made_up_waveform(rng: np.random.Generator, n: int) -> ComplexArray:
    """``n`` samples of a protocol that is drawn here.

    >>> from planformer.data.seeding import generator
    >>> made_up_waveform(generator(0), 5120).shape
    (5120,)
    """
    if rng.random() < _SINGLE_PROB:
        name = LINEAR[rng.integers(len(LINEAR))]
        return linear_waveform(rng, n, name, int(rng.integers(2, 13)), float(rng.uniform(0.15, 0.6)))
    return _ofdm(rng, n)


def _ofdm(rng: np.random.Generator, n: int) -> ComplexArray:
    """Frames of a few symbols, some of them empty, each with its own users, and a preamble every few frames."""
    size = int(rng.choice(SIZES))
    carriers = 2 * max(12, round(size * rng.uniform(0.2, 0.42)))
    prefix = max(2, round(size * 2.0 ** -rng.uniform(2, 5)))
    length = int(rng.integers(2, 21))
    frames = n // (length * size) + 2
    grid = np.zeros((frames * length, carriers), np.complex64)
    load, period, comb = rng.uniform(0.3, 1.0), int(rng.integers(1, 9)), int(rng.integers(2, 13))
    preamble = random_symbols(rng, "QPSK", carriers) * (np.arange(carriers) % int(rng.integers(1, 4)) == 0)
    for frame in range(frames):
        part = grid[frame * length : (frame + 1) * length]
        if rng.random() < load:
            _fill(rng, part, comb)
        if frame % period == 0:
            part[0] = preamble
    return grid_to_time(grid, size, (prefix,) * length, int(rng.integers(size)), n)


def _fill(rng: np.random.Generator, frame: ComplexArray, comb: int) -> None:
    """One to three users side by side on a part of the carriers, each with a modulation and a power; pilots among."""
    symbols, carriers = frame.shape
    start = int(rng.integers(0, carriers // 2))
    stop = int(rng.integers(start + carriers // 3, carriers + 1))
    for columns in np.array_split(np.arange(start, stop), int(rng.integers(1, 4))):
        name, level = _NAMES[rng.integers(len(_NAMES))], np.float32(10 ** (rng.uniform(-3, 1) / 20))
        frame[:, columns] = level * random_symbols(rng, name, symbols, columns.size)
    pilots = np.arange(start + int(rng.integers(comb)), stop, comb)
    frame[:: int(rng.integers(1, 5)), pilots] = np.float32(1.2) * random_symbols(rng, "QPSK", pilots.size)
