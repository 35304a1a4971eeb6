import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

import reference.encoder as plain
from planformer.nn.channel_attention import ChannelTemporalAttention
from planformer.nn.channels_last import conv
from planformer.nn.fusion import latent_fusion, token_fusion
from planformer.nn.glu import GLU, PairedGLU
from planformer.nn.paired import PairedLinear, RMSNorm, rms_norm
from planformer.nn.positions import sinusoidal_positions
from planformer.nn.sequence_pooling import AttentionalPooling, RunningPool


@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
def test_channels_last_convolution(kernel):
    x, weight, bias = torch.randn(2, 3, 20), torch.randn(4, 3, kernel), torch.randn(4)
    expected = F.conv1d(x, weight, bias, padding="same")
    torch.testing.assert_close(conv(x.transpose(1, 2), weight, bias).transpose(1, 2), expected, atol=1e-5, rtol=1e-5)


def test_channel_attention_equals_the_plain_one_and_only_attenuates():
    attention = ChannelTemporalAttention(8)
    x = torch.randn(2, 12, 8)
    output = attention(x)
    expected = plain.channel_attention(attention, x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(output, expected, atol=1e-6, rtol=1e-5)
    assert (output.abs() <= x.abs()).all()


@pytest.mark.parametrize("shapes", [((3, 5, 6), (6,)), ((2, 5, 6), (2, 1, 6))])
def test_rms_norm(shapes):
    x, weight = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes)
    expected = x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    torch.testing.assert_close(rms_norm(x, weight), expected)
    torch.testing.assert_close(rms_norm(x.detach(), weight.detach()), expected.detach())
    assert gradcheck(rms_norm, (x, weight))


def test_rms_norm_of_silence_is_silence():
    x = torch.zeros(2, 4, requires_grad=True)
    output = RMSNorm(4)(x)
    output.sum().backward()
    assert torch.equal(output, torch.zeros(2, 4))
    assert x.grad.isfinite().all()


def test_paired_layers_are_independent_layers():
    layer, x = PairedLinear(4, 3), torch.randn(2, 5, 4)
    output = layer(x)
    for i in range(2):
        torch.testing.assert_close(output[i], x[i] @ layer.weight[i] + layer.bias[i])
    paired, single = PairedGLU(4, 3), GLU(4, 3)
    with torch.no_grad():
        single.projection.weight.copy_(paired.projection.weight[1].T)
        single.projection.bias.copy_(paired.projection.bias[1, 0])
    torch.testing.assert_close(paired(x)[1], single(x[1]))


def test_fusion_equals_the_plain_one():
    fusion = token_fusion(6, 10, 4)
    tokens = torch.randn(2, 10, 6), torch.randn(2, 4, 6)
    for ours, theirs in zip(fusion(*tokens), plain.fuse(fusion, *tokens), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    fusion, latents = latent_fusion(6), (torch.randn(2, 6), torch.randn(2, 6))
    for ours, theirs in zip(fusion(*latents), plain.fuse(fusion, *latents), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_attentional_pooling_equals_the_plain_one():
    pooling, tokens = AttentionalPooling(6), torch.randn(2, 9, 6)
    torch.testing.assert_close(pooling(tokens), plain.attentional_pooling(pooling, tokens))


def test_running_pool_in_any_order_equals_all_at_once():
    pooling, tokens = AttentionalPooling(6), torch.randn(2, 12, 6)
    torch.nn.init.normal_(pooling.logit.weight, std=30)  # logits far apart: a plain sum of exponentials overflows
    first, second, third = (RunningPool.start(pooling, piece) for piece in tokens.split((5, 1, 6), 1))
    expected = pooling(tokens)
    torch.testing.assert_close(first.merge(second).merge(third).finish(), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(third.merge(first).merge(second).finish(), expected, atol=1e-5, rtol=1e-5)


def test_position_table():
    table = sinusoidal_positions(50, 8)
    torch.testing.assert_close(table.square().sum(-1), torch.full((50,), 4.0))
    assert torch.cdist(table, table).add(torch.eye(50)).min() > 1e-3  # all positions differ
