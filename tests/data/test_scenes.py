"""Scenes: what their members share, and the physics each of them promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from planformer.data.augment import unit_power
from planformer.data.diversify import DiversifyConfig
from planformer.data.scenes import NAMES, ScenesConfig, coarse_spectra, relatives, stage


def sequences(count: int = 4, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return unit_power(torch.randn(count, 5120, dtype=torch.complex64, generator=generator))


def staged(name: str, seed: int, count: int = 4) -> torch.Tensor:
    return stage(sequences(count), name, torch.Generator().manual_seed(seed), DiversifyConfig())


@given(st.sampled_from(NAMES), st.integers(0, 60))
def test_every_scene_has_unit_power_where_there_is_signal(name: str, seed: int) -> None:
    x = staged(name, seed)
    assert x.shape == (4, 5120) and x.dtype == torch.complex64
    assert bool(torch.isfinite(torch.view_as_real(x)).all())
    present = x != 0
    power = x.abs().square().sum(-1) / present.sum(-1)
    if name != "general":  # diversification has unit power before the silence behind a burst
        assert torch.allclose(power, torch.ones(4), atol=1e-3)
    assert bool((power > 1e-3).all())


@pytest.mark.parametrize("name", ["picture", "letters", "voice", "tone"])
def test_made_up_scenes_are_analytic(name: str) -> None:
    """No negative frequencies, but for what noise adds and what the end of a burst smears."""
    shares = []
    for seed in range(12):
        power = torch.fft.fft(staged(name, seed)).abs().square()
        shares.append(float((power[:, 2561:].sum(-1) / power.sum(-1)).median()))
    assert float(np.median(shares)) < 0.02


def test_noise_of_a_receiver_has_the_power_it_should() -> None:
    """Received = (x + n) / rms, so its part along x tells the noise: 0 to 30 dB below the signal."""
    ratios = []
    for seed in range(40):
        x = sequences(8)
        y = stage(x, "recorded", torch.Generator().manual_seed(seed), DiversifyConfig())
        if torch.equal(x, y):
            continue
        along = (x.conj() * y).mean(-1).abs().square()
        ratios.append(along / (1 - along))
    assert 15 < len(ratios) < 33  # six of ten
    decibels = 10 * torch.log10(torch.cat(ratios))
    assert float(decibels.min()) > -1.5 and float(decibels.max()) < 32
    assert float(decibels.mean()) == pytest.approx(15, abs=2)


def test_relatives_share_what_they_are_drawn_by() -> None:
    emitters = np.repeat(np.arange(6), 20)
    strata = {"any": emitters, "emitter": emitters, "protocol": emitters // 2, "collection": emitters // 3}
    rng = np.random.default_rng(0)
    kinship = {"emitter": 0, "protocol": 0, "collection": 0, "none": 0}
    for _ in range(200):
        rows = relatives(np.array([5]), strata, rng, ["recorded"], ScenesConfig(size=8))
        assert rows[0] == 5 and len(rows) == 8
        common = next((k for k in ("emitter", "protocol", "collection") if len(set(strata[k][rows])) == 1), "none")
        kinship[common] += 1
    assert 5 < kinship["emitter"] < 40 and 40 < kinship["protocol"] < 100 and 30 < kinship["collection"] < 90
    assert 25 < kinship["none"] < 75


@pytest.mark.parametrize(
    ("related", "expected"),
    [((0.0, 0.0, 0.0), "emitter"), ((0.0, 0.0, 1.0), "protocol"), ((0.0, 1.0, 1.0), "collection")],
)
def test_relatives_of_scenes_as_recorded_may_be_chosen(related: tuple[float, float, float], expected: str) -> None:
    emitters = np.repeat(np.arange(6), 20)
    strata = {"any": emitters, "emitter": emitters, "protocol": emitters // 2, "collection": emitters // 3}
    config, rng = ScenesConfig(size=16, related=related), np.random.default_rng(0)
    rows = relatives(np.array([5]), strata, rng, ["recorded"], config)
    assert next(k for k in ("emitter", "protocol", "collection") if len(set(strata[k][rows])) == 1) == expected
    made_up = [relatives(np.array([5]), strata, rng, ["voice"], config) for _ in range(40)]
    assert any(len(set(strata["collection"][rows])) > 1 for rows in made_up)  # only those as recorded are chosen


def test_near_relatives_fill_the_band_as_the_first_does() -> None:
    """Sequences of one collection at random centre frequencies: relatives by spectrum are those nearby."""
    centres = np.linspace(-0.4, 0.4, 400)
    spectra = np.exp(-np.square(np.linspace(-0.5, 0.5, 32) - centres[:, None]) / 0.01).astype(np.float32)
    strata = {name: np.zeros(400, np.int64) for name in ("any", "collection", "protocol", "emitter")}
    spread = {}
    for near in (0.0, 1.0):
        config, rng = ScenesConfig(size=8, near=near), np.random.default_rng(0)
        rows = [relatives(np.array([200]), strata, rng, ["recorded"], config, spectra) for _ in range(20)]
        assert all(found[0] == 200 and len(found) == 8 for found in rows)
        spread[near] = float(np.mean([np.abs(centres[found[1:]] - centres[200]).mean() for found in rows]))
    assert spread[1.0] < 0.15 * spread[0.0]
    made_up = relatives(np.array([200]), strata, np.random.default_rng(0), ["voice"], config, spectra)
    assert np.abs(centres[made_up[1:]] - centres[200]).mean() > 0.5 * spread[0.0], "only those as recorded"


@given(st.integers(-2500, 2500), st.floats(1e-3, 1e3))
def test_a_coarse_spectrum_has_its_peak_where_the_tone_is_whatever_its_level(bin_: int, level: float) -> None:
    tone = (level * np.exp(2j * np.pi * bin_ * np.arange(5120) / 5120)).astype(np.complex64)
    spectrum = coarse_spectra(tone[None])
    assert spectrum.shape == (1, 32)
    assert int(spectrum[0].argmax()) == bin_ % 5120 // 160
    np.testing.assert_allclose(spectrum, coarse_spectra(tone[None] / np.float32(level)), atol=1e-3)


def test_shares_are_probabilities_and_nothing_may_be_negative() -> None:
    shares = ScenesConfig(size=4, recorded=1, general=0, voice=0, tone=0, picture=1, letters=0).shares
    assert shares.tolist() == [0.5, 0, 0, 0, 0.5, 0]
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        ScenesConfig(voice=-1)
    with pytest.raises(ValueError, match="needs a share above 0"):
        ScenesConfig(size=4, recorded=0, general=0, voice=0, tone=0, picture=0, letters=0)


def test_the_same_seed_gives_the_same_scene() -> None:
    for name in NAMES:
        assert torch.equal(staged(name, 3), staged(name, 3))
