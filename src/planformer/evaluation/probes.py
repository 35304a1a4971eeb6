"""Linear and RBF support-vector probes on frozen features (Appendix "Evaluation Protocol", "Linear Probing").

Without a test set: five stratified folds; inside each training part C is chosen by a five-fold grid search.
With a fixed test set: five folds of the training data; C is the one with the best mean accuracy on the held-out folds,
and the five models, one per fold, are scored on the test set. Nothing is ever chosen on test data, and features are
standardised with the statistics of the rows a model is fitted on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.evaluation.splits import FOLDS, Fold, check_classes, encode_labels, folds
from planformer.evaluation.svm import Floats, Ints, fit_linear_path

GRID: tuple[float, ...] = tuple(10.0**k for k in range(-4, 6))
RBF_MAX_TRAIN = 4000
TOP3_MIN_CLASSES = 5  # the paper gives no top-3 for four classes or fewer

# (train features, train labels, evaluation features, whether ranks are needed, one C or None) -> scores per C
Scorer = Callable[[Floats, Ints, Floats, Sequence[float]], list[Floats]]


@dataclass(frozen=True)
class ProbeResult:
    """Accuracy over folds (fractions, not percent), the summed confusion matrix, and each tested row's score.

    ``correct`` [n] is the share of the models that tested row i and were right, NaN where a row was never tested.
    """

    top1_mean: float
    top1_std: float
    top3_mean: float | None
    top1_folds: tuple[float, ...]
    confusion: Ints  # [true, predicted], counts over all folds
    classes: tuple[str, ...]
    chosen: tuple[float, ...]  # the C of each fold
    correct: Floats = field(repr=False)
    predicted: Ints = field(repr=False)  # the prediction of the last model that tested the row, -1 where none did
    n: int = 0
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The JSON form, without the per-row arrays."""
        return {
            "top1_mean": self.top1_mean,
            "top1_std": self.top1_std,
            "top3_mean": self.top3_mean,
            "top1_folds": list(self.top1_folds),
            "n": self.n,
            "classes": len(self.classes),
            "class_names": list(self.classes),
            "chosen_c": list(self.chosen),
            "confusion": self.confusion.tolist(),
            "notes": list(self.notes),
        }


def linear_probe(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    test: npt.ArrayLike | None = None,
    seed: int = 0,
    grid: Sequence[float] = GRID,
    threads: int | None = None,
) -> ProbeResult:
    """The paper's linear probe: balanced ``LinearSVC``, C by grid search.

    ``groups`` keeps each group on one side of every split; ``test`` is a boolean mask of the fixed test rows.

    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(size=(30, 4)), rng.normal(size=(30, 4)) + 3.0])
    >>> linear_probe(x, np.repeat(["a", "b"], 30), grid=[1.0]).top1_mean > 0.95
    True
    """

    def score(train: Floats, train_labels: Ints, rows: Floats, values: Sequence[float]) -> list[Floats]:
        path = fit_linear_path(train, train_labels, values, threads=threads)
        return [path.decision(rows, k) for k in range(len(values))]

    return _probe(score, features, labels, groups=groups, test=test, seed=seed, grid=grid)


def rbf_probe(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    test: npt.ArrayLike | None = None,
    seed: int = 0,
    grid: Sequence[float] = GRID,
    max_train: int = RBF_MAX_TRAIN,
) -> ProbeResult:
    """The paper's RBF probe: ``SVC(gamma="scale", class_weight="balanced")``; top-3 from Platt-scaled probabilities.

    More than ``max_train`` training rows are thinned to a stratified subsample of that size, and the result says so.
    """
    from planformer.evaluation.rbf import RbfScorer

    scorer = RbfScorer(seed=seed)
    return _probe(scorer, features, labels, groups=groups, test=test, seed=seed, grid=grid, max_train=max_train)


def _probe(
    score: Scorer,
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None,
    test: npt.ArrayLike | None,
    seed: int,
    grid: Sequence[float],
    max_train: int | None = None,
) -> ProbeResult:
    x, (y, names) = check_features(features), encode_labels(labels)
    if len(x) != len(y):
        raise InputError(f"{len(x)} feature rows but {len(y)} labels: they must be the same samples")
    group_codes = None if groups is None else encode_labels(groups)[0]
    mask = None if test is None else np.asarray(test, dtype=bool)
    check_classes(y if mask is None else y[~mask], names)
    tally = _Tally(len(x), names)
    if mask is None:
        for train, held_out in folds(y, groups=group_codes, seed=seed):
            train = _thin(train, y, max_train, seed, tally)
            inner_groups = None if group_codes is None else group_codes[train]
            if inner_groups is not None and len(np.unique(inner_groups)) < 2:
                inner_groups = None  # two groups in all: C is chosen on random folds of the one that is left
            inner = folds(y[train], groups=inner_groups, seed=seed)
            best = grid[_best(_validate(score, x[train], y[train], inner, grid))] if len(grid) > 1 else grid[0]
            scores = _fit_score(score, x[train], y[train], x[held_out], [best])[0]
            tally.add(y, held_out, np.unique(y[train]), scores, best)
    else:
        _fixed_test(score, x, y, group_codes, mask, seed, grid, max_train, tally)
    return tally.result()


def _fixed_test(
    score: Scorer,
    x: Floats,
    y: Ints,
    groups: Ints | None,
    mask: npt.NDArray[np.bool_],
    seed: int,
    grid: Sequence[float],
    max_train: int | None,
    tally: _Tally,
) -> None:
    """Five folds of the training rows; every fold's model is scored on the same test rows."""
    pool, test_rows = np.flatnonzero(~mask), np.flatnonzero(mask)
    if len(test_rows) == 0:
        raise InputError("the fixed test set is empty: check the split column")
    pool = _thin(pool, y, None if max_train is None else max_train * FOLDS // (FOLDS - 1), seed, tally)
    splits = folds(y[pool], groups=None if groups is None else groups[pool], seed=seed)
    accuracy, scores = np.zeros((len(splits), len(grid))), []
    for k, (train, held_out) in enumerate(splits):
        rows = np.concatenate([pool[held_out], test_rows])
        both = _fit_score(score, x[pool[train]], y[pool[train]], x[rows], grid)
        classes = np.unique(y[pool[train]])
        accuracy[k] = [np.mean(classes[s[: len(held_out)].argmax(1)] == y[pool[held_out]]) for s in both]
        scores.append((classes, [s[len(held_out) :] for s in both]))
    best = _best(accuracy)
    for classes, per_c in scores:
        tally.add(y, test_rows, classes, per_c[best], grid[best])


def _validate(score: Scorer, x: Floats, y: Ints, splits: list[Fold], grid: Sequence[float]) -> Floats:
    accuracy = np.zeros((len(splits), len(grid)))
    for k, (train, held_out) in enumerate(splits):
        classes = np.unique(y[train])
        scores = _fit_score(score, x[train], y[train], x[held_out], grid)
        accuracy[k] = [np.mean(classes[s.argmax(1)] == y[held_out]) for s in scores]
    return accuracy


def _best(accuracy: Floats) -> int:
    """Index of the best mean accuracy; of equals the smallest C, as scikit-learn's grid search does."""
    return int(np.argmax(np.round(accuracy.mean(axis=0), 12)))


def _fit_score(score: Scorer, train: Floats, labels: Ints, rows: Floats, grid: Sequence[float]) -> list[Floats]:
    mean, scale = train.mean(axis=0), train.std(axis=0)
    # A constant column has rounding noise for a deviation; dividing by it would blow the noise up.
    scale = np.where(scale > 10 * np.finfo(np.float64).eps * (np.abs(mean) + 1e-300), scale, 1.0)
    return score((train - mean) / scale, labels, (rows - mean) / scale, grid)


def _thin(rows: Ints, y: Ints, limit: int | None, seed: int, tally: _Tally) -> Ints:
    """A stratified subsample of at most ``limit`` rows; noted in the result."""
    if limit is None or len(rows) <= limit:
        return rows
    from sklearn.model_selection import train_test_split

    kept, _ = train_test_split(rows, train_size=limit, stratify=y[rows], random_state=seed)
    tally.notes.add(f"trained on a stratified subsample of {limit} of {len(rows)} rows")
    return np.sort(kept)


def check_features(features: npt.ArrayLike) -> Floats:
    """Features as float64 [n, d]; NaN and infinity are refused with the first bad row."""
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 2 or 0 in x.shape:
        raise InputError(f"features must be [samples, numbers], got shape {x.shape}")
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        raise InputError(
            f"{len(bad)} of {len(x)} feature rows hold NaN or infinity, the first is row {bad[0]}: remove them"
        )
    return x


class _Tally:
    """Collects what each fold's model said about the rows it was tested on."""

    def __init__(self, n: int, names: list[str]) -> None:
        self.names, self.top1, self.top3, self.chosen = names, list[float](), list[float](), list[float]()
        self.confusion = np.zeros((len(names), len(names)), dtype=np.int64)
        self.right, self.tested = np.zeros(n), np.zeros(n)
        self.predicted = np.full(n, -1, dtype=np.int64)
        self.notes: set[str] = set()

    def add(self, y: Ints, rows: Ints, classes: Ints, scores: Floats, c: float) -> None:
        truth, guess = y[rows], classes[scores.argmax(axis=1)]
        self.top1.append(float(np.mean(guess == truth)))
        if len(self.names) >= TOP3_MIN_CLASSES:
            ranked = classes[np.argsort(-scores, axis=1, kind="stable")[:, :3]]
            self.top3.append(float(np.mean((ranked == truth[:, None]).any(axis=1))))
        np.add.at(self.confusion, (truth, guess), 1)
        self.right[rows] += guess == truth
        self.tested[rows] += 1
        self.predicted[rows] = guess
        self.chosen.append(float(c))

    def result(self) -> ProbeResult:
        correct = np.full(len(self.tested), np.nan)
        np.divide(self.right, self.tested, out=correct, where=self.tested > 0)
        return ProbeResult(
            top1_mean=float(np.mean(self.top1)),
            top1_std=float(np.std(self.top1)),
            top3_mean=float(np.mean(self.top3)) if self.top3 else None,
            top1_folds=tuple(self.top1),
            confusion=self.confusion,
            classes=tuple(self.names),
            chosen=tuple(self.chosen),
            correct=correct,
            predicted=self.predicted,
            n=len(self.tested),
            notes=tuple(sorted(self.notes)),
        )


def majority_probe(
    labels: npt.ArrayLike, *, groups: npt.ArrayLike | None = None, test: npt.ArrayLike | None = None, seed: int = 0
) -> ProbeResult:
    """What the most frequent class of the training rows alone gives, on the same splits.

    >>> round(majority_probe(["a"] * 30 + ["b"] * 10).top1_mean, 2)
    0.75
    """

    def score(train: Floats, train_labels: Ints, rows: Floats, values: Sequence[float]) -> list[Floats]:
        counts = np.unique(train_labels, return_counts=True)[1].astype(np.float64)
        return [np.tile(counts, (len(rows), 1))] * len(values)

    return _probe(
        score, np.zeros((len(np.asarray(labels)), 1)), labels, groups=groups, test=test, seed=seed, grid=[1.0]
    )
