"""RBF-kernel scores over a grid of C (Appendix "Non-Linear Probing"): one kernel matrix serves the whole grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planformer.evaluation.svm import Floats, Ints

MAX_ITERATIONS = 10_000_000


class RbfScorer:
    """Decision values while C is searched; Platt-scaled probabilities for the final fit (a grid of one value)."""

    def __init__(self, seed: int = 0, probabilities: bool = True) -> None:
        self.seed, self.probabilities = seed, probabilities

    def __call__(self, train: Floats, labels: Ints, rows: Floats, grid: Sequence[float]) -> list[Floats]:
        from sklearn.svm import SVC

        gamma = 1.0 / (train.shape[1] * max(float(train.var()), 1e-12))
        kernel, cross = rbf_kernel(train, train, gamma), rbf_kernel(rows, train, gamma)
        classes = np.unique(labels)
        scores = []
        for c in grid:
            model = SVC(
                C=c,
                kernel="precomputed",
                class_weight="balanced",
                decision_function_shape="ovr",
                max_iter=MAX_ITERATIONS,
                cache_size=50,
            ).fit(kernel, labels)
            decision = np.asarray(model.decision_function(cross), dtype=np.float64)
            scores.append(np.stack([-decision, decision], axis=1) if len(classes) == 2 else decision)
        if len(grid) == 1 and self.probabilities and len(classes) > 2:
            return [self._rank_by_probability(kernel, labels, cross, grid[0], scores[0])]
        return scores

    def _rank_by_probability(self, kernel: Floats, labels: Ints, cross: Floats, c: float, decision: Floats) -> Floats:
        """Top-1 stays the SVM's own choice; the ranks below it come from Platt-scaled probabilities."""
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.svm import SVC

        if np.bincount(labels)[np.unique(labels)].min() < 5:
            return decision
        model = SVC(C=c, kernel="precomputed", class_weight="balanced", max_iter=MAX_ITERATIONS)
        calibrated = CalibratedClassifierCV(model, method="sigmoid", ensemble=False, cv=5).fit(kernel, labels)
        probability = np.asarray(calibrated.predict_proba(cross), dtype=np.float64)
        probability[np.arange(len(probability)), decision.argmax(axis=1)] += 1.0
        return probability


def rbf_kernel(a: Floats, b: Floats, gamma: float) -> Floats:
    """exp(-gamma |a_i - b_j|^2), [len(a), len(b)]."""
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2.0 * (a @ b.T)
    return np.exp(-gamma * np.maximum(squared, 0.0))
