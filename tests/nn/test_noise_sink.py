import pytest
import torch
from torch.autograd import gradcheck

import reference.noise_sink as plain
from planformer.nn.noise_sink import NoiseSink
from planformer.nn.sink_kernels import attention_power, compensate


@pytest.fixture
def sink():
    torch.manual_seed(0)
    return NoiseSink(8)


def features(length=24):
    return torch.randn(3, length, 8)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("return_aux", [True, False])
def test_equals_the_plain_sink(sink, grad, return_aux):
    x = features()
    with torch.set_grad_enabled(grad):
        output = sink(x, return_aux=return_aux)
    expected, power, decorrelation = plain.noise_sink(sink, x.transpose(1, 2))
    torch.testing.assert_close(output.features, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(output.noise_power, power, atol=1e-6, rtol=1e-5)
    if return_aux:
        torch.testing.assert_close(output.decorrelation, decorrelation, atol=1e-5, rtol=1e-4)
    else:
        assert output.decorrelation is None


def test_gradients_equal_those_of_the_plain_sink(sink):
    x = features().requires_grad_()
    target = torch.randn(3, 24, 8)
    leaves = [x, *sink.parameters()]
    output = sink(x)
    total = (output.features * target).sum() + output.noise_power.sum() + output.decorrelation.sum()
    ours = torch.autograd.grad(total, leaves)
    cleaned, power, decorrelation = plain.noise_sink(sink, x.transpose(1, 2))
    total = (cleaned.transpose(1, 2) * target).sum() + power.sum() + decorrelation.sum()
    for mine, other in zip(ours, torch.autograd.grad(total, leaves), strict=True):
        torch.testing.assert_close(mine, other, atol=2e-5, rtol=1e-3)


def test_an_absent_sink_passes_everything_and_finds_nothing(sink):
    x = features()
    output = sink.absent(x)
    assert output.features is x
    assert not output.noise_power.any() and not output.decorrelation.any()
    assert output.noise_power.shape == output.decorrelation.shape == (3,)
    assert sink.absent(x, return_aux=False).decorrelation is None


def test_decorrelation_is_a_correlation(sink):
    for scale in (1e-3, 1.0, 1e3):
        correlation = sink(features() * scale + scale).decorrelation
        assert (correlation >= 0).all() and (correlation <= 1).all()


def test_an_estimate_that_copies_the_signal_correlates_fully():
    x = torch.randn(2, 6, 8)
    ones, zeros = torch.ones(2, 1, 8), torch.zeros(2, 1, 8)
    _, correlation = compensate(x, x / 2, ones, zeros, torch.ones(8))
    torch.testing.assert_close(correlation, torch.ones(2), atol=1e-5, rtol=0)


def test_output_tokens_have_unit_power(sink):
    tokens = sink.tokens(sink(features()).features)
    torch.testing.assert_close(tokens.square().mean(-1), torch.ones(3, 6), atol=1e-3, rtol=0)


@pytest.mark.parametrize("x", [torch.zeros(2, 24, 8), torch.ones(2, 24, 8), torch.full((2, 24, 8), 1e12)])
def test_no_nan_for_silence_constants_and_huge_values(sink, x):
    x = x.clone().requires_grad_()
    output = sink(x)
    (output.features.sum() + output.decorrelation.sum()).backward()
    assert output.features.isfinite().all()
    assert output.decorrelation.isfinite().all()
    assert x.grad.isfinite().all()


def test_kernels_pass_gradcheck():
    def random(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    assert gradcheck(attention_power, (random(2, 3, 4), random(1, 4), random(1)))
    inputs = (random(2, 3, 4), random(2, 3, 4), random(2, 1, 4), random(2, 1, 4), random(4))
    assert gradcheck(compensate, inputs, atol=1e-4)
