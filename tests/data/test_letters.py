"""Letters: few levels, what they share within a scene, words and codes."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from planformer.data.augment import unit_power
from planformer.data.letters import MOST_LEVELS, code_of, in_words, letter_signals


def sequences(count: int = 4, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return unit_power(torch.randn(count, 5120, dtype=torch.complex64, generator=generator))


@given(st.integers(0, 200), st.sampled_from([0.0, 1.0]))
def test_letters_take_few_values_and_all_sequences_the_same_ones(seed: int, words: float) -> None:
    found = letter_signals(sequences(3), torch.Generator().manual_seed(seed), words).real
    values = [set(row.tolist()) for row in found]
    assert len(set.union(*values)) <= MOST_LEVELS
    assert all(len(one) <= MOST_LEVELS for one in values)
    assert float(found.min()) >= 0 and float(found.max()) <= 1 + 1e-6


def test_letters_of_one_scene_are_unequally_likely_but_alike() -> None:
    """The histograms of one scene's sequences resemble each other more than those of another scene."""
    near, far = [], []
    for seed in range(30):
        one, other = (
            letter_signals(sequences(2, k), torch.Generator().manual_seed(100 * k + seed)).real for k in (1, 2)
        )
        histograms = [torch.histc(row, 32, 0, 1) / 5120 for row in (*one, other[0])]
        near.append(float((histograms[0] - histograms[1]).abs().sum()))
        far.append(float((histograms[0] - histograms[2]).abs().sum()))
    assert np.mean(near) < 0.7 * np.mean(far)


def test_without_words_letters_are_what_they_were() -> None:
    """Recipes from before there were words see what they saw then: means as the earlier code had them."""
    found = [letter_signals(sequences(), torch.Generator().manual_seed(seed)).real.mean() for seed in range(4)]
    np.testing.assert_allclose(found, [0.575994, 0.307688, 0.666899, 0.898143], atol=2e-6)


@given(st.integers(0, 100), st.integers(2, 40), st.booleans())
def test_every_level_is_drawn_by_its_rank_from_what_follows_the_one_before(
    seed: int, levels: int, resting: bool
) -> None:
    """A slow reference: one row, one step after the other."""
    resting = resting and levels > 2
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.rand(2, 64, generator=generator)
    likely = torch.rand(2, levels, generator=generator) + 0.05
    found = in_words(ranks, likely, resting, torch.Generator().manual_seed(seed))
    fresh = torch.Generator().manual_seed(seed)
    liking = torch.exp(2.0 * torch.rand(3, generator=fresh)[0] * torch.randn(1, levels, levels, generator=fresh))[0]
    before = [0, 0]
    for step in range(64):
        for row in range(2):
            follows = liking[before[row]] * likely[row]
            if resting:
                follows[0] = 0
            chances = (follows / follows.sum()).cumsum(0)
            before[row] = min(int((chances <= ranks[row, step]).sum()), levels - 1)
            distance = float((chances - ranks[row, step]).abs().min())
            if not (resting and found[row, step] == 0) and distance > 1e-5:
                assert int(found[row, step]) == before[row]
            elif distance <= 1e-5:  # a rank on a border: either side
                return


def test_words_have_lengths_about_a_mean_and_a_resting_level_between() -> None:
    ranks = torch.rand(8, 5120, generator=torch.Generator().manual_seed(0))
    lengths = []
    for seed in range(10):
        found = in_words(ranks, torch.ones(8, 30) / 30, True, torch.Generator().manual_seed(seed))
        assert not bool(((found[:, 1:] == 0) & (found[:, :-1] == 0)).any()), "words have a letter at the least"
        lengths.append(5120 / float((found == 0).sum(1).float().mean()) - 1)
    assert min(lengths) > 2 and max(lengths) < 14
    assert np.std(lengths) > 0.5, "languages differ"


def test_a_code_has_blocks_of_equal_steps() -> None:
    shares = []
    for seed in range(30):
        gaps, used = code_of(60, torch.Generator().manual_seed(seed))
        assert bool((gaps >= 1).all()) and float(gaps.max()) <= 17
        jumps = gaps != 1
        assert bool((used[1:][~jumps[1:]] == used[:-1][~jumps[1:]]).all()), "a block is used alike"
        shares.append(float(jumps.float().mean()))
    assert 0.02 < np.mean(shares) < 0.09
