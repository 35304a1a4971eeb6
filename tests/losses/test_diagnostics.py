import math

import pytest
import torch

from planformer.losses.config import FocalConfig, IsoFICRegConfig
from planformer.losses.diagnostics import alignment_uniformity, diagnose, effective_rank, pair_focal_weights, spread


@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("count", [20, 200])
def test_effective_rank_of_a_known_subspace(rank: int, count: int) -> None:
    """Equal energy in ``rank`` orthogonal directions of 64, for more and for fewer rows than dimensions."""
    torch.manual_seed(0)
    rows = torch.randn(count, rank, dtype=torch.float64)
    rows = torch.linalg.qr(rows - rows.mean(0)).Q
    basis = torch.linalg.qr(torch.randn(64, rank, dtype=torch.float64)).Q
    assert effective_rank(rows @ basis.T) == pytest.approx(rank, rel=1e-6)
    assert effective_rank(torch.ones(count, 4)) == 1


def test_spread_shows_collapse_and_redundancy() -> None:
    torch.manual_seed(0)
    x = torch.randn(500, 4)
    figures = spread(x)
    assert figures["std_mean"] == pytest.approx(1, abs=0.1)
    assert figures["off_diagonal"] < 0.1
    assert spread(x[:, :1].expand(-1, 4))["off_diagonal"] == pytest.approx(1, abs=1e-3)
    assert spread(x * torch.tensor([1.0, 1, 1, 0]))["std_min"] == 0


def test_alignment_and_uniformity() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    sides = torch.tensor([[1.0, 0], [1, 0], [-1, 0], [-1, 0]])
    aligned, uniform = alignment_uniformity(sides, sides, labels)
    assert aligned == 0
    # of the 12 ordered pairs, 4 coincide and 8 are at squared distance 4
    assert uniform == pytest.approx(math.log((4 + 8 * math.exp(-8)) / 12), rel=1e-4)
    crossed, _ = alignment_uniformity(sides, sides, torch.tensor([0, 1, 0, 1]))
    assert crossed == pytest.approx(2)


def test_focal_weights_show_the_saturation() -> None:
    torch.manual_seed(0)
    views, labels = torch.randn(4, 16, 1024), torch.arange(16) % 4
    literal = pair_focal_weights(views, labels, IsoFICRegConfig(normalise_distance=False))
    normalised = pair_focal_weights(views, labels, IsoFICRegConfig())
    assert (literal["focal/invariance_mean"], literal["focal/invariance_std"]) == (1, 0)
    assert normalised["focal/invariance_std"] > 1e-3
    assert normalised["distance/negative"] == pytest.approx(2, rel=0.1)
    alone = pair_focal_weights(views, torch.zeros(16, dtype=torch.long), IsoFICRegConfig())
    assert "focal/repulsion_mean" not in alone


def test_no_gradient_and_finite_for_two_equal_rows() -> None:
    rows = {name: torch.ones(2, 6, requires_grad=True) for name in ("clean", "augmented")}
    rows |= {name: torch.full((2, 5), 0.5) for name in ("code", "predicted_input", "predicted_latent")}
    rows["input_linear"] = torch.zeros(2)
    figures = diagnose(rows, torch.ones(4, 2, 3), torch.tensor([0, 1]), IsoFICRegConfig(), FocalConfig())
    assert all(math.isfinite(value) for value in figures.values())
