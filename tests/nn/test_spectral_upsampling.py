"""Transposed convolution over tokens, in both domains."""

from __future__ import annotations

import pytest
import torch

from planformer.iq import token_fft
from planformer.nn.spectral_upsampling import SpectralUpsampling
from reference.decoder import transposed_convolution


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_equals_a_transposed_convolution_written_as_loops() -> None:
    layer = SpectralUpsampling(4, 6, 3)
    torch.nn.init.normal_(layer.expand.bias)
    tokens = torch.randn(5, 4)
    slow = transposed_convolution(tokens, layer.expand.weight, layer.expand.bias, 3)
    torch.testing.assert_close(layer(tokens[None], domain="frequency")[0], slow, atol=1e-5, rtol=1e-5)


def test_equals_torch_conv_transpose() -> None:
    layer = SpectralUpsampling(4, 4, 4)
    tokens = torch.randn(2, 16, 4)
    # (r D_out, D_in) -> torch's (D_in, D_out, r)
    weight = layer.expand.weight.view(4, 4, 4).permute(2, 1, 0)
    expected = torch.nn.functional.conv_transpose1d(tokens.transpose(1, 2), weight, stride=4).transpose(1, 2)
    torch.testing.assert_close(layer(tokens, domain="frequency"), expected)


def test_time_branch_upsamples_the_spectrum_and_returns() -> None:
    layer = SpectralUpsampling(4, 4, 4, axis="frequency")
    tokens = torch.randn(2, 16, 4)
    in_spectrum = layer(token_fft(tokens), domain="frequency")
    kept = layer(tokens, domain="time", keep_spectrum=True)
    torch.testing.assert_close(kept, in_spectrum)
    torch.testing.assert_close(token_fft(layer(tokens, domain="time")), in_spectrum, atol=1e-5, rtol=1e-5)


def test_native_axis_is_local_in_time() -> None:
    layer = SpectralUpsampling(4, 4, 4, axis="native")
    tokens = torch.randn(1, 16, 4)
    changed = tokens.clone()
    changed[0, 5] += 1
    moved = (layer(changed, domain="time") - layer(tokens, domain="time")).abs().sum(-1)[0] > 1e-6
    assert moved.nonzero().flatten().tolist() == [20, 21, 22, 23]


def test_keep_spectrum_gives_the_transform_of_the_output_on_either_axis() -> None:
    for axis in ("native", "frequency"):
        layer = SpectralUpsampling(4, 4, 4, axis=axis)
        tokens = torch.randn(1, 16, 4)
        spectrum = layer(tokens, domain="time", keep_spectrum=True)
        torch.testing.assert_close(token_fft(layer(tokens, domain="time")), spectrum, atol=1e-5, rtol=1e-5)


def test_power_at_the_start_is_of_the_order_of_the_input() -> None:
    layer = SpectralUpsampling(64, 64, 4)
    out = layer(torch.randn(8, 16, 64), domain="time")
    assert 0.5 < out.square().mean().item() < 2.5
