"""Intervals of differences: over items, over groups, and of the mean over tasks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from planformer.evaluation.statistics import Resampled, mean_difference, resample


def test_a_difference_over_groups_is_wider_when_items_are_copies() -> None:
    rng = np.random.default_rng(0)
    per_group = (rng.random(20) < 0.6).astype(float)
    correct, reference = np.repeat(per_group, 10), np.full(200, 0.5)
    alone = resample(correct, [reference]).difference
    grouped = resample(correct, [reference], groups=np.repeat(np.arange(20), 10)).difference
    assert grouped.high - grouped.low > 2 * (alone.high - alone.low)


def test_a_difference_ignores_rows_that_were_not_tested() -> None:
    correct = np.array([1.0, 1.0, np.nan, np.nan])
    found = resample(correct, [np.array([0.0, 0.0, np.nan, np.nan])]).difference
    assert (found.mean, found.units) == (1.0, 2)


def drawn(
    rng: np.random.Generator, count: int, better: float
) -> tuple[npt.NDArray[np.float64], list[npt.NDArray[np.float64]]]:
    """Right or wrong on ``count`` items, 0.6 + ``better`` and 0.6 of the time."""
    return (rng.random(count) < 0.6 + better).astype(float), [(rng.random(count) < 0.6).astype(float)]


def test_the_interval_of_a_mean_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        tasks = [resample(*drawn(rng, 60, better), draws=300, seed=k) for k, better in enumerate((0.0, 0.1, 0.2))]
        found = mean_difference(tasks)
        covered += found.low <= 0.1 <= found.high
    assert 0.89 <= covered / 200 <= 0.99


def test_the_mean_of_many_tasks_is_surer_than_one_and_large_tasks_count_no_more() -> None:
    rng = np.random.default_rng(1)
    tasks = [resample(*drawn(rng, 80, 0.1), seed=k) for k in range(9)]
    widths = [task.difference.high - task.difference.low for task in tasks]
    found = mean_difference(tasks)
    assert found.high - found.low == pytest.approx(np.mean(widths) / 3, rel=0.15)
    small, large = Resampled(1.0, np.ones(5), 10), Resampled(0.0, np.zeros(5), 10_000)
    assert mean_difference([small, large]).mean == 0.5
