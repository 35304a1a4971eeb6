"""The probe's own solver against scikit-learn's LinearSVC: same objective and grid, processor time side by side."""

from __future__ import annotations

import time
import warnings

import numpy as np

from planformer.evaluation.ridge import ridge_probe
from planformer.evaluation.svm import fit_linear_path

GRID = tuple(10.0**k for k in range(-4, 6))


def run() -> list[dict[str, object]]:
    """Rows: one grid on 1,200 rows for both; one fold of a 60,000-row set for ours; the quick ridge probe."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    x, y = problem(1200, 64, 5)
    began = time.process_time()
    path = fit_linear_path(x, y, GRID, threads=1)
    ours = time.process_time() - began
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = [LinearSVC(C=c, class_weight="balanced", dual=False, tol=1e-6, max_iter=1000).fit(x, y) for c in GRID]
    theirs = time.process_time() - began
    apart = max(float(np.abs(m.coef_ - w[:, :-1]).max()) for m, w in zip(models, path.weights, strict=True))
    rows: list[dict[str, object]] = [
        {"name": "grid of ten C, 1,200 x 64, 5 classes: this solver", "value": ours, "unit": "s of CPU"},
        {"name": "the same: LinearSVC one C at a time", "value": theirs, "unit": "s of CPU", "ratio": theirs / ours},
        {"name": "largest difference of a weight", "value": apart, "unit": "", "note": "LinearSVC at tol 1e-6"},
    ]
    x, y = problem(12_000, 256, 10)
    began = time.process_time()
    path = fit_linear_path(x, y, GRID, threads=1)
    rows.append(
        {
            "name": "grid of ten C, 12,000 x 256, 10 classes",
            "value": time.process_time() - began,
            "unit": "s of CPU",
            "note": f"{path.steps} Newton steps, one thread",
        }
    )
    began = time.process_time()
    ridge_probe(x[:1000], y[:1000])
    rows.append(
        {"name": "ridge probe, 1,000 x 256, five folds", "value": time.process_time() - began, "unit": "s of CPU"}
    )
    return rows


def problem(n: int, d: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes with correlated, standardised features."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    mixing = np.eye(d) + rng.standard_normal((d, d)) * 2.0 / np.sqrt(d)
    x = (rng.standard_normal((n, d)) + 0.25 * rng.standard_normal((classes, d))[y]) @ mixing
    return (x - x.mean(axis=0)) / x.std(axis=0), y
