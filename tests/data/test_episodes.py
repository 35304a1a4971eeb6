"""Episodes: what makes classes, what members have of their own, and the physics that scenes promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from planformer.data.augment import unit_power
from planformer.data.diversify import DiversifyConfig
from planformer.data.episodes import CAUSES, COUNTS, _Draw, _levels, draw_classes, members, stage_episode
from planformer.data.scenes import NAMES
from planformer.losses.batch_probe import class_gram, leave_one_out, standardised
from planformer.losses.descriptors import Descriptors

DESCRIBE = Descriptors(5120)


def sequences(count: int = 8, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return unit_power(torch.randn(count, 5120, dtype=torch.complex64, generator=generator))


def staged(name: str, seed: int, classes: torch.Tensor | None = None) -> torch.Tensor:
    if classes is None:
        classes = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    return stage_episode(
        sequences(len(classes), seed), classes, name, torch.Generator().manual_seed(seed), DiversifyConfig()
    )


def guessed(x: torch.Tensor, classes: torch.Tensor) -> float:
    """Error of probes on plain descriptors, each without the member it names, in units of guessing."""
    rows = torch.cat([standardised(values) for values in DESCRIBE(x).values()], 1).double()
    return float(leave_one_out(rows, class_gram(classes)))


@given(st.sampled_from(NAMES), st.integers(0, 60))
def test_every_episode_has_unit_power_where_there_is_signal(name: str, seed: int) -> None:
    x = staged(name, seed)
    assert x.shape == (8, 5120) and x.dtype == torch.complex64
    assert bool(torch.isfinite(torch.view_as_real(x)).all())
    power = x.abs().square().sum(-1) / (x != 0).sum(-1)
    if name != "general":  # diversification has unit power before the silence behind a burst
        assert torch.allclose(power, torch.ones(8), atol=1e-3)
    assert bool((power > 1e-3).all())


@pytest.mark.parametrize("name", ["picture", "letters", "voice", "tone"])
def test_made_up_episodes_are_analytic(name: str) -> None:
    shares = []
    for seed in range(12):
        power = torch.fft.fft(staged(name, seed)).abs().square()
        shares.append(float((power[:, 2561:].sum(-1) / power.sum(-1)).median()))
    assert float(np.median(shares)) < 0.02


@given(st.sampled_from([4, 6, 8, 16, 24, 32]), st.integers(0, 1000))
def test_classes_are_equally_large_and_in_a_row(size: int, seed: int) -> None:
    classes = draw_classes(size, np.random.default_rng(seed))
    counts = np.bincount(classes)
    assert len(classes) == size and len(set(counts.tolist())) == 1
    assert len(counts) in COUNTS and counts[0] > 1
    assert (np.diff(classes) >= 0).all()


@pytest.mark.parametrize("name", ["general", "voice", "tone", "picture", "letters"])
def test_classes_can_be_told_from_the_signals_and_shuffled_ones_can_not(name: str) -> None:
    classes = torch.arange(4).repeat_interleave(4)
    true, shuffled = [], []
    for seed in range(10):
        x = staged(name, seed, classes)
        order = torch.randperm(16, generator=torch.Generator().manual_seed(seed))
        true.append(guessed(x, classes))
        shuffled.append(guessed(x, classes[order]))
    assert np.mean(true) < np.mean(shuffled) - 0.2


@pytest.mark.parametrize("cause", ["source", "filter", "envelope"])
@pytest.mark.parametrize("name", ["voice", "tone"])
def test_every_cause_that_makes_classes_is_heard(cause: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything else in common, descriptors tell the classes in every scene, not only where a step was taken."""
    levels = dict.fromkeys(CAUSES, "common") | {cause: "class"}
    monkeypatch.setattr("planformer.data.episodes._levels", lambda _: levels)
    classes = torch.arange(2).repeat_interleave(8)
    errors = [guessed(staged(name, seed, classes), classes) for seed in range(12)]
    assert np.median(errors) < 0.6 and np.mean([error < 1 for error in errors]) > 0.7, errors


@given(st.integers(0, 300))
def test_something_other_than_the_pitch_makes_the_classes(seed: int) -> None:
    levels = _levels(_Draw(torch.arange(4), torch.Generator().manual_seed(seed)))
    assert set(levels) == set(CAUSES) and set(levels.values()) <= {"class", "common", "own"}
    assert any(level == "class" for cause, level in levels.items() if cause != "pitch")


def test_numbers_are_shared_as_their_level_says() -> None:
    classes = torch.arange(3).repeat_interleave(2)
    draw = _Draw(classes, torch.Generator().manual_seed(0))
    assert not torch.equal(draw.of("common", 0.0, 5), draw.of("common", 0.0, 5)), "drawn anew each time"
    common, by_class, own = draw.of("common", 0.0, 5), draw.of("class", 0.0, 5), draw.of("own", 0.0, 5)
    assert torch.equal(common, common[:1].expand(6, 5))
    assert torch.equal(by_class[::2], by_class[1::2]) and len(by_class[:, 0].unique()) == 3
    assert len(own[:, 0].unique()) == 6
    assert draw.source("common").tolist() == [0] * 6
    assert draw.source("class").tolist() == [0, 0, 2, 2, 4, 4]
    assert draw.source("own").tolist() == list(range(6))
    wide = torch.cat([_Draw(classes, torch.Generator().manual_seed(s)).of("class", 0.6, 50) for s in range(60)])
    assert float(wide.var()) == pytest.approx(1.0, abs=0.05)
    spread = wide.view(-1, 2, 50)
    assert float((spread[:, 0] * spread[:, 1]).mean()) == pytest.approx(1 - 0.36, abs=0.05)


def test_members_as_recorded_are_of_one_recording_or_one_emitter() -> None:
    recordings, emitters = np.repeat(np.arange(24), 5), np.repeat(np.arange(6), 20)
    classes = np.repeat(np.arange(4), 4)
    rng = np.random.default_rng(0)
    by_recording = by_emitter = 0
    for _ in range(200):
        rows = members(rng.choice(120, 16, replace=False), classes, recordings, emitters, rng).reshape(4, 4)
        assert all(len(set(emitters[row])) == 1 for row in rows)
        same = all(len(set(recordings[row])) == 1 for row in rows)
        by_recording, by_emitter = by_recording + same, by_emitter + (not same)
        if not same:
            assert len(set(emitters[rows[:, 0]])) == 4, "classes by emitter are different emitters"
    assert by_recording > 80 and by_emitter > 10


def test_the_same_seed_gives_the_same_episode() -> None:
    for name in NAMES:
        assert torch.equal(staged(name, 3), staged(name, 3))
