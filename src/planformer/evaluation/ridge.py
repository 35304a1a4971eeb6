"""A ridge probe that costs milliseconds: the compass for choices that are made hundreds of times.

One-hot targets, the penalty chosen by leave-one-out error in closed form on the training rows. It ranks features as the
SVM probe does, but its figures are not comparable with the report's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planformer.evaluation.probes import check_features
from planformer.evaluation.splits import encode_labels, folds, groups_usable
from planformer.evaluation.svm import Floats, Ints

PENALTIES: tuple[float, ...] = tuple(10.0**k for k in np.arange(-2.0, 4.6, 0.5))


def ridge_probe(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    seed: int = 0,
    penalties: tuple[float, ...] = PENALTIES,
) -> float:
    """Mean accuracy over five stratified (or grouped) folds.

    >>> x = np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0) + np.arange(20)[:, None] * 0.001
    >>> ridge_probe(x, np.repeat([0, 1], 10))
    1.0
    """
    x, (y, names) = check_features(features), encode_labels(labels)
    usable = groups if groups_usable(y, groups) else None
    correct = np.zeros(len(y), dtype=bool)
    for train, test in folds(y, groups=usable, seed=seed):
        mean, scale = x[train].mean(axis=0), x[train].std(axis=0)
        scale = np.where(scale > 1e-12, scale, 1.0)
        predicted = ridge_predict((x[train] - mean) / scale, y[train], (x[test] - mean) / scale, len(names), penalties)
        correct[test] = predicted == y[test]
    return float(correct.mean())


def ridge_predict(
    train: Floats, labels: Ints, rows: Floats, classes: int, penalties: tuple[float, ...] = PENALTIES
) -> Ints:
    """Classes of ``rows``, by the penalty whose leave-one-out accuracy on the training rows is best."""
    targets = np.where(labels[:, None] == np.arange(classes), 1.0, -1.0)
    offset = targets.mean(axis=0)
    left, values, right = np.linalg.svd(train, full_matrices=False)
    projected = left.T @ (targets - offset)  # (rank, classes)
    best, weights = -np.inf, np.zeros((train.shape[1], classes))
    for penalty in penalties:
        shrink = values**2 / (values**2 + penalty)
        fitted = left @ (shrink[:, None] * projected)
        leverage = (left**2) @ shrink + 1.0 / len(train)
        leave_one_out = targets - (targets - offset - fitted) / np.maximum(1.0 - leverage, 1e-9)[:, None]
        # Squared error breaks ties between penalties whose accuracy is equal.
        score = np.mean(leave_one_out.argmax(1) == labels) - 1e-4 * np.mean((leave_one_out - targets) ** 2)
        if score > best:
            best = score
            weights = right.T @ ((values / (values**2 + penalty))[:, None] * projected)
    return np.asarray((rows @ weights + offset).argmax(axis=1), dtype=np.int64)
