"""Stratified folds, and folds that keep a group (recording, day, speaker, station, source image) on one side.

Random chunks of one recording leak from training to test, so wherever groups are known the report shows both splits.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError

Ints = npt.NDArray[np.int64]
Fold = tuple[Ints, Ints]

FOLDS = 5


def encode_labels(labels: npt.ArrayLike) -> tuple[Ints, list[str]]:
    """Labels of any type as integers, and their names in order.

    >>> encode_labels(["b", "a", "b"])
    (array([1, 0, 1]), ['a', 'b'])
    """
    names, codes = np.unique(np.asarray(labels), return_inverse=True)
    return codes.astype(np.int64).reshape(-1), [str(name) for name in names]


def check_classes(labels: Ints, names: list[str], *, minimum: int = FOLDS) -> None:
    """Refuse one class only, and classes too small for five folds, by name."""
    if len(names) < 2:
        found = f"only {names[0]!r}" if names else "none"
        raise InputError(f"a probe needs at least two classes, found {found}: add a second class")
    counts = np.bincount(labels, minlength=len(names))
    small = [f"{name!r} ({count})" for name, count in zip(names, counts, strict=True) if count < minimum]
    if small:
        raise InputError(
            f"{minimum}-fold cross-validation needs {minimum} samples of each class, "
            f"too few in {', '.join(small[:8])}: add samples or leave the class out"
        )


def folds(labels: Ints, *, groups: npt.ArrayLike | None = None, seed: int = 0, count: int = FOLDS) -> list[Fold]:
    """Stratified folds as (training rows, test rows); with ``groups`` no group is on both sides.

    >>> train, test = folds(np.repeat([0, 1], 10), groups=np.tile(np.arange(5), 4))[0]
    >>> len(set(np.tile(np.arange(5), 4)[test]))
    1
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    placeholder = np.zeros((len(labels), 1))
    with warnings.catch_warnings():
        # A class that is smaller than the number of folds is reported by check_classes, with its name.
        warnings.simplefilter("ignore", UserWarning)
        if groups is None:
            # Inside a fold a class may have fewer members than folds are asked for.
            count = max(2, min(count, int(np.unique(labels, return_counts=True)[1].min())))
            splitter = StratifiedKFold(count, shuffle=True, random_state=seed)
            return [(a.astype(np.int64), b.astype(np.int64)) for a, b in splitter.split(placeholder, labels)]
        group_codes, group_names = encode_labels(groups)
        if len(group_names) < 2:
            raise InputError(f"grouped folds need at least two groups, found only {group_names[0]!r}")
        count = min(count, len(group_names), _scarcest(labels, group_codes))
        grouped = StratifiedGroupKFold(count, shuffle=True, random_state=seed)
        return [(a.astype(np.int64), b.astype(np.int64)) for a, b in grouped.split(placeholder, labels, group_codes)]


def groups_usable(labels: Ints, groups: npt.ArrayLike | None) -> bool:
    """True when every class occurs in at least two groups, so that a class can be learnt without the tested group."""
    if groups is None:
        return False
    codes, names = encode_labels(groups)
    return len(names) >= 2 and _scarcest(labels, codes, default=0) >= 2


def _scarcest(labels: Ints, groups: Ints, default: int = 2) -> int:
    """The number of groups of the class that has fewest, but at least ``default``."""
    return max(default, min(len(np.unique(groups[labels == c])) for c in np.unique(labels)))
