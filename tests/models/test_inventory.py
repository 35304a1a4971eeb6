"""Counts are measured on the live modules, and equal the published ones."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from planformer import PlanFormer
from planformer.models.inventory import INVENTORY, count_parameters, mac_counts, macs_all, macs_fvcore, parameter_counts


def test_published_counts() -> None:
    counts = parameter_counts(["encoder", "parseval_transformer_128", "parseval_transformer_512"])
    assert counts["encoder"] == {"total": 1_990_478, "trainable": 1_978_190, "fixed": 12_288}
    assert counts["parseval_transformer_128"]["total"] == 463_235
    assert counts["parseval_transformer_512"]["total"] == 7_355_651


def test_a_frozen_model_is_counted_by_its_design() -> None:
    """PlanFormer freezes its encoder; the inventory builds its own, so the counts don't change."""
    PlanFormer.random()
    assert parameter_counts(["encoder"])["encoder"]["trainable"] == 1_978_190


def test_building_for_a_count_leaves_the_generator_alone() -> None:
    state = torch.random.get_rng_state()
    parameter_counts(["parseval_transformer_128"])
    assert torch.equal(state, torch.random.get_rng_state())


def test_buffers_count_as_fixed_and_running_statistics_do_not() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.register_buffer("table", torch.zeros(3, 2))
            self.register_buffer("cache", torch.zeros(9), persistent=False)

    assert count_parameters(Table()) == {"total": 14, "trainable": 8, "fixed": 6}


@pytest.mark.parametrize(
    ("module", "shape", "macs"),
    [
        (nn.Linear(10, 3), (2, 10), 60),
        (nn.Conv1d(2, 3, 5, padding="same", bias=False), (1, 2, 20), 2 * 3 * 5 * 20),
        (nn.Conv1d(4, 4, 3, groups=4, bias=False), (1, 4, 10), 4 * 3 * 8),
    ],
)
def test_products_and_convolutions(module: nn.Module, shape: tuple[int, ...], macs: int) -> None:
    assert macs_all(module, torch.zeros(shape)) == macs


def test_transforms_and_attention() -> None:
    class Transform(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.fft(torch.complex(x, x), dim=-1)

    class Attention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(x, x, x)

    assert macs_all(Transform(), torch.zeros(3, 64)) == 3 * 2.5 * 64 * math.log2(64)
    assert macs_all(Attention(), torch.zeros(1, 2, 10, 8)) == 2 * 2 * 10 * 10 * 8


def test_encoder_figures() -> None:
    pytest.importorskip("fvcore")
    counts = mac_counts()
    assert set(counts) == {"encoder_fvcore", "encoder_all"}
    assert 50e6 < counts["encoder_fvcore"] < counts["encoder_all"] < 400e6


def test_fvcore_leaves_same_padding_out() -> None:
    """Why two figures are printed."""
    pytest.importorskip("fvcore")
    layer = nn.Conv1d(2, 3, 5, padding="same")
    assert macs_fvcore(layer, torch.zeros(1, 2, 20)) == 0
    assert macs_all(layer, torch.zeros(1, 2, 20)) == 600


def test_every_entry_can_be_built() -> None:
    for name in INVENTORY:
        assert count_parameters(INVENTORY[name]())["total"] > 0, name
