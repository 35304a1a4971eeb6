"""The sampler balances every batch, keeps ranks apart, and can be resumed anywhere."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer.data.sampler import StratifiedDistributedSampler
from planformer.errors import ConfigError

LABELS = np.concatenate([np.full(n, c) for c, n in enumerate([40, 12, 25, 40, 7])])


def make(batch_size: int = 10, **options: object) -> StratifiedDistributedSampler:
    return StratifiedDistributedSampler(LABELS, batch_size, **{"seed": 3, **options})  # type: ignore[arg-type]


@given(
    counts=st.lists(st.integers(2, 30), min_size=1, max_size=12),
    batch=st.integers(1, 40),
    world=st.integers(1, 2),
    per_batch=st.none() | st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_every_batch_is_balanced(counts, batch, world, per_batch):
    labels = np.repeat(np.arange(len(counts)), counts)
    sampler = StratifiedDistributedSampler(labels, batch, world=world, classes_per_batch=per_batch)
    for step in range(min(len(sampler), 20)):
        tally = Counter(labels[sampler.batch(step)].tolist())
        assert sum(tally.values()) == batch
        assert len(tally) == min(per_batch or len(counts), len(counts), batch)
        assert max(tally.values()) - min(tally.values()) <= 1


def test_ranks_are_disjoint_and_share_the_classes():
    ranks = [make(rank=r, world=3) for r in range(3)]
    tables = [np.stack(list(s)) for s in ranks]
    seen = [set(t.ravel().tolist()) for t in tables]
    assert not (seen[0] & seen[1]) and not (seen[0] & seen[2]) and not (seen[1] & seen[2])
    for first, second in zip(tables[0], tables[1], strict=True):
        assert (LABELS[first] == LABELS[second]).all()


def test_epoch_covers_the_largest_class_and_repeats_the_small_evenly():
    sampler = make(batch_size=5)
    drawn = Counter(np.concatenate(list(sampler)).tolist())
    big = [drawn[i] for i in np.flatnonzero(LABELS == 0)]
    small = [drawn[i] for i in np.flatnonzero(LABELS == 4)]
    assert min(big) == max(big) == 1
    assert max(small) - min(small) <= 1 and sum(small) == 40


def test_classes_are_used_equally_often_with_few_per_batch():
    sampler = make(batch_size=4, classes_per_batch=2)
    tally = Counter(LABELS[np.concatenate(list(sampler))].tolist())
    assert max(tally.values()) - min(tally.values()) <= 2


def test_resume_in_the_middle_of_an_epoch():
    whole = make()
    expected = [next_batch.copy() for _ in range(2) for next_batch in whole]
    first = make()
    taken = []
    for batch in first:
        taken.append(batch)
        if len(taken) == 7:
            break
    state = first.state_dict()
    second = make()
    second.load_state_dict(state)
    for _ in range(2):
        for batch in second:
            taken.append(batch)
            if len(taken) == len(expected):
                break
    assert all((a == b).all() for a, b in zip(taken, expected, strict=True))
    assert all((whole.batch(i) == b).all() for i, b in enumerate(expected))


def test_seed_and_epoch_change_the_order():
    assert not (make().batch(0) == make(seed=4).batch(0)).all()
    sampler = make()
    assert not (sampler.batch(0) == sampler.batch(len(sampler))).all()


def test_order_of_classes_is_random_within_a_batch():
    sampler = make(batch_size=5)
    assert len({tuple(LABELS[sampler.batch(i)].tolist()) for i in range(10)}) > 5


def test_impossible_sets_are_refused():
    with pytest.raises(ConfigError, match="empty"):
        StratifiedDistributedSampler([], 4)
    with pytest.raises(ConfigError, match="fewer than the 8 processes"):
        make(world=8)
