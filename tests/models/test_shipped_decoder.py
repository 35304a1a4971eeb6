"""The decoder that is shipped: it takes noise away from signals that no training set holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from planformer.models.planformer import PlanFormer
from planformer.models.restoration_compare import snr_db
from planformer.signals import resample_length, roll_back


def harmonics(n: int = 10_000) -> np.ndarray:
    """A tone of 190 Hz with overtones, swelling and fading, at 8 kHz."""
    t = np.arange(n) / 8000
    return np.sin(2 * np.pi * 3 * t) ** 2 * sum(np.sin(2 * np.pi * 190 * k * t + k) / k for k in range(1, 9))


def chirp(n: int = 10_000) -> np.ndarray:
    """A carrier that sweeps over a fifth of the band, in bursts."""
    t = np.arange(n)
    return np.exp(2j * np.pi * (0.05 * t + 1e-5 * t**2)) * (t % 4000 < 2500)


@pytest.mark.parametrize(("size", "gain"), [(28, 1.0), (64, 4.0)])
def test_the_shipped_decoder_takes_noise_from_pixels(size: int, gain: float) -> None:
    """Large smooth patches, as pictures have; a picture smaller than a segment is not stretched to one first."""
    y, x = np.mgrid[:size, :size] / size
    clean = 100 + 80 * np.tanh(8 * np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y + 1))
    noisy = clean + 25 * np.random.default_rng(0).normal(size=clean.shape)
    out = PlanFormer.from_pretrained().denoise(noisy, kind="image").samples.real
    restored = roll_back(resample_length(out, 2 * size * size).real, size, size)[0]
    middle = clean - clean.mean()
    assert snr_db(middle, restored - clean.mean()) > snr_db(middle, noisy - clean.mean()) + gain


@pytest.mark.parametrize("make", [harmonics, chirp])
@pytest.mark.parametrize("snr", [0, 10])
def test_the_shipped_decoder_takes_noise_away(make: Callable[[], np.ndarray], snr: float) -> None:
    """At least four decibels of it, from what no training set holds, and four more than untrained networks do."""
    clean = make()
    rng = np.random.default_rng(0)
    noise = rng.normal(size=clean.shape)
    if np.iscomplexobj(clean):
        noise = (noise + 1j * rng.normal(size=clean.shape)) / np.sqrt(2)
    noisy = clean + noise * np.sqrt(np.mean(np.abs(clean) ** 2)) * 10 ** (-snr / 20)
    after = {}
    for name, model in (("shipped", PlanFormer.from_pretrained()), ("untrained", PlanFormer.random(0))):
        out = model.denoise(noisy, rate=8000).samples[0]
        after[name] = snr_db(clean, out if np.iscomplexobj(clean) else out.real)
    assert after["shipped"] > snr + 4
    assert after["shipped"] > after["untrained"] + 4
