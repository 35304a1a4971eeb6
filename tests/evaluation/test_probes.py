"""Probes against scikit-learn's own pipeline, leaks that only grouped splits reveal, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from planformer.errors import InputError
from planformer.evaluation.probes import linear_probe, rbf_probe
from planformer.evaluation.ridge import ridge_probe

GRID = [1e-3, 1e-1, 10.0]


def blobs(per_class: int = 25, classes: int = 3, d: int = 6, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    y = np.repeat(np.arange(classes), per_class)
    return rng.standard_normal((len(y), d)) + spread * rng.standard_normal((classes, d))[y], y


def sklearn_nested(model: object, parameter: str, x: np.ndarray, y: np.ndarray) -> list[float]:
    scores = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        inner = StratifiedKFold(5, shuffle=True, random_state=0)
        search = GridSearchCV(make_pipeline(StandardScaler(), model), {parameter: GRID}, cv=inner)
        scores.append(float(search.fit(x[train], y[train]).score(x[test], y[test])))
    return scores


def test_linear_probe_is_scikit_learns_nested_grid_search() -> None:
    x, y = blobs()
    svc = LinearSVC(class_weight="balanced", tol=1e-8, max_iter=10**6)
    expected = sklearn_nested(svc, "linearsvc__C", x, y)
    result = linear_probe(x, y, grid=GRID)
    assert result.top1_folds == pytest.approx(expected)
    assert result.confusion.sum() == len(y)
    assert np.trace(result.confusion) / len(y) == pytest.approx(np.nanmean(result.correct))


def test_rbf_probe_is_scikit_learns_nested_grid_search() -> None:
    x, y = blobs(per_class=15)
    expected = sklearn_nested(SVC(class_weight="balanced"), "svc__C", x, y)
    assert rbf_probe(x, y, grid=GRID).top1_folds == pytest.approx(expected)


def test_fixed_test_set_is_never_seen_in_training_or_selection() -> None:
    """Wrong labels on the test rows must not change which C is chosen, nor any prediction."""
    x, y = blobs(per_class=40)
    test = np.zeros(len(y), dtype=bool)
    test[::4] = True
    honest = linear_probe(x, y, test=test, grid=GRID)
    shuffled = y.copy()
    shuffled[test] = np.random.default_rng(0).permutation(y[test])
    poisoned = linear_probe(x, shuffled, test=test, grid=GRID)
    assert honest.chosen == poisoned.chosen
    np.testing.assert_array_equal(honest.predicted, poisoned.predicted)
    assert honest.top1_mean > poisoned.top1_mean
    assert np.isnan(honest.correct[~test]).all() and not np.isnan(honest.correct[test]).any()
    assert honest.confusion.sum() == 5 * test.sum()


def test_leaky_recordings_score_high_on_random_splits_and_low_on_grouped_ones() -> None:
    """Each recording has its own offset that says nothing about the class: a random split can learn it by heart."""
    rng = np.random.default_rng(0)
    recording = np.repeat(np.arange(40), 10)
    y = rng.integers(0, 2, 40)[recording]
    y[:20], y[20:40] = 0, 1
    x = 3.0 * rng.standard_normal((40, 60))[recording] + 0.1 * rng.standard_normal((400, 60))
    assert linear_probe(x, y, grid=[1.0]).top1_mean > 0.95
    assert linear_probe(x, y, groups=recording, grid=[1.0]).top1_mean < 0.75


def test_two_groups_and_five_samples_a_class_are_enough() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 6)
    x = rng.standard_normal((12, 3)) + 4.0 * y[:, None]
    result = linear_probe(x, y, groups=np.tile(["a", "b"], 6), grid=GRID)
    assert len(result.top1_folds) == 2 and result.top1_mean > 0.8
    assert linear_probe(x[1:-1], y[1:-1], grid=GRID).top1_mean > 0.8


def test_top3_contains_top1_and_needs_five_classes() -> None:
    x, y = blobs(classes=6, spread=0.6)
    result = linear_probe(x, y, grid=[0.1])
    assert result.top3_mean is not None and result.top3_mean > result.top1_mean
    assert linear_probe(*blobs(classes=4), grid=[0.1]).top3_mean is None
    rbf = rbf_probe(x, y, grid=[1.0])
    assert rbf.top3_mean is not None and rbf.top3_mean >= rbf.top1_mean


def test_rbf_subsample_is_stated() -> None:
    x, y = blobs(per_class=60)
    result = rbf_probe(x, y, grid=[1.0], max_train=90)
    assert result.notes == ("trained on a stratified subsample of 90 of 144 rows",)


def test_scaling_of_features_does_not_matter_and_constant_columns_are_harmless() -> None:
    x, y = blobs()
    scaled = np.c_[x * np.array([1e-4, 1.0, 1e3, 1.0, 1.0, 5.0]) + 7.0, np.full(len(x), 0.1)]
    assert linear_probe(scaled, y, grid=[0.1]).top1_folds == linear_probe(x, y, grid=[0.1]).top1_folds


@pytest.mark.parametrize(
    ("labels", "message"),
    [(["a"] * 20, "at least two classes"), (["a"] * 17 + ["b"] * 3, r"'b' \(3\)")],
)
def test_unusable_labels_are_named(labels: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        linear_probe(np.random.default_rng(0).standard_normal((20, 3)), labels)


def test_nan_features_name_the_row() -> None:
    x, y = blobs()
    x[7, 2] = np.nan
    with pytest.raises(InputError, match="row 7"):
        linear_probe(x, y)


def test_ridge_probe_is_near_chance_on_noise_and_right_on_separated_classes() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 40)
    assert ridge_probe(rng.standard_normal((160, 30)), y) < 0.4
    assert ridge_probe(rng.standard_normal((160, 30)) + 2.0 * rng.standard_normal((4, 30))[y], y) > 0.97
