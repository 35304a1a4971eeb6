"""Scanned fields: what a raster does to a spectrum, and what ink does to a field."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from planformer.data.pictures import FLAT, FRAMED, STROKES, Style, _in_frame, _inked, band_limited, picture_signals


def sequences(count: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 5120, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 200))
def test_every_scan_is_real_finite_and_not_blank(seed: int) -> None:
    found = picture_signals(sequences(), torch.Generator().manual_seed(seed))
    assert found.shape == (4, 5120)
    assert bool(torch.isfinite(torch.view_as_real(found)).all())
    assert float(found.imag.abs().max()) == 0
    assert bool((found.real.std(-1) > 1e-4).all())
    assert bool((found.real.mean(-1).abs() < 1e-3 * found.real.std(-1) + 1e-5).all())


def test_a_scan_of_few_lines_stays_in_its_band() -> None:
    # 12 lines: 288 points of a path become 5,120, so nothing may lie above 144 cycles of the sequence
    style = Style(12, 0.3, 0.9, 0.5, 0.9, 0.9)
    field = torch.randn(12, 12, generator=torch.Generator().manual_seed(0))
    path = torch.cat((_inked(field, style, 0.0).flatten(), field.flatten()))
    power = torch.fft.rfft(band_limited(path, 5120)).abs().square()
    assert float(power[145:].sum() / power.sum()) < 1e-9


@pytest.mark.parametrize("length", [100, 101, 5120, 8192])
def test_band_limited_keeps_the_mean_and_a_low_tone(length: int) -> None:
    time = torch.arange(length) / length
    row = 0.5 + torch.cos(2 * torch.pi * 3 * time)
    expected = 0.5 + torch.cos(2 * torch.pi * 3 * torch.arange(5120) / 5120)
    assert torch.allclose(band_limited(row, 5120), expected, atol=1e-4)


def test_strokes_leave_most_of_the_ground_empty_and_never_exceed_their_ink() -> None:
    field = torch.randn(40, 40, generator=torch.Generator().manual_seed(1))
    drawn = _inked(field, Style(40, 0.2, STROKES / 2, 0.8, 1.0, 1.0), 0.5)
    assert float((drawn == 0).float().mean()) > 0.8
    assert float(drawn.max()) <= 1
    flat = _inked(field, Style(40, 0.2, (STROKES + FLAT) / 2, 0.5, 1.0, 1.0), 0.0)
    assert float(flat.max() - flat.min()) == pytest.approx(0.7, abs=1e-6)


def test_a_frame_is_darkest_at_the_border() -> None:
    style = Style(32, 0.2, 1.0, 0.0, FRAMED / 2, 1.0)
    drawn = _in_frame(torch.ones(32, 32) + torch.eye(32), style, 0.0, 0.5)
    assert float(drawn[0].abs().max()) < 0.1 * float(drawn[16].abs().max())
    unframed = torch.ones(32, 32)
    assert _in_frame(unframed, Style(32, 0.2, 1.0, 0.0, FRAMED, 1.0), 0.0, 0.5) is unframed


def test_the_same_generator_gives_the_same_pictures() -> None:
    first, second = (picture_signals(sequences(), torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)
