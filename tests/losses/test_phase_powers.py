"""Powers of block means: which turns leave a constellation as it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from planformer.data.seeding import generator
from planformer.data.waveforms.linear import linear_waveform
from planformer.losses.phase_powers import BLOCKS, FLOOR, RAW, UNIT, phase_powers

N = 5120


def noise(batch: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, N, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))


def sent(name: str, count: int = 8) -> torch.Tensor:
    """Sequences of two samples a symbol, through a receiver that is a little off the carrier."""
    turn = np.exp(2j * np.pi * 4e-4 * np.arange(N))
    rows = [linear_waveform(generator(name, k), N, name, 2, 0.35) * turn for k in range(count)]
    return torch.from_numpy(np.stack(rows).astype(np.complex64))


def reference(x: torch.Tensor) -> torch.Tensor:
    """Block by block, power by power."""
    columns = []
    for view in (x.to(torch.complex128), (x[:, 1:] + x[:, :-1]).to(torch.complex128)):
        level = view.abs().square().mean(1, keepdim=True).sqrt()
        for base, powers in ((view / level, RAW), (view / view.abs(), UNIT)):
            for power in powers:
                raised = base**power
                for size in BLOCKS:
                    blocks = [raised[:, k : k + size].mean(1) for k in range(0, raised.shape[1] - size + 1, size)]
                    mean = torch.stack(blocks).abs().square().mean(0)
                    columns.append(torch.log(mean * size / raised.abs().square().mean(1) + FLOOR))
    return torch.stack(columns, 1).float()


def test_equals_a_plain_loop() -> None:
    x = noise(3)
    assert torch.allclose(phase_powers(x), reference(x), atol=2e-3)


def test_independent_samples_have_nothing_in_common() -> None:
    """Block means of noise have the power of one sample over the block: the logarithm is that of 1 + FLOOR."""
    found = phase_powers(noise(16)).view(16, 2, -1)[:, 0]  # sums of neighbours are not independent
    assert torch.allclose(found.mean(0), torch.full((found.shape[1],), np.log(1 + FLOOR)), atol=0.15)


@given(turn=st.floats(0, 6.3), level=st.floats(0.01, 100))
def test_neither_phase_nor_level_matters(turn: float, level: float) -> None:
    x = noise(1)
    assert torch.allclose(phase_powers(x), phase_powers(x * level * np.exp(1j * turn)), atol=2e-3)


@pytest.mark.parametrize(("name", "other"), [("BPSK", "QPSK"), ("QPSK", "8PSK"), ("PAM4", "16QAM")])
def test_constellations_are_told_apart_by_the_power_that_undoes_their_turns(name: str, other: str) -> None:
    """Half a turn: squares; a quarter: fourth powers. With two samples a symbol, any timing and a carrier offset."""
    power = {"BPSK": 2, "QPSK": 4, "PAM4": 2}[name]
    column = RAW.index(power) * len(BLOCKS)
    coherent, scattered = phase_powers(sent(name))[:, column], phase_powers(sent(other))[:, column]
    assert coherent.min() > scattered.max() + 0.2


@pytest.mark.parametrize("x", [torch.zeros(1, N, dtype=torch.complex64), torch.ones(1, N, dtype=torch.complex64)])
def test_silence_and_constants_are_finite(x: torch.Tensor) -> None:
    assert torch.isfinite(phase_powers(x)).all()
