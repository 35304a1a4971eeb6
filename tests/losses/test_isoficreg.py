import pytest
import torch

from planformer.losses.config import IsoFICRegConfig
from planformer.losses.isoficreg import (
    PAIRS,
    VIEWS,
    focal_covariance,
    focal_invariance,
    focal_repulsion,
    isoficreg,
    pair_weights,
    squared_distances,
    standardise,
)
from reference import losses as reference

LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 3])


def views(dim: int = 6, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(4, len(LABELS), dim, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_every_term_equals_the_loops(normalise: bool, gamma: float) -> None:
    config = IsoFICRegConfig(
        normalise_distance=normalise,
        invariance_gamma=gamma,
        repulsion_gamma=gamma,
        covariance_gamma=gamma,
        covariance_scale="pairs",
        margin=3.0,
    )
    terms = isoficreg(views(), LABELS, config)
    z = [reference.z_scores(view.tolist(), config.eps) for view in views()]
    labels = LABELS.tolist()
    inv = [reference.invariance(z[i], z[j], labels, gamma, normalise=normalise) for i, j in PAIRS.values()]
    rep = [reference.repulsion(z[i], z[j], labels, 3.0, gamma) for i, j in PAIRS.values()]
    wanted = {
        "invariance_time": inv[0],
        "invariance_frequency": inv[1],
        "invariance_cross": sum(inv[2:]),
        "repulsion_time": rep[0],
        "repulsion_frequency": rep[1],
        "repulsion_cross": sum(rep[2:]),
        # the six pairs each add both of their views' covariance
        "covariance": sum(reference.covariance(z[k], gamma) for pair in PAIRS.values() for k in pair),
    }
    assert {k: float(v) for k, v in terms.items()} == pytest.approx(wanted, rel=2e-5)


def test_covariance_scales() -> None:
    """Divided by d as in VICReg, it is d - 1 times the paper's."""
    z = standardise(views(), 1e-6)
    torch.testing.assert_close(focal_covariance(z, 2.0, "dimensions"), 5 * focal_covariance(z, 2.0, "pairs"))


def test_pairs_are_those_of_the_paper() -> None:
    """In a domain augmented against latent only; across domains all four combinations."""
    named = {(VIEWS[i], VIEWS[j]) for i, j in PAIRS.values()}
    assert ("augmented_time", "latent_time") in named
    assert ("augmented_frequency", "latent_frequency") in named
    assert sum(a.split("_")[1] != b.split("_")[1] for a, b in named) == 4
    assert len({frozenset(pair) for pair in named}) == 6


def test_perfect_input_has_no_invariance_loss() -> None:
    """Every sample of an emitter equal, in all views."""
    centres = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    same = centres[LABELS].expand(4, -1, -1)
    terms = isoficreg(same, LABELS, IsoFICRegConfig())
    assert float(terms["invariance_time"] + terms["invariance_cross"]) < 1e-9


def test_order_of_better_and_worse() -> None:
    centres = torch.randn(4, 32, generator=torch.Generator().manual_seed(1))
    noise = torch.randn(4, len(LABELS), 32, generator=torch.Generator().manual_seed(2))
    losses = [isoficreg(centres[LABELS] + s * noise, LABELS, IsoFICRegConfig()) for s in (0.1, 0.5, 2.0)]
    invariances = [float(loss["invariance_time"]) for loss in losses]
    assert invariances == sorted(invariances)
    near, far = (focal_repulsion(torch.full((7, 7), d), pair_weights(LABELS), 4.0, 2.0) for d in (0.5, 2.0))
    assert near > far
    z = standardise(noise, 1e-6)
    redundant = standardise(noise[..., :16].repeat(1, 1, 2), 1e-6)
    assert (focal_covariance(redundant, 2.0) > focal_covariance(z, 2.0)).all()


def test_symmetry() -> None:
    """All ordered pairs make the invariance symmetric in the branches; the repulsion always is."""
    z = standardise(views(), 1e-6)
    forward, backward = squared_distances(z[0], z[2]), squared_distances(z[2], z[0])
    every, triangle = pair_weights(LABELS, "all"), pair_weights(LABELS)
    torch.testing.assert_close(focal_invariance(forward, every, 2.0), focal_invariance(backward, every, 2.0))
    torch.testing.assert_close(focal_repulsion(forward, triangle, 9, 2.0), focal_repulsion(backward, triangle, 9, 2.0))


def test_pair_weights_sum_to_one_and_survive_degenerate_labels() -> None:
    for labels in (LABELS, torch.zeros(5, dtype=torch.long), torch.arange(5), torch.tensor([7])):
        for pairs in ("triangle", "all"):
            weights = pair_weights(labels, pairs)
            assert float(weights.positive.sum()) == pytest.approx(1)
            assert float(weights.negative.sum()) == pytest.approx(float(len(labels.unique()) > 1))


def test_distances_without_the_difference_tensor() -> None:
    a, b = torch.randn(2, 6, 9, dtype=torch.float64)
    torch.testing.assert_close(squared_distances(a, b), torch.cdist(a, b).square())


def test_gradients_numerically() -> None:
    config = IsoFICRegConfig(margin=5.0)
    x = views(5, torch.float64).requires_grad_()

    def loss(x: torch.Tensor) -> torch.Tensor:
        z = standardise(x, config.eps)
        distance = squared_distances(z[0], z[2])
        weights = pair_weights(LABELS)
        weights.positive, weights.negative = weights.positive.double(), weights.negative.double()
        first = focal_invariance(distance, weights, 2.0) + focal_repulsion(distance / 5, weights, 5.0, 2.0)
        return first + focal_covariance(z, 2.0).sum()

    assert torch.autograd.gradcheck(loss, x)


@pytest.mark.parametrize("case", ["constant", "zero", "one_emitter", "all_different", "single", "two", "huge"])
@pytest.mark.parametrize("normalise", [False, True])
def test_degenerate_batches_are_finite(case: str, normalise: bool) -> None:
    x, labels = views(), LABELS
    if case in ("constant", "zero"):
        x = torch.full_like(x, float(case == "constant"))
    elif case == "one_emitter":
        labels = torch.zeros_like(labels)
    elif case == "all_different":
        labels = torch.arange(len(labels))
    elif case in ("single", "two"):
        count = 1 if case == "single" else 2
        x, labels = x[:, :count], labels[:count]
    else:
        x = 1e6 * x
    x = x.clone().requires_grad_()
    total = torch.stack(list(isoficreg(x, labels, IsoFICRegConfig(normalise_distance=normalise)).values())).sum()
    total.backward()
    assert x.grad is not None
    assert total.isfinite()
    assert x.grad.isfinite().all()


def test_literal_covariance_can_not_stop_a_collapse() -> None:
    """All 1,024 dimensions equal: the literal term gains at most 2.4, where the invariance it opposes gives 300."""
    line = torch.randn(4, 32, 1, generator=torch.Generator().manual_seed(0)).expand(-1, -1, 1024)
    literal = IsoFICRegConfig(covariance_gamma=2.0, covariance_scale="pairs")
    labels = torch.arange(32) % 8
    assert float(isoficreg(line, labels, literal)["covariance"]) < 2.5
    assert float(isoficreg(line, labels, IsoFICRegConfig())["covariance"]) > 1000


def test_literal_distance_saturates_the_focal_weight() -> None:
    """1,024 Z-scored dimensions are 2,048 apart, where 1 - exp(-d) is 1 for every pair; divided by 1,024 it is not."""
    z = standardise(torch.randn(2, 32, 1024, generator=torch.Generator().manual_seed(0)), 1e-6)
    distance = squared_distances(z[0], z[1])
    assert float(distance.mean()) == pytest.approx(2048, rel=0.05)
    assert float((-torch.expm1(-distance)).square().std()) == 0
    assert float((-torch.expm1(-distance / 1024)).square().std()) > 1e-3
