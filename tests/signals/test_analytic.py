import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import hilbert

from planformer.signals.analytic import analytic, analytic_blocks

# The package re-exports the function under the module's name.
module = importlib.import_module("planformer.signals.analytic")


def negative_energy(z):
    """Share of the energy at negative frequencies (the Nyquist bin of an even length belongs to both signs)."""
    spectrum = np.abs(np.fft.fft(z.astype(np.complex128))) ** 2
    n = z.shape[-1]
    return spectrum[..., n // 2 + 1 :].sum() / spectrum.sum()


@given(n=st.integers(8, 700), cycles=st.integers(1, 300), phase=st.floats(0, 6.2))
@settings(max_examples=60, deadline=None)
def test_a_cosine_becomes_a_complex_exponential(n, cycles, phase):
    cycles = 1 + cycles % max(1, (n - 1) // 2 - 1)
    angle = 2 * np.pi * cycles * np.arange(n) / n + phase
    assert np.allclose(analytic(np.cos(angle)), np.exp(1j * angle), atol=2e-5)


@given(n=st.integers(2, 3000), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_negative_frequencies_are_empty_and_the_real_part_is_the_input(n, seed):
    x = np.random.default_rng(seed).normal(size=n).astype(np.float32)
    z = analytic(x)
    assert negative_energy(z) < 1e-6
    assert np.array_equal(z.real, x)
    assert np.allclose(z, hilbert(x.astype(np.float64)), atol=1e-4)


def test_a_constant_has_no_imaginary_part():
    assert np.allclose(analytic(np.full(100, 7.0)), 7.0)


def test_channels_are_independent():
    x = np.random.default_rng(0).normal(size=(3, 1000)).astype(np.float32)
    assert np.allclose(analytic(x)[1], analytic(x[1]), atol=1e-6)


@pytest.fixture
def small_grid(monkeypatch):
    """The block grid at a thousandth of its size, so that a test reaches it."""
    monkeypatch.setattr(module, "BLOCK", 1024)
    monkeypatch.setattr(module, "MARGIN", 256)


@given(n=st.integers(1, 6000), cuts=st.lists(st.integers(0, 6000), max_size=6))
@settings(max_examples=80, deadline=None)
def test_a_stream_gives_bit_for_bit_what_the_whole_gives(n, cuts):
    saved = module.BLOCK, module.MARGIN
    module.BLOCK, module.MARGIN = 1024, 256
    try:
        x = np.random.default_rng(n).normal(size=(2, n)).astype(np.float32)
        parts = np.split(x, sorted(c for c in cuts if c < n), axis=1)
        assert np.array_equal(np.concatenate(list(analytic_blocks(parts)), axis=1), analytic(x))
    finally:
        module.BLOCK, module.MARGIN = saved


def test_the_grid_is_close_to_one_transform(small_grid):
    """Inside a long signal the margin keeps what the missing rest of the signal could change small."""
    t = np.arange(10_000)
    x = np.cos(2 * np.pi * 0.11 * t) + 0.5 * np.sin(2 * np.pi * 0.31 * t)
    error = np.abs(analytic(x) - hilbert(x))[300:-300]
    assert error.max() < 0.02


def test_the_grid_at_its_real_size_keeps_negative_frequencies_empty():
    x = np.random.default_rng(0).normal(size=module.BLOCK + module.BLOCK // 2).astype(np.float32)
    assert negative_energy(analytic(x)) < 1e-5


def test_an_empty_stream_gives_nothing():
    assert list(analytic_blocks([])) == []
