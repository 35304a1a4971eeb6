"""Dynamic FiLM: identity path, what depends on what, where gamma acts."""

from __future__ import annotations

import pytest
import torch

from planformer.nn.film import DynamicFiLM


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def film(**options: int) -> DynamicFiLM:
    return DynamicFiLM(channels=8, length=16, latent_dim=12, **options)


def test_zero_parameters_are_exactly_the_identity() -> None:
    layer = film()
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    x = torch.randn(2, 5, 16, 16)
    out, _ = layer(x, torch.randn(2, 12), aux=True)
    assert torch.equal(out, x)


def test_starts_near_the_identity() -> None:
    x = torch.randn(4, 5, 16, 16)
    out, _ = film()(x, torch.randn(4, 12), aux=False)
    assert (out - x).square().mean() < 0.1 * x.square().mean()


def test_formula() -> None:
    layer = film()
    x, latent = torch.randn(2, 5, 16, 16), torch.randn(2, 12)
    gamma, alpha, beta, _ = layer.parameters_for(x, latent, aux=False)
    assert gamma.shape == x.shape
    expected = alpha * torch.tanh(gamma * x + x) + beta + x
    torch.testing.assert_close(layer(x, latent, aux=False)[0], expected)


def test_alpha_and_beta_are_per_channel_and_equal_for_i_and_q() -> None:
    _, alpha, beta, _ = film().parameters_for(torch.randn(2, 5, 16, 16), torch.randn(2, 12), aux=False)
    for value in (alpha, beta):
        assert value.shape == (2, 5, 1, 16)
        pairs = value.unflatten(-1, (-1, 2))
        assert torch.equal(pairs[..., 0], pairs[..., 1])
        assert pairs[..., 0].std() > 0


def test_depends_on_the_latent_and_on_the_features() -> None:
    layer = film(num_queries=4)
    x, latent = torch.randn(1, 1, 16, 16), torch.randn(1, 12)
    gamma, *_ = layer.parameters_for(x, latent, aux=False)
    other_latent, *_ = layer.parameters_for(x, torch.randn(1, 12), aux=False)
    other_features, *_ = layer.parameters_for(torch.randn_like(x), latent, aux=False)
    assert not torch.allclose(gamma, other_latent)
    assert not torch.allclose(gamma, other_features)


def test_windows_do_not_mix() -> None:
    layer = film()
    x, latent = torch.randn(1, 5, 16, 16), torch.randn(1, 12)
    changed = x.clone()
    changed[:, 2] += 1
    moved = (layer(changed, latent, aux=False)[0] - layer(x, latent, aux=False)[0]).abs().amax((0, 2, 3)) > 1e-6
    assert moved.tolist() == [False, False, True, False, False]


def test_fused_and_plain_focus_agree() -> None:
    layer = film()
    x, latent = torch.randn(2, 5, 16, 16), torch.randn(2, 12)
    torch.testing.assert_close(layer(x, latent, aux=True)[0], layer(x, latent, aux=False)[0], atol=1e-5, rtol=1e-5)


def test_rejects_queries_that_do_not_divide_the_length() -> None:
    with pytest.raises(ValueError, match="5 queries"):
        film(num_queries=5)
