"""Mixtures have the stated power ratio, and their parts add up."""

import pytest
import torch

from planformer.data.augment import AugmentConfig
from planformer.data.mixtures import mix
from planformer.iq import deinterleave

N = 5120
STILL = AugmentConfig(max_frequency_shift=0, phase_rotation=False, flip_prob=0, max_time_shift=0)


def sources(batch: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(7)
    a = torch.randn(batch, N, generator=g, dtype=torch.complex64)
    return a, 4 * torch.randn(batch, N, generator=g, dtype=torch.complex64)


def power(x: torch.Tensor) -> torch.Tensor:
    return deinterleave(x).abs().square().mean(-1)


@pytest.mark.parametrize("sinr", [0.0, 10.0, 20.0])
def test_measured_ratio_is_the_target(sinr):
    a, b = sources()
    out = mix(a, b, torch.Generator().manual_seed(0), sinr_range=(sinr, sinr))
    rest = out.mixture - out.scale_a[:, None] * out.source_a
    measured = 10 * torch.log10(power(out.scale_a[:, None] * out.source_a) / power(rest))
    assert (measured - sinr).abs().max() < 0.2


def test_a_is_dominant_and_parts_add_up():
    a, b = sources()
    out = mix(a, b, torch.Generator().manual_seed(0), sinr_range=(0, 20), noise_share=0.0)
    assert (out.scale_a >= out.scale_b).all()
    rebuilt = out.scale_a[:, None] * out.source_a + out.scale_b[:, None] * out.source_b
    assert torch.allclose(rebuilt, out.mixture, atol=1e-5)
    for x in (out.mixture, out.source_a, out.source_b):
        assert torch.allclose(power(x), torch.ones(16), atol=1e-3)


def test_sources_without_transformation_are_the_input():
    a, b = sources(2)
    out = mix(a, b, torch.Generator().manual_seed(0), config=STILL)
    expected = b / b.abs().square().mean(-1, keepdim=True).sqrt()
    assert torch.allclose(deinterleave(out.source_b), expected, atol=1e-4)


def test_reproducible_and_range_checked():
    a, b = sources(2)
    first = mix(a, b, torch.Generator().manual_seed(1))
    assert torch.equal(first.mixture, mix(a, b, torch.Generator().manual_seed(1)).mixture)
    with pytest.raises(ValueError, match="dominant"):
        mix(a, b, torch.Generator(), sinr_range=(-5, 20))
