"""Each step does to a known signal what physics says, and the whole is reproducible."""

from __future__ import annotations

import pytest
import torch

from planformer.data.diversify import DiversifyConfig, diversify, fade, gate, quantise, stretch

N = 5120


def tone(cycles: int) -> torch.Tensor:
    return torch.exp(2j * torch.pi * cycles * torch.arange(N) / N).to(torch.complex64)[None]


def noise(batch: int = 16) -> torch.Tensor:
    return torch.randn(batch, N, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))


def test_stretch_divides_the_frequency_and_keeps_the_level() -> None:
    out = stretch(tone(1280), torch.tensor([4.0]))
    assert int(torch.fft.fft(out)[0].abs().argmax()) == 320
    assert out.abs().square().mean() == pytest.approx(1.0, abs=1e-3)


def test_stretch_by_one_changes_nothing() -> None:
    x = noise(2)
    assert torch.equal(stretch(x, torch.ones(2)), x)


def test_quantise_uses_the_stated_number_of_amplitudes() -> None:
    out = quantise(noise(3), torch.tensor([2, 5, 32]))
    assert [len(row.real.unique()) for row in out] == [2, 5, 32]


def test_one_sided_has_no_negative_frequencies() -> None:
    config = DiversifyConfig.off().model_copy(update={"one_sided_prob": 1.0})
    spectrum = torch.fft.fft(diversify(noise(), torch.Generator().manual_seed(0), config)).abs().square()
    assert spectrum[:, N // 2 + 1 :].sum() / spectrum.sum() < 1e-6


def test_tilt_moves_power_to_low_frequencies() -> None:
    config = DiversifyConfig.off().model_copy(update={"tilt_prob": 1.0})
    power = torch.fft.fft(diversify(noise(), torch.Generator().manual_seed(0), config)).abs().square()
    frequency = torch.fft.fftfreq(N).abs()
    low, high = power[:, frequency < 0.05].mean(), power[:, frequency > 0.4].mean()
    assert low > 3 * high


def test_gate_leaves_silence_behind_the_burst() -> None:
    out = gate(noise(1), torch.tensor([0.25]))
    assert (out[0, N // 4 :] == 0).all()
    assert (out[0, : N // 4] != 0).all()


def test_fade_with_zero_control_is_the_identity() -> None:
    x = noise(2)
    assert torch.allclose(fade(x, torch.zeros(2, 10)), x)


def test_unit_power_finite_and_reproducible() -> None:
    x = noise(64)
    first, second = (diversify(x, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.isfinite(torch.view_as_real(first)).all()
    ungated = diversify(x, torch.Generator().manual_seed(3), DiversifyConfig(gate_prob=0))
    assert ungated.abs().square().mean(-1) == pytest.approx(torch.ones(64).numpy(), abs=1e-4)
    assert torch.equal(first, ungated * (first != 0))


def test_off_only_normalises() -> None:
    x = noise(4)
    out = diversify(3 * x, torch.Generator().manual_seed(0), DiversifyConfig.off())
    assert torch.allclose(out, x / x.abs().square().mean(-1, keepdim=True).sqrt(), atol=1e-5)
