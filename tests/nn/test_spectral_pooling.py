import pytest
import torch

import reference.spectral_pooling as plain
from planformer import iq
from planformer.nn.spectral_pooling import SpectralPooling, native_pool


def test_folding_equals_averaging_the_spectrum():
    x = torch.randn(2, 3, 128)
    expected = plain.pool(x, 4, "time", "frequency")
    output = SpectralPooling(64, 4)(x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)


def test_native_pooling_averages_complex_neighbours():
    x = torch.randn(2, 3, 64)
    output = native_pool(x.transpose(1, 2), 4).transpose(1, 2)
    torch.testing.assert_close(output, plain.average(x, 4), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("bin_index", [33, 40, 62])
def test_a_tone_in_the_top_band_survives_spectral_pooling_and_dies_in_time(bin_index):
    tone = plain.tone(bin_index, 64)
    spectral = SpectralPooling(64, 4)(tone.transpose(1, 2)).transpose(1, 2)
    spectrum = iq.deinterleave(iq.fft(spectral)).abs()[0, 0]
    assert int(spectrum.argmax()) == bin_index // 4  # the envelope, on a coarser axis
    torch.testing.assert_close(spectrum.max(), torch.tensor(64**0.5 / 4), atol=1e-4, rtol=0)
    middle = plain.tone(32, 64)  # the highest frequency there is: averaged in time, nothing is left
    assert plain.decimate_in_time(middle, 4).abs().max() < 1e-5
    alive = SpectralPooling(64, 4)(middle.transpose(1, 2))
    assert alive.square().mean() > 0.01


def test_the_window_weights_time_towards_its_ends():
    weights = SpectralPooling(64, 4)
    magnitude = torch.hypot(weights.real, weights.imaginary).flatten()
    assert magnitude.argmax() == 0
    assert magnitude[[16, 32, 48]].max() < 1e-6
