"""The seven augmentation steps, batched, and their code in [0, 1]^5 (paper, Appendix C, "Augmentations").

In order: frequency shift with an asymmetric anti-aliasing filter, phase rotation, IQ flips, time shift with noise
padding, white noise, unit power, interleaving. Everything random comes from the generator that is passed in, so a
batch is a function of (sequences, seed).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from planformer.iq import interleave

ONE_SIDED = 0.01  # share of the power at negative frequencies below which there are none
CODE_NAMES = ("frequency", "phase", "horizontal_flip", "vertical_flip", "time")


class AugmentConfig(BaseModel):
    """Strength of each transformation; the defaults are the paper's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_frequency_shift: float = Field(default=0.33, ge=0, lt=1, description="fraction of half the sample rate")
    phase_rotation: bool = True
    flip_prob: float = Field(default=0.5, ge=0, le=1, description="of each of the two flips, independently")
    max_time_shift: float = Field(default=0.25, ge=0, lt=1, description="fraction of the sequence")
    padding_snr_db: float = Field(default=70.0, description="of the noise in the samples that a time shift uncovers")
    keep_one_sided: bool = Field(
        default=False,
        description="sequences without negative frequencies, as every real signal has become, stay so: they are "
        "neither shifted in frequency nor flipped, and their noise is one-sided, too",
    )


@dataclass
class AugmentedBatch:
    """Interleaved float32 signals of unit power, the code, and the noise in the scale of ``noisy``."""

    noisy: Tensor  # [B, 2n]
    target: Tensor  # [B, 2n] transformed, without white noise
    code: Tensor  # [B, 5] in [0, 1], see CODE_NAMES
    noise_power: Tensor  # [B]
    signal_power: Tensor  # [B]
    snr_db: Tensor  # [B]


def augment(
    x: Tensor,
    generator: torch.Generator,
    *,
    snr_range: tuple[float, float] = (-10.0, 100.0),
    config: AugmentConfig | None = None,
) -> AugmentedBatch:
    """Transform complex sequences ``[B, n]`` at random.

    >>> batch = augment(torch.randn(4, 5120, dtype=torch.complex64), torch.Generator().manual_seed(0))
    >>> batch.noisy.shape, batch.code.shape
    (torch.Size([4, 10240]), torch.Size([4, 5]))
    """
    config = config or AugmentConfig()
    kept = one_sided(x) if config.keep_one_sided else None
    transformed, code = transform(x, generator, config=config, still=kept)
    return add_noise(transformed, code, generator, snr_range=snr_range, analytic=kept)


def unchanged(x: Tensor) -> AugmentedBatch:
    """Complex sequences ``[B, n]`` as they are, without noise, where nothing reads an augmented branch."""
    rows = interleave(x)
    none, power = torch.zeros(len(x)), _power(x)
    return AugmentedBatch(
        rows, rows, torch.zeros(len(x), len(CODE_NAMES)), none, power, torch.full((len(x),), torch.inf)
    )


def one_sided(x: Tensor) -> Tensor:
    """Which of the complex sequences ``[B, n]`` have next to nothing below zero frequency: bool ``[B]``."""
    power = torch.view_as_real(torch.fft.fft(x)).square().sum(-1).unflatten(-1, (2, -1)).sum(-1)  # (B, 2)
    return power[:, 1] < ONE_SIDED * power.sum(1)


def transform(
    x: Tensor, generator: torch.Generator, *, config: AugmentConfig | None = None, still: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Steps 1 to 4: shift, rotate, flip, delay. Returns the complex sequences and the code ``[B, 5]``.

    Where ``still`` ``[B]`` says so, a sequence is neither shifted in frequency nor flipped.
    """
    config = config or AugmentConfig()
    batch, n = x.shape
    draws = torch.rand(batch, 5, generator=generator, dtype=torch.float64)
    shift = (2 * draws[:, 0] - 1) * config.max_frequency_shift / 2  # cycles per sample
    cycles = draws[:, 1] * config.phase_rotation
    flips = draws[:, 2:4] < config.flip_prob
    if still is not None:
        shift, flips = shift * ~still, flips & ~still[:, None]
    max_delay = round(config.max_time_shift * n)
    delay = torch.round((2 * draws[:, 4] - 1) * max_delay).long()

    x = rotate(suppress_aliases(x, shift), shift, cycles)
    x = flip(x, flips[:, 0], flips[:, 1])
    x = delay_with_noise(x, delay, config.padding_snr_db, generator)
    time_code = (delay / max_delay + 1) / 2 if max_delay else torch.full_like(shift, 0.5)
    code = torch.stack([shift + 0.5, cycles, flips[:, 0], flips[:, 1], time_code], dim=1)
    return x, code.float()


def add_noise(
    x: Tensor,
    code: Tensor,
    generator: torch.Generator,
    *,
    snr_range: tuple[float, float],
    analytic: Tensor | None = None,
) -> AugmentedBatch:
    """Steps 5 to 7: white noise at an SNR uniform in ``snr_range`` (dB), unit power, interleaving.

    Where ``analytic`` ``[B]`` says so, the noise is that of a real signal: it has no negative frequencies.
    """
    low, high = snr_range
    snr_db = low + (high - low) * torch.rand(len(x), generator=generator)
    signal_power = _power(x)
    noise_power = signal_power * 10 ** (-snr_db / 10)
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    if analytic is not None and bool(analytic.any()):
        noise[analytic] = _positive(noise[analytic])
    noisy = torch.addcmul(x, noise, noise_power.sqrt()[:, None])
    total = _power(noisy).clamp_min(1e-30)
    return AugmentedBatch(
        noisy=interleave(noisy * total.rsqrt()[:, None]),
        target=interleave(unit_power(x)),
        code=code,
        noise_power=noise_power / total,
        signal_power=signal_power / total,
        snr_db=snr_db,
    )


def unit_power(x: Tensor) -> Tensor:
    """Scale complex ``[..., n]`` to mean squared magnitude one; silence stays silence."""
    return x * _power(x).clamp_min(1e-30).rsqrt()[..., None]


def suppress_aliases(x: Tensor, shift: Tensor) -> Tensor:
    """Zero the bins that a later shift (cycles per sample, ``[B]``) would carry across half the sample rate.

    The mask is applied *before* the shift: for a positive one everything above ``1/2 - shift`` goes, for a negative
    one everything below ``-(1/2 - |shift|)``; the other end of the spectrum is untouched.
    """
    frequency = torch.fft.fftfreq(x.shape[-1], dtype=torch.float64)
    moved = frequency[None] + shift[:, None]  # (B, n)
    keep = (moved >= -0.5) & (moved < 0.5)
    return torch.fft.ifft(torch.fft.fft(x) * keep)


def rotate(x: Tensor, shift: Tensor, cycles: Tensor) -> Tensor:
    """Multiply by ``exp(2 pi i (shift n + cycles))``; the phase is reduced in double precision."""
    n = torch.arange(x.shape[-1], dtype=torch.float64)
    turns = torch.addcmul(cycles[:, None], shift[:, None], n)  # (B, n)
    angle = ((turns - turns.round()) * (2 * math.pi)).to(torch.float32)
    return x * torch.polar(torch.ones((), dtype=torch.float32).expand_as(angle), angle)


def flip(x: Tensor, horizontal: Tensor, vertical: Tensor) -> Tensor:
    """Negate the real part (horizontal) and the imaginary part (vertical) where the masks ``[B]`` say so."""
    signs = 1.0 - 2.0 * torch.stack([horizontal, vertical], dim=1).to(torch.float32)  # (B, 2)
    return torch.view_as_complex(torch.view_as_real(x) * signs[:, None])


def delay_with_noise(x: Tensor, delay: Tensor, snr_db: float, generator: torch.Generator) -> Tensor:
    """Shift sequence i by ``delay[i]`` samples (later if positive); uncovered samples get weak Gaussian noise."""
    batch, n = x.shape
    longest = int(delay.abs().max()) if batch else 0
    if longest == 0:
        return x
    level = (_power(x) * 10 ** (-snr_db / 10)).sqrt()
    padding = torch.randn(batch, longest, generator=generator, dtype=x.dtype) * level[:, None]
    out = torch.empty_like(x)
    for row, d in enumerate(delay.tolist()):
        if d >= 0:
            out[row, :d] = padding[row, :d]
            out[row, d:] = x[row, : n - d]
        else:
            out[row, :d] = x[row, -d:]
            out[row, d:] = padding[row, :-d]
    return out


def _positive(x: Tensor) -> Tensor:
    """White noise ``[B, n]`` without its negative frequencies, at the same power."""
    spectrum = torch.fft.fft(x)
    spectrum[:, x.shape[-1] // 2 :] = 0
    return torch.fft.ifft(spectrum) * math.sqrt(2)


def _power(x: Tensor) -> Tensor:
    return torch.view_as_real(x).square().sum(-1).mean(-1)
