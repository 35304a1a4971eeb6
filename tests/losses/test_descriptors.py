"""Descriptors land where physics puts them; the loss is 1 for the mean, near 0 when the embedding holds them."""

from __future__ import annotations

import pytest
import torch

from planformer.losses.descriptors import DescriptorLoss, Descriptors, descriptor_sizes

N = 5120


def tone(cycles_per_sample: float) -> torch.Tensor:
    return torch.exp(2j * torch.pi * cycles_per_sample * torch.arange(N)).to(torch.complex64)[None]


def noise(batch: int) -> torch.Tensor:
    return torch.randn(batch, N, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("frequency", [-0.3, -0.1, 0.05, 0.4])
def test_a_tone_peaks_in_its_band(frequency: float) -> None:
    groups = Descriptors()(tone(frequency))
    assert abs(int(groups["spectrum"].argmax()) - (frequency + 0.5) * 128) <= 1
    assert abs(int(groups["phase_steps"].argmax()) - (frequency + 0.5) * 32) <= 1


def test_a_burst_shows_in_the_envelope() -> None:
    x = noise(1)
    x[:, N // 2 :] = 0
    envelope = Descriptors()(x)["envelope"][0]
    assert envelope[:40].min() > envelope[40:].max() + 5


def test_envelope_modulation_shows_its_rate() -> None:
    n = torch.arange(N)
    x = noise(1) * (1 + 0.9 * torch.cos(2 * torch.pi * 100 * n / N))
    modulation = Descriptors()(x)["modulation"][0]
    assert int(modulation.argmax()) == 99 // 10


def test_histograms_are_distributions() -> None:
    groups = Descriptors()(noise(3))
    assert groups["phase_steps"].square().sum(1) == pytest.approx(torch.ones(3).numpy(), abs=1e-5)
    assert groups["amplitudes"].square().sum(1) == pytest.approx(3 * torch.ones(3).numpy(), abs=1e-5)


def test_global_phase_leaves_all_but_the_waveform_dependent_groups() -> None:
    x = noise(2)
    first, second = Descriptors()(x), Descriptors()(x * torch.exp(torch.tensor(1j * 0.7)))
    for name in (
        "spectrum",
        "spectrum_deviation",
        "log_spectrum",
        "spectrogram",
        "envelope",
        "modulation",
        "phase_steps",
    ):
        assert torch.allclose(first[name], second[name], atol=1e-3), name
    assert not torch.allclose(first["waveform"], second["waveform"], atol=1e-3)


@pytest.mark.parametrize("x", [torch.zeros(1, N, dtype=torch.complex64), torch.ones(1, N, dtype=torch.complex64)])
def test_silence_and_constants_are_finite(x: torch.Tensor) -> None:
    assert all(torch.isfinite(value).all() for value in Descriptors()(x).values())


def test_loss_is_one_for_the_mean_and_falls_with_information() -> None:
    torch.manual_seed(0)
    x = noise(256) * torch.linspace(0.2, 2, 256)[:, None]
    groups = Descriptors()(x)
    loss = DescriptorLoss(sum(descriptor_sizes().values()), descriptor_sizes(), calibration=1)
    torch.nn.init.zeros_(loss.head.weight)
    torch.nn.init.zeros_(loss.head.bias)
    target = torch.cat(list(groups.values()), 1)
    mean_value, terms = loss(torch.zeros_like(target), groups)
    assert float(mean_value.detach()) == pytest.approx(1.0, abs=0.1)
    assert set(terms) == {f"descriptors/{name}" for name in descriptor_sizes()}
    standardised = (target - target.mean(0)) / target.std(0).clamp_min(1e-3)
    torch.nn.init.eye_(loss.head.weight)
    informed, _ = loss(standardised, groups)
    assert float(informed.detach()) < 0.1


def test_statistics_are_fixed_after_calibration_and_in_evaluation() -> None:
    loss = DescriptorLoss(4, descriptor_sizes(), calibration=2)
    groups = Descriptors()(noise(8))
    for _ in range(3):
        loss(torch.zeros(8, 4), groups)
    assert int(loss.count) == 2
    before = loss.mean.clone()
    loss.eval()(torch.zeros(8, 4), {k: v + 1 for k, v in groups.items()})
    assert torch.equal(before, loss.mean)


def test_wrong_groups_are_an_error() -> None:
    loss = DescriptorLoss(4, descriptor_sizes())
    with pytest.raises(ValueError, match="descriptor groups"):
        loss(torch.zeros(1, 4), {"spectrum": torch.zeros(1, 128)})
