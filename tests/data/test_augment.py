"""The augmentations obey physics: tones move, nothing wraps, noise has the stated power."""

import math
import time

import pytest
import torch

from planformer.data.augment import (
    AugmentConfig,
    add_noise,
    augment,
    delay_with_noise,
    flip,
    one_sided,
    rotate,
    suppress_aliases,
    transform,
)
from planformer.errors import PlanFormerError
from planformer.iq import deinterleave

N = 5120


def tone(frequency: float, batch: int = 1) -> torch.Tensor:
    n = torch.arange(N, dtype=torch.float64)
    return torch.exp(2j * math.pi * frequency * n).to(torch.complex64).expand(batch, N).clone()


def power(x: torch.Tensor) -> torch.Tensor:
    return x.abs().square().mean(-1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shift", [0.1, -0.15, 0.0])
def test_tone_moves_by_the_shift(shift):
    start = 0.2
    offset = torch.tensor([shift], dtype=torch.float64)
    out = rotate(suppress_aliases(tone(start), offset), offset, torch.zeros(1, dtype=torch.float64))
    peak = torch.fft.fftfreq(N)[torch.fft.fft(out).abs().argmax()]
    assert abs(float(peak) - (start + shift)) < 1 / N
    assert abs(float(power(out)) - 1) < 1e-4


@pytest.mark.parametrize("sign", [1, -1])
def test_nothing_wraps_around(sign):
    shift = torch.tensor([sign * 0.15], dtype=torch.float64)
    # White content everywhere: the band that would wrap must be empty after the shift, all else must be there.
    x = torch.randn(1, N, generator=generator(), dtype=torch.complex64)
    out = rotate(suppress_aliases(x, shift), shift, torch.zeros(1, dtype=torch.float64))
    spectrum = torch.fft.fft(out, norm="ortho")[0].abs().square()
    f = torch.fft.fftfreq(N)
    vacated = (f < -0.5 + 0.15 - 1 / N) if sign > 0 else (f >= 0.5 - 0.15 + 1 / N)
    assert spectrum[vacated].mean() < 1e-3 * spectrum[~vacated].mean()
    assert abs(float(spectrum[~vacated].mean()) - 1) < 0.05


def test_tone_at_the_edge_vanishes_instead_of_wrapping():
    shift = torch.tensor([0.1], dtype=torch.float64)
    out = suppress_aliases(tone(2304 / N), shift)  # 0.45 + 0.1 > 1/2
    assert float(power(out)) < 1e-6


def test_negative_end_is_kept_for_a_positive_shift():
    shift = torch.tensor([0.1], dtype=torch.float64)
    assert abs(float(power(suppress_aliases(tone(-2304 / N), shift))) - 1) < 1e-4


def test_flips_negate_the_named_component():
    x = torch.tensor([[1 + 2j], [1 + 2j], [1 + 2j], [1 + 2j]], dtype=torch.complex64)
    out = flip(x, torch.tensor([False, True, False, True]), torch.tensor([False, False, True, True]))
    assert out[:, 0].tolist() == [1 + 2j, -1 + 2j, 1 - 2j, -1 - 2j]


def test_vertical_flip_inverts_the_spectrum():
    out = flip(tone(0.1), torch.tensor([False]), torch.tensor([True]))
    assert abs(float(torch.fft.fftfreq(N)[torch.fft.fft(out).abs().argmax()]) + 0.1) < 1 / N


@pytest.mark.parametrize("delay", [700, -700, 0])
def test_delay_moves_samples_and_pads_at_70_db(delay):
    x = torch.randn(1, N, generator=generator(), dtype=torch.complex64)
    out = delay_with_noise(x, torch.tensor([delay]), 70.0, generator(1))
    kept = slice(max(delay, 0), N + min(delay, 0))
    source = slice(max(-delay, 0), N - max(delay, 0))
    assert torch.equal(out[0, kept], x[0, source])
    if delay:
        padding = out[0, :delay] if delay > 0 else out[0, delay:]
        assert len(padding) == abs(delay)
        measured = 10 * math.log10(float(power(x)[0] / power(padding)))
        assert abs(measured - 70) < 0.5


@pytest.mark.parametrize("snr", [-10.0, 0.0, 20.0])
def test_measured_snr_is_the_target(snr):
    x = torch.randn(32, N, generator=generator(), dtype=torch.complex64) * 3
    out = add_noise(x, torch.zeros(32, 5), generator(1), snr_range=(snr, snr))
    noisy, target = deinterleave(out.noisy), deinterleave(out.target)
    noise = noisy - out.signal_power.sqrt()[:, None] * target
    measured = 10 * torch.log10(power(noisy - noise) / power(noise))
    assert (measured - snr).abs().max() < 0.2
    # Independent of the reported power: the target's share of the noisy signal, averaged over the batch.
    gain = (noisy * target.conj()).mean(-1).mean().abs()
    assert abs(20 * math.log10(float(gain / out.signal_power.sqrt().mean()))) < 0.2
    assert torch.allclose(10 * torch.log10(out.signal_power / out.noise_power), torch.full((32,), snr), atol=1e-3)
    assert torch.allclose(out.noise_power, power(noise), rtol=0.1)


def test_batch_has_unit_power_and_bounded_code():
    batch = augment(5 * torch.randn(64, N, dtype=torch.complex64), generator(), snr_range=(-10, 100))
    assert torch.allclose(power(deinterleave(batch.noisy)), torch.ones(64), atol=1e-4)
    assert torch.allclose(power(deinterleave(batch.target)), torch.ones(64), atol=1e-4)
    assert batch.code.min() >= 0 and batch.code.max() <= 1
    assert ((batch.code[:, 0] - 0.5).abs() <= 0.33 / 2 + 1e-6).all()
    assert batch.snr_db.min() >= -10 and batch.snr_db.max() <= 100
    assert 0.3 < float(batch.code[:, 2].mean()) < 0.7


def test_code_describes_what_was_done():
    """Undo the transformation by its code; the middle of the sequence comes back."""
    x = torch.fft.ifft(torch.fft.fft(torch.randn(8, N, dtype=torch.complex64)) * (torch.fft.fftfreq(N).abs() < 0.3))
    out, code = transform(x, generator(3))
    delay = torch.round((2 * code[:, 4] - 1) * 0.25 * N).long()
    for row in range(8):
        y = torch.roll(out[row], -int(delay[row]))
        y = flip(y[None], code[row, 2:3] > 0.5, code[row, 3:4] > 0.5)
        y = rotate(y, 0.5 - code[row, :1].double(), -code[row, 1:2].double())[0]
        middle = slice(N // 4, 3 * N // 4)
        assert torch.allclose(y[middle], x[row, middle], atol=2e-3)


def test_same_seed_same_batch_and_input_untouched():
    x = torch.randn(4, N, dtype=torch.complex64)
    before = x.clone()
    first, second = augment(x, generator(5)), augment(x, generator(5))
    assert torch.equal(first.noisy, second.noisy)
    assert not torch.equal(first.noisy, augment(x, generator(6)).noisy)
    assert torch.equal(x, before)


def test_strength_zero_is_the_identity():
    config = AugmentConfig(max_frequency_shift=0, phase_rotation=False, flip_prob=0, max_time_shift=0)
    x = torch.randn(2, N, dtype=torch.complex64)
    out, code = transform(x, generator(), config=config)
    assert torch.allclose(out, x, atol=1e-5)
    assert code[0].tolist() == [0.5, 0, 0, 0, 0.5]


def test_silence_stays_finite():
    batch = augment(torch.zeros(2, N, dtype=torch.complex64), generator())
    assert torch.isfinite(batch.noisy).all() and torch.isfinite(batch.noise_power).all()


def test_impossible_strength_is_refused():
    with pytest.raises((ValueError, PlanFormerError)):
        AugmentConfig(max_frequency_shift=1.5)


def test_a_thousand_sequences_a_second():
    x = torch.randn(64, N, dtype=torch.complex64)
    augment(x, generator())
    best = min(_seconds(x) for _ in range(5))
    # The target is 1,000/s on one idle core; the test allows for a busy machine.
    assert 64 / best > 400


def _seconds(x: torch.Tensor) -> float:
    start = time.perf_counter()
    augment(x, generator())
    return time.perf_counter() - start


def test_what_is_one_sided_stays_so_where_it_is_asked_for():
    """A real signal has no negative frequencies once it is analytic, and neither has its noise."""
    x = torch.cat((tone(0.2, 8), torch.randn(8, N, dtype=torch.complex64, generator=generator(3))))
    assert one_sided(x).tolist() == [True] * 8 + [False] * 8
    config = AugmentConfig(keep_one_sided=True, max_time_shift=0.0)
    batch = augment(x, generator(), snr_range=(0.0, 0.0), config=config)
    noisy, target = deinterleave(batch.noisy), deinterleave(batch.target)
    assert one_sided(noisy).tolist() == [True] * 8 + [False] * 8
    peak = torch.fft.fft(target[:8]).abs().argmax(-1)
    assert (peak == round(0.2 * N)).all()  # not shifted, not mirrored
    assert (batch.code[:8, 0] == 0.5).all() and not batch.code[:8, 2:4].any()
    assert batch.code[8:, 2:4].any() and (batch.code[8:, 0] != 0.5).all()
    noise = noisy - target * batch.signal_power.sqrt()[:, None]
    torch.testing.assert_close(power(noise), batch.noise_power, rtol=0.1, atol=0)


def test_rows_that_are_not_one_sided_are_as_without_the_option():
    x = torch.randn(4, N, dtype=torch.complex64, generator=generator(3))
    plain, kept = (augment(x, generator(), config=AugmentConfig(keep_one_sided=k)) for k in (False, True))
    assert torch.equal(plain.noisy, kept.noisy) and torch.equal(plain.code, kept.code)
