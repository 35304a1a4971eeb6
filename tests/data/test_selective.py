"""Selective fading: exact where the gain is one, and the stated gain at the stated time and frequency."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer.data.selective import DEPTH, FREQUENCIES, TIMES, selective_fade

N = 5120
ONE = torch.ones(1)


def tone(cycles: float) -> torch.Tensor:
    return torch.exp(2j * torch.pi * cycles * torch.arange(N)).to(torch.complex64)[None]


@given(n=st.integers(2, 700), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_gain_of_one_changes_nothing(n: int, seed: int) -> None:
    x = torch.randn(2, n, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))
    out = selective_fade(x, torch.zeros(2, TIMES, FREQUENCIES), torch.ones(2), torch.ones(2))
    assert torch.allclose(out, x, atol=1e-5)


def test_a_gain_over_time_alone_is_an_envelope() -> None:
    control = torch.linspace(-1, 1, TIMES)[None, :, None].expand(1, TIMES, FREQUENCIES)
    out = selective_fade(tone(0.125), control, ONE, ONE).abs()[0]
    for place in (0.25, 0.5, 0.75):
        assert out[int(place * N)] == pytest.approx(math.exp(DEPTH * (2 * place - 1)), rel=0.06)


def test_a_gain_over_frequency_alone_is_a_filter_and_its_peaks_move_with_the_scale() -> None:
    peak = torch.zeros(1, TIMES, FREQUENCIES)
    place = 11
    peak[:, :, place] = 2
    at = 0.5 * (2 * place / (FREQUENCIES - 1) - 1)  # cycles per sample
    for scale in (1.0, 0.8):
        middle = selective_fade(tone(at * scale), peak, ONE, torch.tensor([scale])).abs()[0, 1000:4000].mean()
        beside = selective_fade(tone(-at * scale), peak, ONE, torch.tensor([scale])).abs()[0, 1000:4000].mean()
        assert middle == pytest.approx(math.exp(2 * DEPTH), rel=0.1)
        assert beside == pytest.approx(1.0, rel=0.02)


def test_speed_moves_the_change_in_time() -> None:
    control = torch.tensor([0.0, 0.0, 0.0, 2.0, 2.0])[None, :, None].expand(1, TIMES, FREQUENCIES)
    risen = []
    for speed in (0.5, 1.0, 2.0):
        level = selective_fade(tone(0.1), control, torch.tensor([speed]), ONE).abs()[0]
        risen.append(int((level > math.exp(DEPTH)).float().argmax()))
    assert risen[0] < risen[1] < risen[2]
    assert risen[1] == pytest.approx(0.625 * N, abs=0.03 * N)
