"""The decoder as a whole: counts, shapes, gradients, what depends on what, and its start values."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from planformer.config import PlanFormerConfig
from planformer.models.decoder import Decoder, DecoderConfig, SpectrumRefinement
from planformer.models.encoder import Encoder
from planformer.models.inventory import count_parameters

NARROW = (4, 8, 16)
PUBLISHED, PUBLISHED_FIXED = 95_163_122, 10_240


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def encoder_output(batch: int = 2, channels: tuple[int, int, int] = NARROW) -> tuple[object, ...]:
    """Random tensors of the shapes the encoder returns."""
    dim = 2 * channels[-1]

    def skip() -> list[torch.Tensor]:
        return [torch.randn(batch, 5, channels[0], 512), torch.randn(batch, 5, channels[1], 128)]

    tokens = torch.randn(batch, 80, dim), torch.randn(batch, 16, dim)
    latents = torch.randn(batch, dim), torch.randn(batch, dim)
    return (*tokens, *latents, SimpleNamespace(time=skip(), frequency=skip()))


def test_published_size_is_within_two_percent() -> None:
    with torch.device("meta"):
        counts = count_parameters(Decoder(DecoderConfig(size="paper")))
    assert abs(counts["total"] - PUBLISHED) <= 0.02 * PUBLISHED
    assert counts["fixed"] == PUBLISHED_FIXED


def test_compact_size_is_at_most_eight_million() -> None:
    counts = count_parameters(Decoder(DecoderConfig()))
    assert counts["total"] <= 8_000_000
    assert counts["fixed"] == PUBLISHED_FIXED


@pytest.mark.parametrize("size", ["paper", "compact"])
@pytest.mark.parametrize("upsampling", ["native", "frequency"])
def test_shapes_sinks_and_a_gradient_for_every_parameter(size: str, upsampling: str) -> None:
    decoder = Decoder(DecoderConfig(size=size, upsampling=upsampling, channels=NARROW))  # type: ignore[arg-type]
    waveform, aux, sinks = decoder(*encoder_output())
    assert waveform.shape == (2, 10_240)
    assert [(s.domain, s.layer, tuple(s.sink.shape)) for s in sinks] == [
        ("time", 0, (2, 5, 8, 128)),
        ("time", 1, (2, 5, 4, 512)),
        ("frequency", 0, (2, 5, 8, 128)),
        ("frequency", 1, (2, 5, 4, 512)),
    ]
    assert all(value.dim() == 0 and torch.isfinite(value) for value in aux.values())
    (waveform - torch.randn_like(waveform)).square().mean().backward()
    silent = [n for n, p in decoder.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not silent
    assert all(torch.isfinite(p.grad).all() for p in decoder.parameters() if p.grad is not None)


def test_works_on_what_the_encoder_returns_in_one_pass() -> None:
    config = PlanFormerConfig(channels=NARROW, dim=32, num_heads=4)
    encoder, decoder = Encoder(config), Decoder(DecoderConfig.from_encoder(config))
    out = encoder(torch.randn(2, 10_240), return_skips=True)
    assert out.skips is not None
    waveform, _, _ = decoder(out.time_tokens, out.frequency_tokens, out.time_latent, out.frequency_latent, out.skips)
    waveform.square().mean().backward()
    assert all(p.grad is not None for p in encoder.parameters() if p.requires_grad)


def test_sinks_are_in_the_skips_own_layout() -> None:
    decoder, inputs = Decoder(DecoderConfig(channels=NARROW)), encoder_output()
    _, _, sinks = decoder(*inputs)
    skips = inputs[-1]
    for sink in sinks:
        skip = getattr(skips, sink.domain)[1 - sink.layer]
        torch.testing.assert_close(sink.sink + sink.cleaned, skip)


def test_without_aux_the_waveform_is_the_same() -> None:
    decoder, inputs = Decoder(DecoderConfig(channels=NARROW)), encoder_output()
    plain, aux, _ = decoder(*inputs, return_aux=False)
    assert aux == {}
    torch.testing.assert_close(plain, decoder(*inputs)[0], atol=1e-4, rtol=1e-4)


def test_a_batch_is_its_rows() -> None:
    decoder, (*tensors, skips) = Decoder(DecoderConfig(channels=NARROW)), encoder_output(3)
    together, _, _ = decoder(*tensors, skips, return_aux=False)
    row = SimpleNamespace(time=[s[1:2] for s in skips.time], frequency=[s[1:2] for s in skips.frequency])
    alone, _, _ = decoder(*(t[1:2] for t in tensors), row, return_aux=False)
    torch.testing.assert_close(together[1:2], alone, atol=1e-4, rtol=1e-4)


def test_every_input_matters() -> None:
    decoder, inputs = Decoder(DecoderConfig(channels=NARROW)), encoder_output(1)
    leaves = [*inputs[:4], *inputs[4].time, *inputs[4].frequency]  # type: ignore[attr-defined]
    for leaf in leaves:
        leaf.requires_grad_()
    decoder(*inputs)[0].square().mean().backward()
    assert all(leaf.grad is not None and leaf.grad.abs().sum() > 0 for leaf in leaves)


def test_output_has_no_dc_before_the_activation() -> None:
    refinement = SpectrumRefinement(5120, 80, 8)
    out, _ = refinement(torch.randn(2, 10_240) + 3, aux=False)
    assert out.view(2, -1, 2).mean(1).abs().max() < 1e-5


def test_refinement_starts_near_the_identity() -> None:
    x = torch.randn(2, 10_240)
    out, _ = SpectrumRefinement(5120, 80, 8)(x, aux=False)
    assert (out - x).norm() < 0.3 * x.norm()


def test_start_has_about_unit_power() -> None:
    power = Decoder(DecoderConfig())(*encoder_output(2, (16, 32, 64)), return_aux=False)[0].square().mean()
    assert 0.02 < power < 4


def test_geometry_comes_from_the_encoder() -> None:
    config = DecoderConfig.from_encoder(PlanFormerConfig(pooling="frequency"), size="paper")
    assert (config.upsampling, config.size, config.segment) == ("frequency", "paper", 5120)


def test_impossible_geometry_is_refused() -> None:
    with pytest.raises(ValueError, match="upsampled"):
        DecoderConfig(window=1000)
    with pytest.raises(ValueError, match="tokens"):
        DecoderConfig(refinement_tokens=77)
