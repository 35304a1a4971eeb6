"""The symmetry report on embeddings whose symmetries are known."""

from __future__ import annotations

import numpy as np
import pytest

from planformer.evaluation.symmetry import (
    add_noise,
    flip,
    held_out_r2,
    measure,
    rotate_phase,
    shift_frequency,
    shift_time,
)


def signals(n: int = 80) -> np.ndarray:
    rng = np.random.default_rng(0)
    t = np.arange(5120)
    envelope = np.exp(-0.5 * ((t - 2000) / 400.0) ** 2)
    rows = [np.exp(2j * np.pi * rng.uniform(-0.1, 0.1) * t) * envelope for _ in range(n)]
    x = np.stack(rows)
    return (x / np.sqrt(np.mean(np.abs(x) ** 2, axis=1, keepdims=True))).astype(np.complex64)


def centroid(x: np.ndarray) -> np.ndarray:
    """Centre of the spectrum and of the envelope: moves linearly with both shifts, and with nothing else."""
    power = np.abs(np.fft.fft(x, axis=1)) ** 2
    frequency = np.fft.fftfreq(x.shape[1])
    envelope = np.abs(x) ** 2
    return np.stack(
        [(power * frequency).sum(1) / power.sum(1), (envelope * np.arange(x.shape[1])).sum(1) / envelope.sum(1)], axis=1
    )


def test_known_symmetries_are_found() -> None:
    found = measure(centroid, signals())
    assert found.r2["frequency shift"] > 0.95 and found.r2["time shift"] > 0.95
    assert found.r2["phase"] < 0.2


def test_cosine_falls_with_noise() -> None:
    def spectrum(x: np.ndarray) -> np.ndarray:
        return np.log(np.abs(np.fft.fft(x, axis=1)).reshape(len(x), 64, 80).mean(axis=2) + 1e-2)

    cosine = measure(spectrum, signals(40)).cosine
    assert cosine[20.0] > cosine[0.0] > cosine[-10.0]


def test_changes_do_what_they_say() -> None:
    x = signals(4)
    ones = np.full(4, 0.05)
    peak = np.abs(np.fft.fft(x, axis=1)).argmax(axis=1)
    moved = np.abs(np.fft.fft(shift_frequency(x, ones), axis=1)).argmax(axis=1)
    assert (((moved - peak) % 5120) == 256).all()
    assert (np.abs(shift_time(x, ones)).argmax(axis=1) - np.abs(x).argmax(axis=1) == 256).all()
    np.testing.assert_allclose(rotate_phase(x, np.ones(4)), 1j * x, atol=1e-5)
    np.testing.assert_array_equal(flip(x, np.array([1.0, -1, 1, -1]))[1], x[1])
    np.testing.assert_array_equal(flip(x, np.array([1.0, -1, 1, -1]))[0], x[0, ::-1])
    noisy = add_noise(x, np.full(4, 0.0), np.random.default_rng(0))
    share = np.abs(np.mean(np.conj(x) * noisy, axis=1))  # unit power: sqrt(1/2) at 0 dB
    np.testing.assert_allclose(share, np.sqrt(0.5), atol=0.05)


def test_r2_of_noise_is_not_positive() -> None:
    rng = np.random.default_rng(0)
    assert held_out_r2(rng.standard_normal((80, 40)), rng.standard_normal(80)) < 0.15


@pytest.mark.slow
def test_section_compares_models_and_draws() -> None:
    from planformer import PlanFormer, PlanFormerConfig
    from planformer.evaluation.symmetry import symmetry_section

    narrow = PlanFormerConfig(channels=(4, 8, 16), dim=32)
    section = symmetry_section({f"random:{seed}": PlanFormer.random(seed, narrow) for seed in (0, 1)}, count=24)
    assert section.table is not None and section.table.header == ["change", "random:0", "random:1"]
    assert len(section.table.rows) == 5 + 6 and len(section.pictures) == 2
