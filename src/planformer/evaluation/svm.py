"""Linear SVMs with the squared hinge loss, the objective of scikit-learn's ``LinearSVC`` (Appendix "Linear Probing").

For labels y in {-1, +1} and inputs with a constant column appended (so the intercept is regularised, as liblinear
does with ``intercept_scaling=1``) the objective is

    0.5 |w|^2 + C * sum_i v_i max(0, 1 - y_i w.x_i)^2

It is smooth, piecewise quadratic and strongly convex: a Newton step with an exact line search ends after finitely many
steps at *the* minimum, and the minimum at one C is an excellent start for the next. So one pass over the whole grid
costs little more than one fit, where a coordinate descent spends most of its time at large C.
Class weights follow liblinear: with two classes both sides are weighted, one-against-rest weights the one class only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_NEWTON_STEPS = 200
GRAM_LIMIT = 3000  # rows up to which the n x n Gram matrix is kept (72 MB)


@dataclass(frozen=True)
class LinearPath:
    """Linear classifiers along a grid of C: ``weights`` [num_c, num_problems, d + 1], the intercept last."""

    grid: tuple[float, ...]
    classes: Ints
    weights: Floats
    steps: int  # Newton steps over all problems and values of C

    def decision(self, features: npt.NDArray[np.floating], index: int) -> Floats:
        """Scores [n, classes] at ``grid[index]``; two classes get columns (-s, s)."""
        weights = self.weights[index]
        scores = np.asarray(features, dtype=np.float64) @ weights[:, :-1].T + weights[:, -1]
        return np.concatenate([-scores, scores], axis=1) if len(self.classes) == 2 else scores


def balanced_weights(labels: Ints, classes: Ints) -> Floats:
    """scikit-learn's "balanced": n / (classes * count) for each class."""
    counts = np.array([np.count_nonzero(labels == c) for c in classes], dtype=np.float64)
    return len(labels) / (len(classes) * counts)


def fit_linear_path(
    features: npt.NDArray[np.floating],
    labels: Ints,
    grid: Sequence[float],
    *,
    balanced: bool = True,
    threads: int | None = None,
) -> LinearPath:
    """Fit one-against-rest linear SVMs for every C in ``grid`` (ascending).

    >>> x = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    >>> path = fit_linear_path(x, np.array([0, 0, 1, 1]), [1.0])
    >>> path.decision(x, 0).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    grid = tuple(float(c) for c in grid)
    if list(grid) != sorted(grid):
        raise ValueError("the grid of C must be ascending: each solution starts the next")
    classes = np.unique(labels)
    weights = balanced_weights(labels, classes) if balanced else np.ones(len(classes))
    design = _Design(features)
    problems = _binary_problems(labels, classes, weights)
    workers = min(threads or default_threads(), len(problems))

    def solve(problem: tuple[Floats, Floats]) -> tuple[Floats, int]:
        return _Problem(design, *problem).path(grid)

    with threadpool_limits(limits=1 if workers > 1 else None, user_api="blas"):
        if workers > 1:
            with ThreadPoolExecutor(workers) as pool:
                solved = list(pool.map(solve, problems))
        else:
            solved = [solve(problem) for problem in problems]
    stacked = np.stack([design.unrotate(w) for w, _ in solved], axis=1)  # (num_c, problems, d + 1)
    return LinearPath(grid, classes, stacked, sum(steps for _, steps in solved))


def default_threads() -> int:
    """Threads for a probe: OMP_NUM_THREADS if the user set it, else one for each core."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdigit() and int(setting) > 0 else (os.cpu_count() or 1)


def _binary_problems(labels: Ints, classes: Ints, weights: Floats) -> list[tuple[Floats, Floats]]:
    if len(classes) == 2:
        sign = np.where(labels == classes[1], 1.0, -1.0)
        return [(sign, np.where(sign > 0, weights[1], weights[0]))]
    signs = [np.where(labels == c, 1.0, -1.0) for c in classes]
    return [(sign, np.where(sign > 0, w, 1.0)) for sign, w in zip(signs, weights, strict=True)]


class _Design:
    """The inputs with a constant column; in an orthonormal basis of their rows when there are fewer rows than columns.

    The minimiser lies in the span of the rows, and a rotation keeps |w|, so the smaller problem is the same problem.
    """

    def __init__(self, features: npt.NDArray[np.floating]) -> None:
        x = np.asarray(features, dtype=np.float64)
        x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        self.basis: Floats | None = None
        if x.shape[0] < x.shape[1]:
            basis, triangle = np.linalg.qr(x.T)  # x = triangle.T @ basis.T
            self.basis, x = basis, np.ascontiguousarray(triangle.T)
        self.x: Floats = np.ascontiguousarray(x)
        self.gram: Floats | None = x @ x.T if len(x) <= GRAM_LIMIT else None

    def unrotate(self, weights: Floats) -> Floats:
        return weights if self.basis is None else weights @ self.basis.T


class _Problem:
    """One binary problem: Newton's method over the grid, keeping the active rows' second moments between steps."""

    def __init__(self, design: _Design, sign: Floats, weight: Floats) -> None:
        self.design, self.sign, self.weight = design, sign, weight
        self.moments: Floats | None = None  # sum over active rows of v_i x_i x_i^T
        self.moments_of: Bools = np.zeros(len(sign), dtype=bool)

    def path(self, grid: Sequence[float]) -> tuple[Floats, int]:
        w = np.zeros(self.design.x.shape[1])
        out = np.empty((len(grid), len(w)))
        steps = 0
        for k, c in enumerate(grid):
            w, used = self._minimise(w, c)
            out[k] = w
            steps += used
        return out, steps

    def _minimise(self, w: Floats, c: float) -> tuple[Floats, int]:
        x, y, cost = self.design.x, self.sign, c * self.weight
        f = x @ w
        for step in range(1, MAX_NEWTON_STEPS + 1):
            active = y * f < 1.0
            target = self._quadratic_minimum(active, c)
            move = target - w
            f_move = x @ move
            if np.array_equal(y * (f + f_move) < 1.0, active):
                return target, step  # the quadratic piece holds its own minimum
            t = _line_search(w, move, f, f_move, y, cost)
            w, f = w + t * move, f + t * f_move
            if np.linalg.norm(t * move) <= 1e-11 * np.linalg.norm(w):
                return w, step
        return w, MAX_NEWTON_STEPS

    def _quadratic_minimum(self, active: Bools, c: float) -> Floats:
        """Minimum of the quadratic whose loss counts the active rows only."""
        x, rows = self.design.x, np.flatnonzero(active)
        if len(rows) == 0:
            return np.zeros(x.shape[1])
        if len(rows) < x.shape[1]:
            gram = self.design.gram
            kernel = gram[np.ix_(rows, rows)] if gram is not None else x[rows] @ x[rows].T
            kernel.flat[:: len(rows) + 1] += 0.5 / (c * self.weight[rows])
            dual = scipy.linalg.solve(kernel, self.sign[rows], assume_a="pos", check_finite=False, overwrite_a=True)
            return np.asarray(dual @ x[rows])
        hessian = 2.0 * c * self._active_moments(active)
        hessian.flat[:: len(hessian) + 1] += 1.0
        right = 2.0 * c * (x[rows].T @ (self.weight[rows] * self.sign[rows]))
        return np.asarray(scipy.linalg.solve(hessian, right, assume_a="pos", check_finite=False, overwrite_a=True))

    def _active_moments(self, active: Bools) -> Floats:
        """Second moments of the active rows, updated by the rows that changed when they are fewer."""
        added, removed = active & ~self.moments_of, self.moments_of & ~active
        if self.moments is None or np.count_nonzero(added) + np.count_nonzero(removed) > np.count_nonzero(active):
            self.moments = self._moments(active)
        else:
            if added.any():
                self.moments = self.moments + self._moments(added)
            if removed.any():
                self.moments = self.moments - self._moments(removed)
        self.moments_of = active
        return self.moments

    def _moments(self, rows: Bools) -> Floats:
        scaled = self.design.x[rows] * np.sqrt(self.weight[rows])[:, None]
        return np.asarray(scaled.T @ scaled)


def _line_search(w: Floats, move: Floats, f: Floats, f_move: Floats, y: Floats, cost: Floats) -> float:
    """The exact minimum along ``move``: the slope is increasing and piecewise linear: a bracketed Newton finds it."""
    slope_0, curvature_0 = float(w @ move), float(move @ move)
    margin, rate = 1.0 - y * f, y * f_move
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(60):
        slack = margin - t * rate
        on = slack > 0
        weighted = cost[on] * rate[on]
        slope = slope_0 + t * curvature_0 - 2.0 * float(weighted @ slack[on])
        curvature = curvature_0 + 2.0 * float(weighted @ rate[on])
        low, high = (t, high) if slope < 0 else (low, t)
        following = t - slope / curvature
        if not low <= following <= high:
            following = 0.5 * (low + high) if np.isfinite(high) else 2.0 * t
        if abs(following - t) <= 1e-12 * max(t, 1e-12):
            return following
        t = following
    return t
