"""The paper's SNR formula at known milestones, and the learning rate's shape."""

import itertools

import pytest

from planformer.training.curriculum import (
    CurriculumConfig,
    ScheduleConfig,
    learning_rate_factor,
    snr_lower,
    snr_range,
)


@pytest.mark.parametrize(("milestone", "expected"), [(0, 10), (2.5, 0), (5, -10), (10, 10), (395, -10), (400, 10)])
def test_formula_at_known_milestones(milestone, expected):
    # 400 milestones, 80 cycles: T_period = 5
    assert snr_lower(milestone, 400, CurriculumConfig()) == pytest.approx(expected, abs=1e-9)


def test_bounds_hold_and_change_by_milestone_only():
    schedule, config = ScheduleConfig(), CurriculumConfig()
    bounds = [snr_range(step, schedule, config) for step in range(0, 288 * 20, 144)]
    assert all(-10 <= low <= 10 and high == 100 for low, high in bounds)
    assert bounds[0] == bounds[1] != bounds[2]


def test_learning_rate_constant_by_default():
    assert {learning_rate_factor(step, ScheduleConfig()) for step in (0, 1, 100_000)} == {1.0}


@pytest.mark.parametrize("decay", ["cosine", "linear"])
def test_warm_up_plateau_and_decay(decay):
    schedule = ScheduleConfig(
        milestones=10, steps_per_milestone=10, warmup_steps=5, decay=decay, decay_start=0.5, final_ratio=0.1
    )
    factors = [learning_rate_factor(step, schedule) for step in range(101)]
    assert factors[0] == pytest.approx(0.2) and factors[4] == 1.0
    assert set(factors[5:51]) == {1.0}
    assert all(a > b for a, b in itertools.pairwise(factors[51:100]))
    assert factors[75] == pytest.approx(0.55) and factors[100] == pytest.approx(0.1)
