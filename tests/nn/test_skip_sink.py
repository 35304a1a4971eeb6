"""Skip sinks and the fusion after them: subtraction, guidance, locality, filters, parameter counts."""

from __future__ import annotations

import pytest
import torch

from planformer.iq import token_fft
from planformer.nn.hypernetwork import Hypernetwork, modulate
from planformer.nn.power_compensation import PowerCompensation
from planformer.nn.skip_fusion import SegmentRMSNorm, SkipFusion
from planformer.nn.skip_sink import SkipSink


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def sink(domain: str, **options: int) -> SkipSink:
    return SkipSink(channels=16, length=256, latent_dim=12, domain=domain, **{"rank": 8, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_cleaned_is_the_skip_minus_the_sink(domain: str) -> None:
    x = torch.randn(2, 5, 256, 32)
    taken, left, out, aux = sink(domain, group=4)(x, torch.randn(2, 12), aux=True)
    torch.testing.assert_close(left, x - taken)
    assert out.shape == x.shape
    assert {name.split("/")[0] for name in aux} == {"orthogonality", "parseval_jsd", "focus_diversity", "focus_norm"}


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_zero_hypernetwork_sinks_nothing(domain: str) -> None:
    layer = sink(domain, group=4)
    for head in layer.hypernetwork.heads:
        torch.nn.init.zeros_(head.weight)
    x = torch.randn(1, 5, 256, 32)
    taken, left, _, _ = layer(x, torch.randn(1, 12), aux=False)
    assert taken.abs().max() < 1e-6
    torch.testing.assert_close(left, x)


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_the_latent_steers_the_filter(domain: str) -> None:
    layer, x = sink(domain, group=4), torch.randn(1, 5, 256, 32)
    first, *_ = layer(x, torch.randn(1, 12), aux=False)
    second, *_ = layer(x, torch.randn(1, 12), aux=False)
    assert (first - second).norm() > 1e-3 * first.norm()


def test_time_sinks_work_on_windows_of_2048_numbers() -> None:
    layer = sink("time")
    assert layer.tokens_per_window == 64
    x, latent = torch.randn(1, 5, 256, 32), torch.randn(1, 12)
    changed = x.clone()
    changed[0, 1, 64:128] += torch.randn(64, 32)  # the second of a window's four parts
    moved = (layer(changed, latent, aux=False)[0] - layer(x, latent, aux=False)[0]).abs()[0, 1].view(4, -1).amax(1)
    assert (moved > 1e-6).tolist() == [False, True, False, False]


def test_modulation_of_a_time_skip_is_a_filter_of_its_spectrum() -> None:
    layer = sink("time", group=4)
    keep = torch.zeros(64, 32)
    keep[:16] = 1.0  # alpha passes the first 16 bins only
    for head, bias in zip(
        layer.hypernetwork.heads, (torch.zeros(2048), keep.flatten(), torch.zeros(2048)), strict=True
    ):
        torch.nn.init.zeros_(head.weight)
        head.bias.data.copy_(bias)
    x = torch.randn(1, 1, 256, 32)
    taken, *_ = layer(x, torch.randn(1, 12), aux=False)
    spectrum = token_fft(taken.unflatten(2, (4, 64)))
    assert spectrum[..., 16:, :].abs().max() < 1e-5
    expected = torch.tanh(token_fft(x.unflatten(2, (4, 64)))[..., :16, :])
    torch.testing.assert_close(spectrum[..., :16, :], expected, atol=1e-5, rtol=1e-5)


def test_published_hypernetwork_shapes() -> None:
    """Full matrices: 2,048 x 2,048 in time; a quarter of the elements to all of them in frequency; three each."""
    time = SkipSink(16, length=256, latent_dim=128, domain="time")
    frequency = SkipSink(16, length=256, latent_dim=128, domain="frequency", group=4)
    assert [h.weight.shape for h in time.hypernetwork.heads] == [(2048, 2048)] * 3
    assert [h.weight.shape for h in frequency.hypernetwork.heads] == [(8192, 2048)] * 3


def test_low_rank_is_a_product_through_one_bottleneck() -> None:
    layer = Hypernetwork(10, 6, rank=3)
    assert sum(p.numel() for p in layer.parameters()) == 10 * 3 + 3 * (3 * 6 + 6)
    rows = torch.stack([layer(row)[0] - layer(torch.zeros(10))[0] for row in torch.eye(10)])
    assert torch.linalg.matrix_rank(rows) <= 3


def test_modulate_formula() -> None:
    x, gamma, alpha, beta = torch.randn(4, 7)
    torch.testing.assert_close(modulate(x, gamma, alpha, beta), alpha * torch.tanh(gamma * x + x) + beta)


def test_compensation_sees_the_share_that_was_removed() -> None:
    layer = PowerCompensation(4)
    last = layer.affine[-1]
    torch.nn.init.normal_(last.weight)
    x = torch.randn(1, 1, 16, 8)
    little = layer(x, 0.1 * x, x)
    much = layer(x, 0.9 * x, x)
    assert not torch.allclose(little, much)
    beyond, at_limit = layer(x, 10 * x, x), layer(x, 2**0.5 * x, x)
    torch.testing.assert_close(beyond, at_limit, atol=1e-4, rtol=1e-4)  # the ratio is clamped to 2


def test_segment_norm_keeps_relative_levels() -> None:
    x = torch.randn(2, 5, 16, 8)
    x[:, 1] *= 10
    out = SegmentRMSNorm(8)(x)
    torch.testing.assert_close(out.square().mean((1, 2, 3)), torch.ones(2), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(out[0, 1].norm() / out[0, 2].norm(), x[0, 1].norm() / x[0, 2].norm())


def test_fusion_passes_both_inputs_at_the_start() -> None:
    layer = SkipFusion(32)
    x, skip = torch.randn(2, 2, 5, 64, 32).unbind(0)
    out = layer(x, skip)
    for source in (x, skip):
        assert torch.corrcoef(torch.stack([out.flatten(), source.flatten()]))[0, 1] > 0.3
    assert 0.3 < out.square().mean() < 3
