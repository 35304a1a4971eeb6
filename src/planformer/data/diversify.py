"""More kinds of signal from the same radio recordings: our addition before the paper's seven augmentations.

Radio baseband is centred on zero frequency, fills its band and never stops; speech, images and text are analytic (no
negative frequencies), fall off with frequency, start and end, and take few amplitudes. Each step below gives a radio
recording one of these traits at random, by physics alone: a slower clock, a one-sided band, a tilted or resonant
channel, fading, a burst with silence behind it, a coarse converter. The result is still nothing but radio.
"""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from torch.nn import functional as F

from planformer.data.augment import unit_power


class DiversifyConfig(BaseModel):
    """Probability of each step for each sequence; all zero leaves the recordings as they are (the paper)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stretch_prob: float = Field(default=0.5, ge=0, le=1, description="a slower clock, 1 to max_stretch times")
    max_stretch: float = Field(default=8.0, ge=1)
    quantise_prob: float = Field(default=0.15, ge=0, le=1, description="few amplitude levels of the real part")
    one_sided_prob: float = Field(default=0.5, ge=0, le=1, description="the analytic signal of the real part")
    tilt_prob: float = Field(default=0.4, ge=0, le=1, description="power falls with frequency")
    max_tilt: float = Field(default=3.0, ge=0, description="exponent of the power's fall")
    resonance_prob: float = Field(default=0.4, ge=0, le=1, description="a smooth random channel gain")
    fading_prob: float = Field(default=0.3, ge=0, le=1, description="a smooth random envelope")
    gate_prob: float = Field(default=0.35, ge=0, le=1, description="silence from a random sample on")
    min_gate: float = Field(default=0.15, gt=0, le=1, description="shortest burst, share of the sequence")

    @classmethod
    def off(cls) -> DiversifyConfig:
        """The paper's data: no step is ever taken."""
        return cls(
            stretch_prob=0, quantise_prob=0, one_sided_prob=0, tilt_prob=0, resonance_prob=0, fading_prob=0, gate_prob=0
        )


def diversify(x: Tensor, generator: torch.Generator, config: DiversifyConfig | None = None) -> Tensor:
    """Complex sequences ``[B, n]`` -> the same shape, each step taken at random per sequence; bursts have unit power.

    >>> x = torch.randn(4, 5120, dtype=torch.complex64)
    >>> diversify(x, torch.Generator().manual_seed(0)).shape
    torch.Size([4, 5120])
    """
    config = config or DiversifyConfig()
    chosen = torch.rand(len(x), 7, generator=generator)

    def taken(column: int, prob: float) -> Tensor:
        return chosen[:, column] < prob

    # Every random number is drawn whether its step is taken or not, so that one probability does not move the rest.
    factor = config.max_stretch ** torch.rand(len(x), generator=generator)
    levels = torch.randint(2, 33, (len(x),), generator=generator)
    tilt = config.max_tilt * torch.rand(len(x), generator=generator)
    resonance = torch.randn(len(x), 12, generator=generator)
    fading = torch.randn(len(x), 10, generator=generator)
    length = config.min_gate + (1 - config.min_gate) * torch.rand(len(x), generator=generator)

    x = stretch(x, torch.where(taken(0, config.stretch_prob), factor, 1.0))
    x = torch.where(taken(1, config.quantise_prob)[:, None], quantise(x, levels), x)
    x = _shape_spectrum(
        x,
        one_sided=taken(2, config.one_sided_prob) | taken(1, config.quantise_prob),
        tilt=tilt * taken(3, config.tilt_prob),
        resonance=resonance * taken(4, config.resonance_prob)[:, None],
    )
    x = fade(x, fading * taken(5, config.fading_prob)[:, None])
    # The silence behind a burst is not signal: as in preprocessing, power is that of the samples that are there.
    return gate(unit_power(x), torch.where(taken(6, config.gate_prob), length, 1.0))


def stretch(x: Tensor, factor: Tensor) -> Tensor:
    """The first ``n / factor`` samples at a ``factor`` times higher rate, band-limited: frequencies shrink by it."""
    n = x.shape[-1]
    rows = []
    for row, share in zip(x, factor.tolist(), strict=True):
        kept = max(2, round(n / share))
        if kept >= n:
            rows.append(row)
            continue
        spectrum = torch.fft.fft(row[:kept])
        half = kept // 2
        padded = row.new_zeros(n)
        padded[: kept - half] = spectrum[: kept - half]
        padded[n - half :] = spectrum[kept - half :]
        rows.append(torch.fft.ifft(padded) * (n / kept))
    return torch.stack(rows)


def quantise(x: Tensor, levels: Tensor) -> Tensor:
    """The real part on ``levels[i]`` equally likely amplitudes (its ranks, coarsely), as a real sequence."""
    ranks = x.real.argsort(-1).argsort(-1).to(torch.float32) / x.shape[-1]
    steps = levels[:, None].to(torch.float32)
    return torch.complex((ranks * steps).floor() / (steps - 1) - 0.5, torch.zeros_like(ranks)).to(x.dtype)


def _shape_spectrum(x: Tensor, *, one_sided: Tensor, tilt: Tensor, resonance: Tensor) -> Tensor:
    """All gains over frequency in one transform: analytic signal of the real part, tilt, smooth channel."""
    frequency = torch.fft.fftfreq(x.shape[-1])  # cycles per sample
    source = torch.where(one_sided[:, None], x.real.to(x.dtype), x)
    positive = torch.where(frequency > 0, 2.0, 0.0)
    gain = torch.where(one_sided[:, None], positive, 1.0)
    gain = gain * (frequency.abs() + 2e-3).pow(-0.5 * tilt[:, None])
    order = torch.argsort(frequency)  # the channel is smooth from the lowest to the highest frequency
    curve = _smooth(resonance, x.shape[-1])  # (B, n), natural logarithm of the gain
    gain = gain * torch.exp(1.2 * curve[:, torch.argsort(order)])
    return unit_power(torch.fft.ifft(torch.fft.fft(source) * gain))


def fade(x: Tensor, control: Tensor) -> Tensor:
    """Multiply by a smooth random envelope through the control values ``[B, k]`` (natural logarithm)."""
    return x * torch.exp(1.2 * _smooth(control, x.shape[-1]))


def gate(x: Tensor, share: Tensor) -> Tensor:
    """Silence everything behind the first ``share[i] n`` samples."""
    position = torch.arange(x.shape[-1]) / x.shape[-1]
    return x * (position < share[:, None])


def _smooth(control: Tensor, n: int) -> Tensor:
    return F.interpolate(control[:, None], size=n, mode="linear", align_corners=True)[:, 0]
