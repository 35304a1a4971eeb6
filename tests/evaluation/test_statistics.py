"""Intervals of differences: over items, over groups, and of the mean over tasks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from planformer.evaluation.run import resampling_groups
from planformer.evaluation.statistics import Resampled, mean_difference, resample
from planformer.evaluation.tasks.base import TaskData


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


def data(groups: list[str], test: list[bool] | None) -> TaskData:
    labels = np.array(["a", "b"] * (len(groups) // 2))
    return TaskData(
        np.zeros((len(groups), 8), np.complex64), labels, "iq", 1.0, np.array(groups), "recording",
        None if test is None else np.array(test),
    )  # fmt: skip


def test_whole_groups_are_drawn_wherever_a_split_keeps_them_apart() -> None:
    groups = ["p", "p", "q", "q", "r", "r"]
    apart = data(groups, [False] * 4 + [True] * 2)
    mixed = data(groups, [False, True] * 3)
    for found in (resampling_groups(apart, "fixed test set"), resampling_groups(mixed, "grouped 5-fold by recording")):
        assert found is not None and found.tolist() == groups
    assert resampling_groups(mixed, "fixed test set") is None, "the same recordings are on both sides"
    assert resampling_groups(data(groups, None), "random 5-fold") is None
    assert resampling_groups(data(groups, [False] * 6), "random 5-fold") is None


def test_a_fixed_test_set_of_few_recordings_is_as_large_as_their_number() -> None:
    """Two methods that differ by recording only, at random: by items they would nearly always differ clearly."""
    rng = np.random.default_rng(0)
    clear = {"items": 0, "recordings": 0}
    for _ in range(60):
        recordings = np.repeat(rng.choice([-0.3, 0.3], 24), 20)
        chance = {"one": 0.5 + recordings / 2, "other": 0.5 - recordings / 2}
        one, other = (rng.random(480) < chance[name] for name in chance)
        names = np.repeat(np.arange(24), 20).astype(str)
        for kind, groups in (("items", None), ("recordings", names)):
            found = resample(one.astype(float), [other.astype(float)], groups=groups, draws=400).difference
            clear[kind] += found.verdict != "no clear difference"
    assert clear["recordings"] <= 9 and clear["items"] > 20
