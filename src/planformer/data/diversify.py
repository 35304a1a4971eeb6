"""More kinds of signal from the same radio recordings: our addition before the paper's seven augmentations.

Radio baseband is centred on zero frequency, fills its band and never stops; speech, images and text are analytic (no
negative frequencies), fall off with frequency, start and end, and take few amplitudes. Each step below gives a radio
recording one of these traits at random, by physics alone: a slower clock, a one-sided band, a tilted or resonant
channel, fading, a burst with silence behind it, a coarse converter. The result is still nothing but radio.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from torch.nn import functional as F

from planformer.data.augment import unit_power
from planformer.data.kinds import alike, first_of
from planformer.data.selective import FREQUENCIES, TIMES, selective_fade


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
    uneven_levels: bool = Field(default=False, description="quantised amplitudes unequally likely, unequally far apart")
    shift_prob: float = Field(default=0.0, ge=0, le=1, description="another carrier frequency, first of all")
    pulse_prob: float = Field(default=0.0, ge=0, le=1, description="on and off with a period, as a pulsed radio")
    raster_prob: float = Field(default=0.0, ge=0, le=1, description="samples as a smooth field, scanned line by line")
    noise_prob: float = Field(default=0.0, ge=0, le=1, description="white noise at 0 to 40 dB, as part of the signal")
    plain_prob: float = Field(default=0.0, ge=0, le=1, description="the recording as it is, no step taken")
    bare_prob: float = Field(
        default=0.0, ge=0, le=1, description="a quantised or scanned sequence takes no step behind that one"
    )
    family: int = Field(default=1, ge=1, description="neighbours in a batch that take the same steps, as one data set")
    selective_prob: float = Field(default=0.0, ge=0, le=1, description="a channel gain that changes along the way")
    repeat_prob: float = Field(default=0.0, ge=0, le=1, description="one stretch again and again, as a preamble's")
    kind: int = Field(
        default=1, ge=1, description="neighbours of one kind: of one recording, with nearly the same steps taken"
    )
    scramble_prob: float = Field(
        default=0.0, ge=0, le=1, description="a quantised sequence comes in another order, as behind an interleaver"
    )
    max_levels: int = Field(default=32, ge=2, le=128, description="most amplitudes of a quantised sequence")

    def deciding(self, count: int) -> tuple[Tensor, Tensor]:
        """For each sequence the one that decides which steps it takes, and the one that decides how.

        Those of a family take the same steps; those of a kind, or of a family without kinds, take them alike.
        """
        steps = first_of(count, max(self.family, self.kind))
        return steps, first_of(count, self.kind) if self.kind > 1 else steps

    @property
    def is_wider(self) -> bool:
        """Whether any step beyond the first seven can be taken (their random numbers are drawn only then)."""
        probs = (self.shift_prob, self.pulse_prob, self.raster_prob, self.noise_prob, self.plain_prob)
        return self.uneven_levels or max(probs) > 0

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
    first, like = config.deciding(len(x))
    chosen = torch.rand(len(x), 7, generator=generator)[first]

    def taken(column: int, prob: float) -> Tensor:
        return chosen[:, column] < prob

    # Every random number is drawn whether its step is taken or not, so that one probability does not move the rest.
    factor = config.max_stretch ** torch.rand(len(x), generator=generator)[like]
    levels = torch.randint(2, config.max_levels + 1, (len(x),), generator=generator)[like]
    tilt = config.max_tilt * torch.rand(len(x), generator=generator)[like]
    resonance = torch.randn(len(x), 12, generator=generator)
    fading = torch.randn(len(x), 10, generator=generator)
    length = config.min_gate + (1 - config.min_gate) * torch.rand(len(x), generator=generator)

    wider = _Wider.draw(x, generator, config) if config.is_wider else None
    if config.kind > 1:  # nearly the same, and at another speed
        factor = (factor * torch.exp(0.3 * torch.randn(len(x), generator=generator))).clamp_min(1.0)
        resonance, fading = (alike(values, like, 0.4, generator) for values in (resonance, fading))
        length = length[like] * (0.85 + 0.15 * torch.rand(len(x), generator=generator))
    quantised = taken(1, config.quantise_prob)
    real = quantised if wider is None else quantised | (wider.lines > 0)
    bare = torch.zeros_like(real)
    if config.bare_prob > 0:
        bare = real & (torch.rand(len(x), generator=generator)[first] < config.bare_prob)

    def taken_later(column: int, prob: float) -> Tensor:
        return taken(column, prob) & ~bare

    original = x
    if wider is not None:
        x = carrier_shift(x, wider.shift)
    x = stretch(x, torch.where(taken(0, config.stretch_prob), factor, 1.0))
    if wider is not None:
        moved = _Likeness.draw(like, generator) if config.kind > 1 else None
        x = raster(x, wider.lines, wider.detail, wider.floor, moved)
    if config.repeat_prob > 0:
        repeated = (torch.rand(len(x), generator=generator)[first] < config.repeat_prob) & ~real
        x = torch.where(repeated[:, None], _repeated(x, like, generator), x)
    spacing = wider.levels if wider is not None and config.uneven_levels else None
    coarse = quantise(_interleaved(x, first, generator, config.scramble_prob), levels, spacing)
    x = torch.where(quantised[:, None], coarse, x)
    x = shape_spectrum(
        x,
        one_sided=taken(2, config.one_sided_prob) | real,
        tilt=tilt * taken_later(3, config.tilt_prob),
        resonance=resonance * taken_later(4, config.resonance_prob)[:, None],
    )
    if config.selective_prob > 0:
        moving = (torch.rand(len(x), generator=generator)[first] < config.selective_prob) & ~bare
        x = torch.where(moving[:, None], _selective(x, like, generator), x)
    x = fade(x, fading * taken_later(5, config.fading_prob)[:, None])
    if wider is not None:
        x = unit_power(pulse(x, wider.period * ~bare, wider.duty))
        x = x + (wider.noise_amplitude * ~bare)[:, None] * wider.noise
    # The silence behind a burst is not signal: as in preprocessing, power is that of the samples that are there.
    x = gate(unit_power(x), torch.where(taken_later(6, config.gate_prob), length, 1.0))
    return x if wider is None else torch.where(wider.plain[:, None], original, x)


@dataclass
class _Wider:
    """What the later steps draw: one value a sequence, neutral where the step is not taken."""

    shift: Tensor  # [B] cycles per sample
    levels: Tensor  # [B, 32] positive steps between neighbouring amplitudes
    period: Tensor  # [B] samples, 0: no pulses
    duty: Tensor  # [B, 8] share of a period that is on, along the sequence
    lines: Tensor  # [B] lines of a scanned field, 0: not scanned
    detail: Tensor  # [B] finest detail, cycles per line spacing
    floor: Tensor  # [B] values below this many deviations are flat
    noise: Tensor  # [B, n] unit power
    noise_amplitude: Tensor  # [B]
    plain: Tensor  # [B] bool

    @classmethod
    def draw(cls, x: Tensor, generator: torch.Generator, config: DiversifyConfig) -> _Wider:
        count = len(x)
        first, like = config.deciding(count)
        chosen = torch.rand(count, 5, generator=generator)[first]
        shift = torch.rand(count, generator=generator)[like] - 0.5
        levels = torch.rand(count, config.max_levels, generator=generator)[like].clamp_min(1e-3).pow(3)
        period = 16.0 * 40.0 ** torch.rand(count, generator=generator)[like]  # 16 to 640 samples
        duty = torch.rand(count, 8, generator=generator)
        lines = torch.randint(12, 65, (count,), generator=generator)[like]
        detail = 0.02 * 15.0 ** torch.rand(count, generator=generator)[like]  # 0.02 to 0.3
        floor = 3 * torch.rand(count, generator=generator) - 2.5  # rarely below -2: often no flat part at all
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        amplitude = 10 ** (-2 * torch.rand(count, generator=generator))
        return cls(
            shift * (chosen[:, 0] < config.shift_prob),
            levels,
            period * (chosen[:, 1] < config.pulse_prob),
            duty,
            lines * (chosen[:, 4] < config.raster_prob),
            detail,
            floor,
            noise,
            amplitude * (chosen[:, 2] < config.noise_prob),
            chosen[:, 3] < config.plain_prob,
        )


def carrier_shift(x: Tensor, cycles: Tensor) -> Tensor:
    """Move the spectrum by ``cycles[i]`` cycles per sample."""
    return x * torch.exp(2j * torch.pi * cycles[:, None] * torch.arange(x.shape[-1]))


def pulse(x: Tensor, period: Tensor, duty: Tensor) -> Tensor:
    """On for a moving share of each ``period[i]`` samples, off for the rest (period 0: always on)."""
    share = smooth(duty, x.shape[-1])  # (B, n)
    phase = torch.remainder(torch.arange(x.shape[-1]) / period[:, None].clamp_min(1.0), 1.0)
    return x * ((phase < share.clamp(0.05, 0.95)) | (period[:, None] == 0))


def repeat(x: Tensor, period: Tensor, first: Tensor) -> Tensor:
    """The beginning of the ``first[i]``-th sequence, again and again with a period of ``period[i]`` samples.

    Its length is that sequence's own period: another period plays it faster or slower, as another note of one voice.
    """
    n = x.shape[-1]
    cycle = torch.remainder(torch.arange(n) / period[:, None], 1.0) * period[first, None].clamp_max(n - 1)
    before = cycle.floor().long().clamp_max(n - 2)
    source, share = x[first], cycle - before
    return (1 - share) * source.gather(1, before) + share * source.gather(1, before + 1)


def _repeated(x: Tensor, like: Tensor, generator: torch.Generator) -> Tensor:
    """Repetitions with periods of 12 to 600 samples, those of one kind up to an octave apart, mostly."""
    period = 12.0 * 50.0 ** torch.rand(len(x), generator=generator)[like]
    period = (period * torch.exp(0.35 * torch.randn(len(x), generator=generator))).clamp(8.0, 640.0)
    return repeat(x, period, like)


def _interleaved(x: Tensor, first: Tensor, generator: torch.Generator, prob: float) -> Tensor:
    """Some of the sequences in another order."""
    if prob == 0:
        return x
    taken = torch.rand(len(x), generator=generator)[first] < prob
    return torch.where(taken[:, None], scramble(x, generator), x)


def scramble(x: Tensor, generator: torch.Generator) -> Tensor:
    """The same samples in a random order, so that neighbours have nothing to do with each other."""
    order = torch.rand(x.shape, generator=generator).argsort(-1)
    return x.gather(-1, order)


@dataclass
class _Likeness:
    """How the scanned fields of one kind resemble that of the first: moved a little, with something of their own."""

    first: Tensor  # [B]
    move: Tensor  # [B, 2] share of the field's side
    own: float = 0.5

    @classmethod
    def draw(cls, first: Tensor, generator: torch.Generator) -> _Likeness:
        return cls(first, 0.06 * torch.randn(len(first), 2, generator=generator))

    def field(self, x: Tensor, index: int, size: int, width: float) -> Tensor:
        common = smooth_field(x[self.first[index]], size, width)
        moved = torch.roll(common, (size * self.move[index]).round().int().tolist(), (0, 1))
        return moved + self.own * smooth_field(x[index], size, width)


def smooth_field(row: Tensor, size: int, width: float) -> Tensor:
    """The first samples as a square, mean zero, unit deviation, no detail finer than ``width`` cycles per line."""
    spectrum = torch.fft.fft2(row[: size * size].real.reshape(size, size))
    frequency = torch.fft.fftfreq(size)
    gain = torch.exp(-0.5 * (frequency[:, None] ** 2 + frequency**2) / width**2)
    gain[0, 0] = 0  # a strong mean below the floor would leave nothing but the floor
    field = torch.fft.ifft2(spectrum * gain).real
    return field / field.std().clamp_min(1e-8)


def raster(x: Tensor, lines: Tensor, detail: Tensor, floor: Tensor, like: _Likeness | None = None) -> Tensor:
    """Lay the samples out as a square field, smooth it, and scan it to and fro, along lines and then along columns.

    What a scanning transmitter sends: neighbouring lines resemble each other, so the signal nearly repeats, mirrored,
    with the period of two lines. ``lines[i]`` 0 leaves a sequence as it is. ``like``: fields resemble others.
    """
    rows = []
    for index, (row, size, width, low) in enumerate(
        zip(x, lines.tolist(), detail.tolist(), floor.tolist(), strict=True)
    ):
        if size == 0:
            rows.append(row)
            continue
        field = smooth_field(row, size, width) if like is None else like.field(x, index, size, width)
        field = field.clamp_min(low)
        path = torch.cat((to_and_fro(field), to_and_fro(field.T)))  # (2 size²,)
        scanned = F.interpolate((path - path.mean())[None, None], size=x.shape[-1], mode="linear", align_corners=True)
        rows.append(scanned[0, 0].to(x.dtype))
    return torch.stack(rows)


def to_and_fro(field: Tensor) -> Tensor:
    turned = field.clone()
    turned[1::2] = turned[1::2].flip(1)
    return turned.flatten()


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


def ranked(values: Tensor) -> Tensor:
    """The share of a row's values below each of them."""
    return values.argsort(-1).argsort(-1).to(torch.float32) / values.shape[-1]


def quantise(x: Tensor, levels: Tensor, spacing: Tensor | None = None) -> Tensor:
    """The real part on ``levels[i]`` amplitudes (its ranks, coarsely), as a real sequence.

    They are equally likely and equally far apart, or, with ``spacing`` ``[B, 32]``, as unequal as these positive
    numbers: cut at their cumulative sums, and apart by the same numbers in reverse.
    """
    ranks = ranked(x.real)
    steps = levels[:, None].to(torch.float32)
    if spacing is None:
        return torch.complex((ranks * steps).floor() / (steps - 1) - 0.5, torch.zeros_like(ranks)).to(x.dtype)
    used = torch.arange(spacing.shape[1]) < levels[:, None]
    share = spacing * used / (spacing * used).sum(1, keepdim=True)
    edges = share.cumsum(1).masked_fill(~used, 2.0)
    index = torch.searchsorted(edges, ranks.contiguous(), right=True).clamp(max=spacing.shape[1] - 1)
    index = torch.minimum(index, levels[:, None] - 1)
    amplitude = share.flip(1).cumsum(1)  # for fewer than 32 levels the unused ones come first, as zero steps
    amplitude = amplitude.gather(1, (index + spacing.shape[1] - levels[:, None]).clamp(max=spacing.shape[1] - 1))
    return torch.complex(amplitude - 0.5, torch.zeros_like(ranks)).to(x.dtype)


def shape_spectrum(x: Tensor, *, one_sided: Tensor, tilt: Tensor, resonance: Tensor) -> Tensor:
    """All gains over frequency in one transform: analytic signal of the real part, tilt, smooth channel."""
    frequency = torch.fft.fftfreq(x.shape[-1])  # cycles per sample
    source = torch.where(one_sided[:, None], x.real.to(x.dtype), x)
    positive = torch.where(frequency > 0, 2.0, 0.0)
    gain = torch.where(one_sided[:, None], positive, 1.0)
    gain = gain * (frequency.abs() + 2e-3).pow(-0.5 * tilt[:, None])
    order = torch.argsort(frequency)  # the channel is smooth from the lowest to the highest frequency
    curve = smooth(resonance, x.shape[-1])  # (B, n), natural logarithm of the gain
    gain = gain * torch.exp(1.2 * curve[:, torch.argsort(order)])
    return unit_power(torch.fft.ifft(torch.fft.fft(source) * gain))


def _selective(x: Tensor, like: Tensor, generator: torch.Generator) -> Tensor:
    """Selective fading at random; of one kind nearly the same, a little faster or slower, higher or lower."""
    control = torch.randn(len(x), TIMES, FREQUENCIES, generator=generator)
    control = alike(control, like, 0.3, generator)
    speed, scale = torch.exp(torch.randn(2, len(x), generator=generator) * torch.tensor([[0.25], [0.12]]))
    return unit_power(selective_fade(x, control, speed, scale))


def fade(x: Tensor, control: Tensor, depth: float = 1.2) -> Tensor:
    """Multiply by a smooth envelope through ``depth`` times the control values ``[B, k]`` (natural logarithm)."""
    return x * torch.exp(depth * smooth(control, x.shape[-1]))


def gate(x: Tensor, share: Tensor) -> Tensor:
    """Silence everything behind the first ``share[i] n`` samples."""
    position = torch.arange(x.shape[-1]) / x.shape[-1]
    return x * (position < share[:, None])


def smooth(control: Tensor, n: int) -> Tensor:
    return F.interpolate(control[:, None], size=n, mode="linear", align_corners=True)[:, 0]
