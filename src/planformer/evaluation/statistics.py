"""How sure a difference between two methods is: a paired bootstrap over the tested items, or over their groups.

The same for the mean over several tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planformer.evaluation.splits import encode_labels

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Mean difference of accuracy (fractions) with its 95 % interval; ``units`` items or groups were resampled."""

    mean: float
    low: float
    high: float
    units: int

    @property
    def verdict(self) -> str:
        """ "better", "worse" or "no clear difference"."""
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "no clear difference"


@dataclass(frozen=True, eq=False)
class Resampled:
    """A difference of accuracy (fractions), and what it would have been on other draws of the same items."""

    mean: float
    draws: Floats
    units: int

    @property
    def difference(self) -> Difference:
        low, high = np.quantile(self.draws, [0.025, 0.975])
        return Difference(self.mean, float(low), float(high), self.units)


def resample(
    correct: Floats, reference: list[Floats], *, groups: npt.ArrayLike | None = None, draws: int = 2000, seed: int = 0
) -> Resampled:
    """``correct`` minus the mean of the ``reference`` rows (several seeds of a baseline), item by item.

    With ``groups`` whole groups are drawn, since items of one recording are not independent.

    >>> d = resample(np.ones(100), [np.zeros(100)]).difference
    >>> (d.mean, d.low, d.high)
    (1.0, 1.0, 1.0)
    """
    delta = correct - np.mean(reference, axis=0)
    tested = np.isfinite(delta)
    delta = delta[tested]
    codes = np.arange(len(delta)) if groups is None else encode_labels(np.asarray(groups)[tested])[0]
    sums, sizes = np.bincount(codes, weights=delta), np.bincount(codes).astype(np.float64)
    sums, sizes = sums[sizes > 0], sizes[sizes > 0]
    rng = np.random.default_rng(seed)
    means = np.empty(draws)
    for k in range(draws):
        drawn = rng.integers(0, len(sums), len(sums))
        means[k] = sums[drawn].sum() / sizes[drawn].sum()
    return Resampled(float(delta.mean()), means, len(sums))


def mean_difference(tasks: Sequence[Resampled]) -> Difference:
    """The mean over several tasks, each with equal weight; each was resampled with a seed of its own.

    The interval says how the mean would vary with other items of these tasks, not with other tasks.
    """
    mean = float(np.mean([task.mean for task in tasks]))
    draws = np.mean([task.draws for task in tasks], axis=0)
    return Resampled(mean, draws, sum(task.units for task in tasks)).difference
