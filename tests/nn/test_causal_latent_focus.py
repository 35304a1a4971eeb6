"""Two-stage focus: causality over windows, the fold identity, positions."""

from __future__ import annotations

import itertools

import pytest
import torch

from planformer.nn.causal_latent_focus import CausalLatentFocus, TokenCompression
from reference.decoder import strided_bins, zero_stuffed_bins


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def focus(domain: str, axis: str) -> CausalLatentFocus:
    layer = CausalLatentFocus(16, length=64, latent_dim=6, domain=domain, axis=axis)  # type: ignore[arg-type]
    for resample in (layer.cross_resample, layer.self_resample):
        torch.nn.init.normal_(resample.restore.weight)  # the residual starts near zero: make it visible
    return layer


def test_folding_equals_picking_bins_of_the_full_spectrum() -> None:
    layer = TokenCompression(6, 4, domain="time", axis="frequency")
    tokens = torch.randn(32, 6)
    slow = strided_bins(tokens, layer.compress.weight, layer.compress.bias, 4)
    torch.testing.assert_close(layer.down(tokens[None])[0], slow, atol=1e-5, rtol=1e-5)


def test_tiling_equals_the_inverse_of_a_zero_stuffed_spectrum() -> None:
    layer = TokenCompression(6, 4, domain="time", axis="frequency")
    tokens = torch.randn(8, 6)
    slow = zero_stuffed_bins(tokens, layer.restore.weight, 4)
    torch.testing.assert_close(layer.up(tokens[None])[0], slow, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("domain", "axis"), list(itertools.product(("time", "frequency"), ("native", "frequency"))))
def test_a_window_moves_itself_and_the_next_only(domain: str, axis: str) -> None:
    layer, x, latent = focus(domain, axis), torch.randn(1, 5, 64, 16), torch.randn(1, 6)
    changed = x.clone()
    changed[:, 2] += torch.randn(64, 16)
    moved = (layer(changed, latent, aux=False)[0] - layer(x, latent, aux=False)[0]).abs().amax((0, 2, 3)) > 1e-6
    assert moved.tolist() == [False, False, True, True, False]


def test_first_window_has_no_cross_window_term() -> None:
    layer, x = focus("time", "native"), torch.randn(2, 5, 64, 16)
    out, _ = layer.cross_window(x, aux=False)
    assert torch.equal(out[:, 0], x[:, 0])
    assert not torch.allclose(out[:, 1], x[:, 1])


def test_a_single_window_works() -> None:
    out, orthogonality = focus("time", "native")(torch.randn(2, 1, 64, 16), torch.randn(2, 6), aux=True)
    assert torch.isfinite(out).all()
    assert orthogonality is not None


def test_latent_guides_every_window() -> None:
    layer, x = focus("frequency", "frequency"), torch.randn(1, 5, 64, 16)
    first, _ = layer(x, torch.randn(1, 6), aux=False)
    second, _ = layer(x, torch.randn(1, 6), aux=False)
    assert ((first - second).abs().amax((0, 2, 3)) > 1e-5).all()


def test_fused_and_plain_agree() -> None:
    layer, x, latent = focus("time", "frequency"), torch.randn(2, 5, 64, 16), torch.randn(2, 6)
    torch.testing.assert_close(layer(x, latent, aux=True)[0], layer(x, latent, aux=False)[0], atol=1e-5, rtol=1e-5)
