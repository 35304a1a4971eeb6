"""The cosine SNR curriculum and the learning rate over steps (paper, Appendix D).

The lower bound of the SNR swings between ``snr_max`` (easy) and ``snr_min`` (hard); the upper bound stays at 100 dB, a
stand-in for the recording as it is.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class CurriculumConfig(BaseModel):
    """The paper's SNR schedule; ``cycles`` are half-periods of the cosine, as its formula has them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    snr_min: float = -10.0
    snr_max: float = 10.0
    snr_upper: float = 100.0
    cycles: float = Field(default=80, gt=0)


class ScheduleConfig(BaseModel):
    """Length of a run in milestones, and the learning rate along it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    milestones: int = Field(default=400, ge=1)
    steps_per_milestone: int = Field(default=288, ge=1)
    warmup_steps: int = Field(default=0, ge=0)
    decay: Literal["constant", "cosine", "linear"] = "constant"
    decay_start: float = Field(default=0.0, ge=0, lt=1, description="fraction of the run before the decay begins")
    final_ratio: float = Field(default=0.0, ge=0, le=1, description="last learning rate over the full one")

    @property
    def total_steps(self) -> int:
        return self.milestones * self.steps_per_milestone


def snr_lower(milestone: float, total: float, config: CurriculumConfig) -> float:
    """Lower bound of the SNR in dB at a milestone of a run of ``total`` milestones.

    >>> [round(snr_lower(t, 400, CurriculumConfig()), 1) for t in (0, 5, 10)]
    [10.0, -10.0, 10.0]
    """
    period = total / config.cycles
    swing = 0.5 * (1 + math.cos(math.pi * milestone / period))
    return config.snr_min + (config.snr_max - config.snr_min) * swing


def snr_range(step: int, schedule: ScheduleConfig, config: CurriculumConfig) -> tuple[float, float]:
    """Bounds of the SNR in dB for one step: they change from milestone to milestone."""
    milestone = step // schedule.steps_per_milestone
    return snr_lower(milestone, schedule.milestones, config), config.snr_upper


def learning_rate_factor(step: int, schedule: ScheduleConfig) -> float:
    """What the full learning rate is multiplied by at ``step`` (from 0).

    >>> cosine = ScheduleConfig(milestones=1, steps_per_milestone=100, warmup_steps=10, decay="cosine")
    >>> [round(learning_rate_factor(s, cosine), 2) for s in (0, 9, 55, 100)]
    [0.1, 1.0, 0.5, 0.0]
    """
    if step < schedule.warmup_steps:
        return (step + 1) / schedule.warmup_steps
    if schedule.decay == "constant":
        return 1.0
    start = max(schedule.warmup_steps, schedule.decay_start * schedule.total_steps)
    progress = min(1.0, max(0.0, (step - start) / max(1.0, schedule.total_steps - start)))
    curve = 0.5 * (1 + math.cos(math.pi * progress)) if schedule.decay == "cosine" else 1 - progress
    return schedule.final_ratio + (1 - schedule.final_ratio) * curve
