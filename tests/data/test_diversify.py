"""Each step does to a known signal what physics says, and the whole is reproducible."""

from __future__ import annotations

import pytest
import torch

from planformer.data.diversify import (
    DiversifyConfig,
    carrier_shift,
    diversify,
    fade,
    gate,
    pulse,
    quantise,
    raster,
    stretch,
)

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


def test_carrier_shift_moves_a_tone() -> None:
    out = carrier_shift(tone(100), torch.tensor([0.25]))
    assert int(torch.fft.fft(out)[0].abs().argmax()) == 100 + N // 4


def test_pulses_repeat_with_their_period_and_share() -> None:
    out = pulse(torch.ones(2, N, dtype=torch.complex64), torch.tensor([64.0, 0.0]), torch.full((2, 8), 0.25))
    on = (out[0] != 0).reshape(-1, 64)
    assert (on[:, :16]).all() and not on[:, 16:].any()
    assert (out[1] == 1).all()


def test_uneven_levels_are_as_many_and_unequally_likely() -> None:
    spacing = torch.rand(3, 32, generator=torch.Generator().manual_seed(2)).pow(3) + 1e-3
    out = quantise(noise(3), torch.tensor([2, 5, 32]), spacing).real
    assert [len(row.unique()) for row in out] == [2, 5, 32]
    for row, count in zip(out, (2, 5, 32), strict=True):
        shares = row.unique(return_counts=True)[1] / N
        wanted = spacing[[2, 5, 32].index(count), :count]
        assert torch.allclose(shares, wanted / wanted.sum(), atol=2e-3)
    assert (out.diff(dim=1).sign() * noise(3).real.diff(dim=1).sign() >= 0).all()  # order of the samples is kept


def test_a_raster_resembles_its_own_mirror_line_after_line() -> None:
    size = 32
    out = raster(noise(1), torch.tensor([size]), torch.tensor([0.05]), torch.tensor([-9.0]))[0].real
    path = torch.nn.functional.interpolate(out[None, None], size=2 * size * size, mode="linear", align_corners=True)
    lines = path[0, 0, : size * size].reshape(size, size)
    mirrored = torch.corrcoef(torch.stack((lines[:-1].flip(1).flatten(), lines[1:].flatten())))[0, 1]
    straight = torch.corrcoef(torch.stack((lines[:-1].flatten(), lines[1:].flatten())))[0, 1]
    assert mirrored > 0.8 > 0.5 > straight
    assert raster(noise(1), torch.tensor([0]), torch.ones(1), torch.zeros(1)).equal(noise(1))


def test_plain_sequences_are_untouched_and_noise_has_its_power() -> None:
    x = noise(32)
    everything = DiversifyConfig(plain_prob=1.0)
    assert torch.equal(diversify(x, torch.Generator().manual_seed(0), everything), x)
    noisy = DiversifyConfig.off().model_copy(update={"noise_prob": 1.0})
    silent = tone(640).repeat(64, 1)
    out = torch.fft.fft(diversify(silent, torch.Generator().manual_seed(0), noisy), norm="ortho").abs().square()
    floor = out.sum(1) - out[:, 640]
    ratio_db = 10 * torch.log10(out[:, 640] / floor)
    assert -0.5 < ratio_db.min() < 3 and 37 < ratio_db.max() < 40.5  # 0 to 40 dB, uniform in dB
    assert ratio_db.mean() == pytest.approx(20, abs=5)


def test_the_first_seven_steps_draw_the_same_numbers_whatever_the_later_ones_do() -> None:
    first = diversify(noise(8), torch.Generator().manual_seed(1))
    later = diversify(noise(8), torch.Generator().manual_seed(1), DiversifyConfig(plain_prob=1e-9))
    assert torch.allclose(first, later, atol=1e-5)


def test_a_family_takes_the_same_steps_and_stays_different_inside() -> None:
    x = noise(12)
    config = DiversifyConfig(plain_prob=0.5, gate_prob=0, family=4)
    for seed in range(8):
        found = diversify(x, torch.Generator().manual_seed(seed), config)
        plain = [bool(torch.equal(a, b)) for a, b in zip(found, x, strict=True)]
        for start in (0, 4, 8):
            assert len(set(plain[start : start + 4])) == 1
        assert not torch.allclose(found[0], found[1])
    alone = diversify(x, torch.Generator().manual_seed(0), config.model_copy(update={"family": 1}))
    first = diversify(x, torch.Generator().manual_seed(0), config)
    assert torch.equal(alone[::4], first[::4]), "the first of a family is as it would be alone"


def test_a_bare_sequence_takes_no_step_behind_the_converter() -> None:
    """Its real part keeps the few amplitudes it was given; with later steps they blur."""
    x = noise(24)
    config = DiversifyConfig(quantise_prob=1, tilt_prob=1, fading_prob=1, gate_prob=1, noise_prob=1, bare_prob=1)
    distinct = {}
    for name, used in (("bare", config), ("blurred", config.model_copy(update={"bare_prob": 0.0}))):
        found = diversify(x, torch.Generator().manual_seed(0), used)
        distinct[name] = [len(torch.unique((row.real * 2000).round())) for row in found]
    assert max(distinct["bare"]) <= 3 * 32  # at most 32 amplitudes, each within rounding
    assert min(distinct["blurred"]) > 200
    alike = DiversifyConfig(bare_prob=1, quantise_prob=0, raster_prob=0)
    first = diversify(x, torch.Generator().manual_seed(0), alike)
    assert torch.equal(first, diversify(x, torch.Generator().manual_seed(0), DiversifyConfig(quantise_prob=0)))
