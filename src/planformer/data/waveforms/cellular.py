"""LTE- and NR-like downlinks on a resource grid: synchronisation, reference signals, control and shared channels.

Both run at 512 or 256 carriers over the native 7.69 MS/s (15 or 30 kHz spacing). Loads, allocations and modulations
change from slot to slot. Sequences have the standards' shape and place (Zadoff-Chu, m-sequence, comb), not their
identities.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from planformer.data.resampling import ComplexArray
from planformer.data.waveforms.symbols import random_symbols

LTE_SIZE, LTE_BLOCKS, LTE_PREFIXES = 512, 25, (40, 36, 36, 36, 36, 36, 36)
_SHARED = ("QPSK", "QPSK", "16QAM", "64QAM", "256QAM")


def lte_waveform(rng: np.random.Generator, n: int) -> ComplexArray:
    """A 5 MHz downlink: 25 resource blocks, reference signals in every slot, traffic that comes and goes."""
    slots = n // (7 * LTE_SIZE) + 2
    grid = np.zeros((slots * 7, LTE_BLOCKS * 12), np.complex64)
    cell, load = int(rng.integers(504)), rng.uniform(0.1, 1.0)
    for subframe in range(0, slots, 2):
        rows = slice(subframe * 7, subframe * 7 + 14)
        _fill_lte_subframe(rng, grid[rows], cell, load)
    first = int(rng.integers(10))
    for slot in range(slots):
        if (slot + first) % 10 == 0:
            _lte_synchronisation(grid[slot * 7 : slot * 7 + 7], cell)
    return grid_to_time(grid, LTE_SIZE, LTE_PREFIXES, int(rng.integers(LTE_SIZE)), n)


def _fill_lte_subframe(rng: np.random.Generator, grid: ComplexArray, cell: int, load: float) -> None:
    """Control in the first one to three symbols, shared channel on random blocks, reference signals on top."""
    symbols, width = grid.shape
    control = int(rng.integers(1, 4))
    used = rng.random((1, width // 4)) < rng.uniform(0.2, 0.9)  # groups of four carriers
    grid[:control] = random_symbols(rng, "QPSK", control, width) * np.repeat(used, 4, axis=1)
    if rng.random() < 0.9:
        blocks = rng.random(LTE_BLOCKS) < load
        # users hold neighbouring blocks, each with its own modulation and power
        for user in np.array_split(np.arange(LTE_BLOCKS), int(rng.integers(1, 5))):
            mask = np.repeat(blocks[user], 12)
            columns = slice(user[0] * 12, (user[-1] + 1) * 12)
            name = _SHARED[rng.integers(len(_SHARED))]
            data = random_symbols(rng, name, symbols - control, mask.size)
            grid[control:, columns] = data * (mask * np.float32(10 ** (rng.uniform(-3, 1) / 20)))
    for symbol in (0, 4, 7, 11):
        if symbol < symbols:
            shift = (cell + (3 if symbol % 7 else 0)) % 6
            reference = random_symbols(rng, "QPSK", grid[symbol, shift::6].size)
            grid[symbol, shift::6] = reference * np.float32(1.2)


def _lte_synchronisation(slot: ComplexArray, cell: int) -> None:
    centre = slot.shape[1] // 2
    slot[-2:, centre - 36 : centre + 36] = 0
    slot[-1, centre - 31 : centre + 31] = zadoff_chu((25, 29, 34)[cell % 3])
    slot[-2, centre - 31 : centre + 31] = np.roll(m_sequence(), cell // 3)[:62]


def nr_waveform(rng: np.random.Generator, n: int) -> ComplexArray:
    """A 5G downlink: 15 or 30 kHz spacing, synchronisation blocks, slots with demodulation pilots, silence between."""
    wide = rng.random() < 0.6
    size, blocks = (256, 11) if wide else (512, 25)  # a 5 MHz channel either way
    prefixes = (22,) + (18,) * 13 if wide else (40,) + (36,) * 6 + (40,) + (36,) * 6
    slots = n // (14 * size) + 2
    grid = np.zeros((slots * 14, blocks * 12), np.complex64)
    load, period = rng.uniform(0.25, 1.0), int(rng.integers(4, 12))
    for slot in range(slots):
        part = grid[slot * 14 : slot * 14 + 14]
        if rng.random() < load:
            _fill_nr_slot(rng, part)
        if slot % period == 0:
            _nr_synchronisation(rng, part)
    return grid_to_time(grid, size, prefixes, int(rng.integers(size)), n)


def _fill_nr_slot(rng: np.random.Generator, grid: ComplexArray) -> None:
    """Control on the first symbol, shared channel of random length and width, front-loaded comb pilots."""
    blocks = grid.shape[1] // 12
    start = int(rng.integers(0, blocks - 3))
    stop = int(rng.integers(start + 3, blocks + 1))
    columns, last = slice(start * 12, stop * 12), int(rng.integers(8, 15))
    width = (stop - start) * 12
    grid[0, : width // 2] = random_symbols(rng, "QPSK", width // 2)
    grid[1:last, columns] = random_symbols(rng, _SHARED[rng.integers(len(_SHARED))], last - 1, width)
    for symbol in (2, 11) if last > 11 else (2,):
        grid[symbol, columns] = 0
        grid[symbol, start * 12 : stop * 12 : 2] = random_symbols(rng, "QPSK", width // 2) * np.float32(np.sqrt(2))


def _nr_synchronisation(rng: np.random.Generator, grid: ComplexArray) -> None:
    """PSS, broadcast channel, SSS on four symbols of up to 240 carriers (here: what the width allows)."""
    centre, half = grid.shape[1] // 2, min(120, grid.shape[1] // 2)
    grid[2:6, centre - half : centre + half] = 0
    grid[2, centre - 63 : centre + 64] = m_sequence()
    for symbol in (3, 5):
        grid[symbol, centre - half : centre + half] = random_symbols(rng, "QPSK", 2 * half)
    grid[4, centre - 63 : centre + 64] = np.roll(m_sequence(), 43)


def grid_to_time(grid: ComplexArray, size: int, prefixes: tuple[int, ...], offset: int, n: int) -> ComplexArray:
    """Resource grid ``[symbols, carriers]`` -> ``n`` samples with cyclic prefixes, from a random offset."""
    symbols, carriers = grid.shape
    spectrum = np.zeros((symbols, size), np.complex64)
    half = carriers // 2
    spectrum[:, 1 : carriers - half + 1] = grid[:, half:]  # the carrier at DC stays empty
    spectrum[:, size - half :] = grid[:, :half]
    time = np.fft.ifft(spectrum, axis=1).astype(np.complex64) * np.float32(size / np.sqrt(carriers))
    per_slot = len(prefixes)
    time = time.reshape(symbols // per_slot, per_slot * size)  # [slots, symbols of a slot one after the other]
    samples = time[:, _prefix_order(size, prefixes)].ravel()
    power = np.mean(np.abs(samples) ** 2)
    return samples[offset : offset + n] / np.float32(np.sqrt(max(power, 1e-6)))


@lru_cache(maxsize=4)
def _prefix_order(size: int, prefixes: tuple[int, ...]) -> np.ndarray:
    """Indices that put each symbol's last samples in front of it."""
    parts = [k * size + np.arange(-prefix, size) % size for k, prefix in enumerate(prefixes)]
    return np.concatenate(parts)


@lru_cache(maxsize=4)
def zadoff_chu(root: int) -> ComplexArray:
    """62 samples of constant modulus: the length-63 sequence without its middle."""
    k = np.arange(63)
    return np.delete(np.exp(-1j * np.pi * root * k * (k + 1) / 63), 31).astype(np.complex64)


@lru_cache(maxsize=1)
def m_sequence() -> ComplexArray:
    """The 127-chip maximum-length sequence of x^7 + x^4 + 1 as +-1."""
    state, chips = [0, 1, 1, 0, 1, 1, 1], []
    for _ in range(127):
        chips.append(1 - 2 * state[0])
        state = [*state[1:], (state[4] + state[0]) % 2]
    return np.array(chips, np.complex64)
