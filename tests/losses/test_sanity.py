"""Sixty steps of the whole single-source objective; the figures of a run are in docs/decisions.md."""

import pytest

from planformer.losses.config import ObjectiveConfig
from reference.losses_sanity import Run, Sanity

STEPS = 60
RANK_FLOOR = 5.0  # of 64; the collapse that the literal covariance term allows is at 1.0


def train(led_weight: float) -> tuple[Sanity, Sanity]:
    run = Run(ObjectiveConfig(led_weight=led_weight), dropout_prob=0.0)
    before = run.measure()
    for _ in range(STEPS):
        run.step()
    return before, run.measure()


@pytest.fixture(scope="module")
def with_led() -> tuple[Sanity, Sanity]:
    return train(1.0)


@pytest.mark.slow
def test_full_objective_learns_without_collapse(with_led: tuple[Sanity, Sanity]) -> None:
    before, after = with_led
    assert after.led_error < after.mean_error
    assert before.led_error > 0.98 * before.mean_error
    assert after.rank > RANK_FLOOR
    assert after.emitter_accuracy > before.emitter_accuracy


@pytest.mark.slow
def test_without_led_the_head_does_not_beat_the_mean(with_led: tuple[Sanity, Sanity]) -> None:
    """The control of the test above. That shifts vanish from the embedding itself is *not* seen in 60 steps."""
    _, without = train(0.0)
    assert without.led_error > 0.99 * without.mean_error
    assert without.led_error > with_led[1].led_error
