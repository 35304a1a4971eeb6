"""The complex activation against complex arithmetic, its symmetry, and its causality."""

from __future__ import annotations

import math

import pytest
import torch

from planformer.iq import deinterleave, interleave
from planformer.nn.complex_activation import SlidingFocusActivation, modulate_complex
from reference.decoder import modulate_sample


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def rotate(x: torch.Tensor, angle: float) -> torch.Tensor:
    return interleave(deinterleave(x) * complex(math.cos(angle), math.sin(angle)))


def test_equals_the_formula_sample_by_sample() -> None:
    z = torch.randn(20, dtype=torch.complex64)
    params = [torch.randn(20) for _ in range(4)]
    out = deinterleave(modulate_complex(interleave(z), (params[0], params[1]), (params[2], params[3])))
    for i in range(20):
        gamma, alpha = (params[0][i].item(), params[1][i].item()), (params[2][i].item(), params[3][i].item())
        assert abs(out[i].item() - modulate_sample(complex(z[i].item()), gamma, alpha)) < 1e-5


def test_commutes_with_a_global_rotation_when_phases_are_zero() -> None:
    x, zero = torch.randn(3, 64), torch.zeros(3, 32)
    gamma, alpha = torch.randn(3, 32), torch.randn(3, 32)

    def activate(signal: torch.Tensor) -> torch.Tensor:
        return modulate_complex(signal, (gamma, zero), (alpha, zero))

    for angle in (0.3, 1.7, math.pi):
        torch.testing.assert_close(activate(rotate(x, angle)), rotate(activate(x), angle), atol=1e-5, rtol=1e-5)


def test_phases_rotate() -> None:
    x, zero, one = torch.randn(1, 64), torch.zeros(1, 32), torch.ones(1, 32)
    plain = modulate_complex(x, (zero, zero), (one, zero))
    turned = modulate_complex(x, (zero, 0.2 * one), (one, 0.5 * one))
    torch.testing.assert_close(turned, rotate(plain, 0.7), atol=1e-5, rtol=1e-5)


def test_gradient_is_finite_at_zero() -> None:
    x = torch.zeros(1, 8, requires_grad=True)
    zero, one = torch.zeros(1, 4), torch.ones(1, 4)
    modulate_complex(x, (zero, zero), (one, zero)).sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_gradient_is_right() -> None:
    x = torch.randn(1, 8, dtype=torch.float64, requires_grad=True)
    params = [torch.randn(1, 4, dtype=torch.float64, requires_grad=True) for _ in range(4)]
    assert torch.autograd.gradcheck(lambda s, a, b, c, d: modulate_complex(s, (a, b), (c, d)), [x, *params])


def module(*, local: bool = False) -> SlidingFocusActivation:
    return SlidingFocusActivation(320, 20, latent_dim=6, dim=16, local=local)


@pytest.mark.parametrize("local", [False, True])
def test_starts_near_the_identity_for_small_signals(local: bool) -> None:
    x = 0.3 * torch.randn(2, 640)
    out, _ = module(local=local)(x, torch.randn(2, 6), aux=False)
    assert (out - x).norm() < 0.2 * x.norm()


@pytest.mark.parametrize("local", [False, True])
def test_module_commutes_with_a_rotation_when_its_weights_leave_constant_magnitudes(local: bool) -> None:
    layer = module(local=local)
    for head in layer.hypernetwork.heads:
        torch.nn.init.zeros_(head.weight)  # the biases stay: constant magnitudes, zero phases
    x, latent = torch.randn(2, 640), torch.randn(2, 6)
    turned, _ = layer(rotate(x, 0.9), latent, aux=False)
    torch.testing.assert_close(turned, rotate(layer(x, latent, aux=False)[0], 0.9), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("local", [False, True])
def test_window_depends_on_itself_and_the_one_before(local: bool) -> None:
    layer, x, latent = module(local=local), torch.randn(1, 640), torch.randn(1, 6)
    changed = x.clone()
    changed[:, 7 * 32 : 8 * 32] += 1  # window 7 of 20
    moved = (layer(changed, latent, aux=False)[0] - layer(x, latent, aux=False)[0]).abs().view(20, 32).amax(1) > 1e-7
    assert moved.nonzero().flatten().tolist() == [7, 8]


def test_zero_in_zero_out() -> None:
    out, _ = module()(torch.zeros(1, 640), torch.randn(1, 6), aux=False)
    assert out.abs().max() < 1e-4  # no additive term, so no DC


def test_rejects_a_length_that_does_not_divide() -> None:
    with pytest.raises(ValueError, match="321 samples"):
        SlidingFocusActivation(321, 20, latent_dim=6)
