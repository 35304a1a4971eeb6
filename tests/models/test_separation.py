import math

import pytest
import torch

from planformer.models.separation import LatentSeparationTransformer, log_cosh, orthogonal_linear


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_parameter_count(domain: str) -> None:
    assert sum(p.numel() for p in LatentSeparationTransformer(domain=domain).parameters()) == 8_603_907


def test_rotations_stay_orthogonal_under_training() -> None:
    torch.manual_seed(0)
    layer = orthogonal_linear(64)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    start = layer.weight.detach().clone()
    x, y = torch.randn(32, 64), torch.randn(32, 64)
    for _ in range(20):
        optimizer.zero_grad()
        (layer(x) - y).square().mean().backward()
        optimizer.step()
    weight = layer.weight.detach()
    assert not torch.allclose(weight, start, atol=0.05)
    torch.testing.assert_close(weight @ weight.T, torch.eye(64), atol=1e-5, rtol=0)


def test_start_is_far_from_the_identity() -> None:
    torch.manual_seed(0)
    angles = torch.linalg.eigvals(orthogonal_linear(64).weight.detach()).angle().abs()
    assert angles.max() > math.pi / 2
    assert sum(p.numel() for p in orthogonal_linear(64).parameters()) == 64 * 64


def test_log_cosh_is_accurate_at_all_scales() -> None:
    x = torch.logspace(-6, 4, 101)
    x = torch.cat((-x, torch.zeros(1), x))
    exact = x.double().abs()
    exact = torch.where(
        exact < 1e-3, exact**2 / 2 - exact**4 / 12, exact + torch.log1p(torch.exp(-2 * exact)) - math.log(2)
    )
    torch.testing.assert_close(log_cosh(x).double(), exact, rtol=2e-6, atol=0)


def test_log_cosh_gradient() -> None:
    x = torch.linspace(-5, 5, 21, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_cosh, x)
    big = torch.tensor([-1e30, 0.0, 1e30], requires_grad=True)
    log_cosh(big).sum().backward()
    assert big.grad is not None
    assert big.grad.tolist() == [-1, 0, 1]


def test_refined_tokens_are_unit_and_unmixing_starts_orthogonal() -> None:
    torch.manual_seed(0)
    network = LatentSeparationTransformer(16, domain="time", num_heads=4).eval()
    weight = network.unmixing.weight.detach()  # [32, 64], orthonormal rows
    torch.testing.assert_close(weight @ weight.T, torch.eye(32), atol=1e-5, rtol=0)
    a, b, _ = network(torch.randn(2, 10, 16))
    assert (torch.cat((a, b), -1).norm(dim=-1) <= 1 + 1e-5).all()


def test_sources_differ_and_every_parameter_gets_gradient() -> None:
    torch.manual_seed(0)
    network = LatentSeparationTransformer(16, domain="frequency", num_heads=4)
    a, b, aux = network(torch.randn(3, 10, 16))
    assert not torch.allclose(a, b)
    (a.square().sum() + 2 * b.square().sum() + sum(aux.values())).backward()
    assert not [n for n, p in network.named_parameters() if p.grad is None or not p.grad.isfinite().all()]


def test_equal_tokens_are_finite() -> None:
    """Centring over tokens gives exact zeros, whose norm and logarithm must not break."""
    network = LatentSeparationTransformer(16, domain="time", num_heads=4, dropout_prob=0.0)
    tokens = torch.ones(2, 6, 16, requires_grad=True)
    a, b, _ = network(tokens)
    (a.sum() + b.sum()).backward()
    assert a.isfinite().all()
    assert tokens.grad is not None
    assert tokens.grad.isfinite().all()
