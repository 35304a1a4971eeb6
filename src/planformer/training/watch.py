"""Stops a run that has gone wrong, with the reason: a loss that is not finite, or representations that collapsed."""

from __future__ import annotations

import math

from planformer.errors import PlanFormerError
from planformer.training.online_probe import ProbeScore
from planformer.training.recipe import MonitorConfig


class TrainingStopped(PlanFormerError):
    """The run was ended by the watch; the last good checkpoint is kept."""


class Watch:
    """Looks at every loss and gradient norm, and at every probe."""

    def __init__(self, config: MonitorConfig) -> None:
        self.config = config
        self.skipped = 0

    def finite(self, step: int, loss: float, gradient_norm: float, terms: dict[str, float]) -> bool:
        """False when this update must be skipped; raises when that happened more often than allowed."""
        if math.isfinite(loss) and math.isfinite(gradient_norm):
            return True
        self.skipped += 1
        if self.skipped > self.config.max_skipped:
            bad = [name for name, value in terms.items() if not math.isfinite(value)]
            cause = ", ".join(bad[:4]) if bad else ("the loss" if not math.isfinite(loss) else "the gradient")
            raise TrainingStopped(
                f"step {step}: {cause} is not finite; stopped, the last checkpoint is from before this step. "
                "Try a smaller optimizer.learning_rate or optimizer.clip_norm=1"
            )
        return False

    def collapsed(self, step: int, score: ProbeScore) -> None:
        """Raises when the held-out embeddings no longer differ from each other."""
        config = self.config
        if score.effective_rank < config.min_effective_rank or score.deviation < config.min_deviation:
            raise TrainingStopped(
                f"step {step}: the representation collapsed (effective rank {score.effective_rank:.2f}, mean deviation "
                f"{score.deviation:.1e} on held-out sequences); stopped. Raise the covariance or repulsion weight"
            )
