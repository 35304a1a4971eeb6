import pytest
import torch

from planformer import iq


def test_interleaving_round_trip_and_order():
    z = torch.randn(2, 3, 8, dtype=torch.complex64)
    x = iq.interleave(z)
    assert torch.equal(x[..., 0::2], z.real)
    assert torch.equal(x[..., 1::2], z.imag)
    assert torch.equal(iq.deinterleave(x), z)


def test_an_odd_length_is_refused():
    with pytest.raises(ValueError, match="even"):
        iq.deinterleave(torch.zeros(3))


def test_transforms_conserve_energy_and_invert():
    x = torch.randn(3, 4, 64)
    spectrum = iq.fft(x)
    torch.testing.assert_close(spectrum.square().sum(-1), x.square().sum(-1))
    torch.testing.assert_close(iq.ifft(spectrum), x)


def test_a_tone_is_one_bin():
    n = torch.arange(32)
    tone = torch.polar(torch.ones(32), 2 * torch.pi * 5 * n / 32)
    power = iq.deinterleave(iq.fft(iq.interleave(tone))).abs().square()
    torch.testing.assert_close(power, torch.nn.functional.one_hot(torch.tensor(5), 32) * 32.0, atol=1e-4, rtol=0)


def test_token_layout_keeps_pairs_together():
    x = torch.arange(2 * 8.0).view(1, 2, 8)  # two channels of four complex samples
    tokens = iq.channels_to_tokens(x)
    assert tokens.shape == (1, 4, 4)
    assert tokens[0, 1].tolist() == [2, 3, 10, 11]
    assert torch.equal(iq.tokens_to_channels(tokens), x)


@pytest.mark.parametrize("inverse", [False, True])
def test_token_transform_is_the_channel_transform(inverse):
    x = torch.randn(2, 3, 20)
    by_channel = iq.ifft(x) if inverse else iq.fft(x)
    by_token = iq.tokens_to_channels(iq.token_fft(iq.channels_to_tokens(x), inverse=inverse))
    torch.testing.assert_close(by_token, by_channel)
