"""What is taken from a signal before the encoder and given back after the decoder: mean and power.

Paper, section 4 "Preprocessing": unit power. ``normalise="segment"`` measures each segment, ``normalise="signal"`` the
whole signal once, so that loud and quiet parts keep their relation inside the networks too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.models.overlap import ComplexArray
from planformer.signals.preprocess import PreprocessConfig, measure


@dataclass(frozen=True)
class Scale:
    """Mean and root mean square, each ``[..., 1]`` against signals ``[..., n]``.

    >>> x = np.array([[3.0, 5.0]], np.complex64)
    >>> scale = Scale.of(x, remove_mean=True)
    >>> scale.to_unit(x).real.tolist(), scale.back(scale.to_unit(x)).real.tolist()
    ([[-1.0, 1.0]], [[3.0, 5.0]])
    """

    mean: ComplexArray
    rms: npt.NDArray[np.float64]

    @classmethod
    def of(cls, x: ComplexArray, *, remove_mean: bool) -> Scale:
        """Of each row by itself; the mean is zero if it stays."""
        mean = x.mean(axis=-1, keepdims=True, dtype=np.complex128) if remove_mean else np.complex128(0)
        power = np.mean(np.abs(x - mean) ** 2, axis=-1, keepdims=True, dtype=np.float64)
        rms = np.sqrt(power)
        rms[rms <= 1e-7 * np.abs(mean)] = 0  # a constant: what is left of it is rounding
        return cls(np.asarray(mean, np.complex64), rms)

    @classmethod
    def of_signal(cls, blocks: Iterable[ComplexArray], config: PreprocessConfig, *, remove_mean: bool) -> Scale:
        """Of a whole signal ``[C, n]`` that comes in blocks: a pass of its own, so the blocks must come twice."""
        if isinstance(blocks, Iterator):
            raise InputError(
                "normalise='signal' needs the whole signal before the first block is restored: "
                "pass a list of blocks, or a model with normalise='segment'"
            )
        level = measure(blocks, remove_mean, config)  # [C, 1, 1]
        return cls(level.mean[:, 0], level.rms[:, 0].astype(np.float64))

    def to_unit(self, x: ComplexArray) -> ComplexArray:
        """Without the mean, and of unit power; silence stays silence."""
        inverse = np.divide(1, self.rms, out=np.zeros_like(self.rms), where=self.rms > 0)
        return ((x - self.mean) * inverse).astype(np.complex64)

    def back(self, x: ComplexArray) -> ComplexArray:
        """The way back, with sources ``[S, ...]`` in front or without."""
        return (x * self.rms + self.mean).astype(np.complex64)
