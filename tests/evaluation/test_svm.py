"""The Newton solver must land on liblinear's own minimum, for every C, with and without class weights."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from planformer.evaluation.svm import fit_linear_path


def problem(n: int, d: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    y[: n // 3] = 0  # unbalanced
    centres = rng.standard_normal((classes, d)) * 0.5
    return rng.standard_normal((n, d)) + centres[y], y


def objective(w: np.ndarray, x: np.ndarray, sign: np.ndarray, cost: np.ndarray) -> float:
    slack = np.maximum(0.0, 1.0 - sign * (x @ w[:-1] + w[-1]))
    return float(0.5 * w @ w + cost @ slack**2)


@pytest.mark.parametrize("shape", [(150, 8, 3), (120, 20, 2), (60, 100, 4), (40, 300, 2)])
@pytest.mark.parametrize("balanced", [True, False])
def test_equals_scikit_learn(shape: tuple[int, int, int], balanced: bool) -> None:
    x, y = problem(*shape)
    grid = [1e-4, 1e-2, 1.0, 10.0]
    path = fit_linear_path(x, y, grid, balanced=balanced)
    for k, c in enumerate(grid):
        model = LinearSVC(C=c, class_weight="balanced" if balanced else None, tol=1e-9, max_iter=10**6, dual=True)
        model.fit(x, y)
        np.testing.assert_allclose(path.weights[k][:, :-1], model.coef_, atol=2e-6)
        np.testing.assert_allclose(path.weights[k][:, -1], model.intercept_, atol=2e-6)
        scores = np.asarray(model.decision_function(x))
        ours = path.decision(x, k)
        np.testing.assert_allclose(ours[:, 1] if ours.shape[1] == 2 else ours, scores, atol=1e-5)


def test_gradient_vanishes_at_every_c_including_those_liblinear_does_not_reach() -> None:
    x, y = problem(400, 12, 2)
    grid = [10.0**k for k in range(-4, 6)]
    path = fit_linear_path(x, y, grid, balanced=False)
    sign, design = np.where(y == 1, 1.0, -1.0), np.c_[x, np.ones(len(x))]
    for c, (w,) in zip(grid, path.weights, strict=True):
        slack = np.maximum(0.0, 1.0 - sign * (design @ w))
        gradient = w - 2.0 * c * design.T @ (sign * slack)
        assert np.linalg.norm(gradient) < 1e-7 * (1.0 + c)
        nudged = w + 1e-4 * np.random.default_rng(1).standard_normal(len(w))
        cost = np.full(len(x), c)
        assert objective(w, x, sign, cost) < objective(nudged, x, sign, cost)


def test_many_rows_without_gram_matrix_gives_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = problem(300, 10, 3)
    with_gram = fit_linear_path(x, y, [0.1, 1.0, 1e3])
    monkeypatch.setattr("planformer.evaluation.svm.GRAM_LIMIT", 0)
    np.testing.assert_allclose(fit_linear_path(x, y, [0.1, 1.0, 1e3]).weights, with_gram.weights, atol=1e-9)


def test_threads_do_not_change_the_result() -> None:
    x, y = problem(200, 6, 4)
    one = fit_linear_path(x, y, [1.0, 10.0], threads=1)
    two = fit_linear_path(x, y, [1.0, 10.0], threads=2)
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-12)


def test_descending_grid_is_refused() -> None:
    x, y = problem(50, 3, 2)
    with pytest.raises(ValueError, match="ascending"):
        fit_linear_path(x, y, [1.0, 0.1])
