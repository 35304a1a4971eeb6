"""Constellations of unit mean power."""

from __future__ import annotations

from functools import cache

import numpy as np

from planformer.data.resampling import ComplexArray


@cache
def constellation(name: str) -> ComplexArray:
    """The points of BPSK, QPSK, 8PSK, PAM4, 16QAM, 64QAM or 256QAM.

    >>> abs(constellation("16QAM")).max().round(3)
    np.float32(1.342)
    """
    if name.endswith("PSK"):
        order = {"BPSK": 2, "QPSK": 4, "8PSK": 8}[name]
        points = np.exp(2j * np.pi * (np.arange(order) + (0.5 if order == 4 else 0)) / order)
    elif name == "PAM4":
        points = np.arange(-3, 4, 2) + 0j
    else:
        side = round(int(name.removesuffix("QAM")) ** 0.5)
        levels = np.arange(1 - side, side, 2)
        points = (levels[:, None] + 1j * levels).ravel()
    points = points / np.sqrt(np.mean(np.abs(points) ** 2))
    points.setflags(write=False)
    return points.astype(np.complex64)


def random_symbols(rng: np.random.Generator, name: str, *shape: int) -> ComplexArray:
    """Independent, equally likely points of a constellation."""
    points = constellation(name)
    return points[rng.integers(points.size, size=shape)]
