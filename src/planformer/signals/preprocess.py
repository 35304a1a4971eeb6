"""Signals to what the encoder reads: segments of 5,120 complex samples of unit power.

Paper: section 4 "Preprocessing", Appendix A.9 "Variable-Length Sequences", Appendix E (5,120 points an image).
Everything that depends on one segment only can be streamed; ``normalise="signal"`` needs a first pass over the signal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from planformer.errors import InputError
from planformer.signals.analytic import ComplexArray
from planformer.signals.resampling import analytic_resample, resample_length
from planformer.signals.signal import Signal, planes
from planformer.signals.snake import unwrap

SEGMENT = 5120
SILENCE = 1e-30  # a root mean square below this has no usable inverse in single precision
ROUNDING = 1e-12  # relative power left over when a constant's own mean is subtracted in single precision
CHUNK = 64  # segments handled at once: bounds the temporaries, and keeps them in the cache


class PreprocessConfig(BaseModel):
    """The choices that the paper leaves open, each with the default argued in docs/decisions.md.

    >>> PreprocessConfig().short, PreprocessConfig.paper().short
    ('pad', 'resample')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    segment_length: int = Field(default=SEGMENT, ge=16, description="complex samples in one segment")
    short: Literal["pad", "tile", "resample"] = Field(
        default="pad",
        description="how a signal or last segment shorter than segment_length fills it (images: always resampled)",
    )
    normalise: Literal["segment", "signal"] = Field(
        default="segment", description="unit power of each segment, or of the whole signal"
    )
    remove_mean: bool = Field(
        default=True, description="subtract the mean of signals that were real (each segment's, or the signal's)"
    )
    pass_order: Literal["vertical_first", "horizontal_first"] = Field(
        default="vertical_first", description="order of the two snake passes over an image"
    )

    @classmethod
    def paper(cls) -> PreprocessConfig:
        """What the paper states: short signals are resampled, and no mean is removed."""
        return cls(short="resample", remove_mean=False)


@dataclass(frozen=True)
class Level:
    """Mean and power ``[channels, 1, 1]`` of a whole signal."""

    mean: npt.NDArray[np.complex64]
    rms: npt.NDArray[np.float32]


def prepare(signal: Signal, config: PreprocessConfig | None = None) -> ComplexArray:
    """A signal -> ``[channels, segments, 5120]`` of unit power.

    An image gives one segment a channel and a video one segment a frame. A channel without any variation gives zeros.

    >>> from planformer.signals import from_array
    >>> prepare(from_array(range(12_000))).shape
    (1, 3, 5120)
    """
    return np.concatenate(list(signal_segments(signal, config or PreprocessConfig())), axis=1)


def signal_segments(signal: Signal, config: PreprocessConfig) -> Iterator[ComplexArray]:
    """The parts of :func:`prepare`, up to 64 segments at a time."""
    removes = config.remove_mean and signal.is_analytic

    def blocks() -> Iterator[ComplexArray]:
        return frame_blocks(signal, config) if signal.kind in ("image", "video") else iter([signal.samples])

    level = measure(blocks(), removes, config) if config.normalise == "signal" else None
    return segments(blocks(), config, removes_mean=removes, level=level)


def prepare_images(images: npt.NDArray[Any], config: PreprocessConfig | None = None) -> ComplexArray:
    """Many images of one size, ``[n, H, W]`` or ``[n, H, W, C]`` -> ``[n, C, 1, 5120]``, as :func:`prepare` for each.

    A blank image, of which a large set may well hold one, is no error here: without its mean it gives zeros.

    >>> import numpy as np
    >>> prepare_images(np.random.default_rng(0).integers(0, 255, (7, 28, 28, 3), np.uint8)).shape
    (7, 3, 1, 5120)
    """
    config = config or PreprocessConfig()
    images = np.asarray(images)
    if images.ndim not in (3, 4) or images.dtype.kind not in "biuf":
        raise InputError(f"images: expected numbers [n, H, W] or [n, H, W, C], got {images.dtype} {list(images.shape)}")
    pixels = np.moveaxis(planes(images, 3, "images"), 0, 1)  # (n, C, H, W)
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise InputError("images: some pixels are NaN or infinite; clean the data first")
    count, channels = pixels.shape[:2]
    out = np.empty((count, channels, 1, config.segment_length), np.complex64)
    step = max(1, CHUNK // channels)
    for start in range(0, count, step):
        path = unwrap(pixels[start : start + step].astype(np.float32))
        mean = path.mean(axis=-1, keepdims=True) if config.remove_mean else None
        if mean is not None:
            path -= mean
        segment = analytic_resample(path, config.segment_length)
        segment = _ordered(segment, config)
        scale_to_unit_power(segment, removed=mean, out=out[start : start + step, :, 0])
    return out


def frame_blocks(signal: Signal, config: PreprocessConfig) -> Iterator[ComplexArray]:
    """The frames of an image or video signal as blocks ``[channels, 5120]``."""
    frames = int(signal.provenance.get("frames", 1))
    if signal.n % frames:
        raise InputError(f"a signal of {signal.n} points does not hold {frames} frames of equal size")
    path = signal.samples.reshape(signal.channels, frames, -1)  # (C, T, points a frame)
    for index in range(frames):
        yield _ordered(_to_length(path[:, index], config.segment_length), config)


def _to_length(frame: ComplexArray, length: int) -> ComplexArray:
    # A native path goes through its real part, which is the measured one: the result is that of prepare_images.
    return frame if frame.shape[-1] == length else analytic_resample(frame.real, length)


def _ordered(frame: ComplexArray, config: PreprocessConfig) -> ComplexArray:
    """Swapping the passes is a circular shift by half a path, which commutes with FFT resampling and with Hilbert."""
    if config.pass_order == "vertical_first":
        return frame
    return np.roll(frame, config.segment_length // 2, axis=-1)


def segments(
    blocks: Iterable[ComplexArray], config: PreprocessConfig, *, removes_mean: bool, level: Level | None = None
) -> Iterator[ComplexArray]:
    """Complex blocks ``[channels, k]`` of any size -> finished segments ``[channels, up to 64, 5120]``."""
    length = config.segment_length
    seen_full = False
    for x in rechunk(blocks, length * CHUNK):
        full = x.shape[1] // length
        if full:
            seen_full = True
            whole = x[:, : full * length].reshape(x.shape[0], full, length)
            yield finish(whole, removes_mean=removes_mean, level=level)
        tail = x[:, full * length :]
        if tail.shape[1]:
            alone = not seen_full
            yield _finish_tail(tail, config, removes_mean=removes_mean, level=level, alone=alone)


def rechunk(blocks: Iterable[ComplexArray], size: int) -> Iterator[ComplexArray]:
    """Blocks ``[channels, k]`` of any size -> blocks of exactly ``size`` samples, the last one shorter."""
    held: list[ComplexArray] = []
    count = 0
    for block in blocks:
        start = 0
        while count + block.shape[1] - start >= size:
            stop = start + size - count
            held.append(block[:, start:stop])
            yield held[0] if len(held) == 1 else np.concatenate(held, axis=1)
            held, count, start = [], 0, stop
        if start < block.shape[1]:
            held.append(block[:, start:])
            count += block.shape[1] - start
    if held:
        yield np.concatenate(held, axis=1)


def finish(x: ComplexArray, *, removes_mean: bool, level: Level | None = None) -> ComplexArray:
    """Remove the mean and set unit power of complex segments ``[channels, k, length]``."""
    if level is not None:
        return np.asarray((x - level.mean) * _inverse(level.rms), np.complex64)
    if not removes_mean:
        return scale_to_unit_power(x)
    mean = x.mean(axis=-1, keepdims=True)
    return scale_to_unit_power(x - mean, removed=mean)


def _finish_tail(
    tail: ComplexArray, config: PreprocessConfig, *, removes_mean: bool, level: Level | None, alone: bool
) -> ComplexArray:
    """The last, shorter segment ``[channels, k]`` -> ``[channels, 1, length]``. Padding does not count as power."""
    length = config.segment_length
    if config.short == "pad":
        y = finish(tail[:, None], removes_mean=removes_mean, level=level)
        return np.pad(y, ((0, 0), (0, 0), (0, length - tail.shape[1])))
    y = fit(tail, length, config.short)[:, None]
    return finish(y, removes_mean=removes_mean, level=None if alone else level)


def fit(x: ComplexArray, length: int, how: str) -> ComplexArray:
    """Fill ``length`` samples from fewer: by silence, by repetition, or by stretching the whole.

    >>> import numpy as np
    >>> fit(np.array([[1, 2, 3]], np.complex64), 5, "tile").real.tolist()
    [[1.0, 2.0, 3.0, 1.0, 2.0]]
    """
    if how == "pad":
        return np.pad(x, ((0, 0), (0, length - x.shape[1])))
    if how == "tile":
        return np.tile(x, -(-length // x.shape[1]))[:, :length]
    return resample_length(x, length)


def scale_to_unit_power(
    x: ComplexArray, *, removed: ComplexArray | None = None, out: ComplexArray | None = None
) -> ComplexArray:
    """Divide ``[..., length]`` by its root mean square; silence stays silence. Any magnitude: squares are float64.

    ``removed`` is a mean ``[..., 1]`` that was subtracted before: what is left of a constant is rounding, and silence.
    """
    parts = np.ascontiguousarray(x).view(np.float32)
    power = np.square(parts, dtype=np.float64).sum(axis=-1, keepdims=True) / x.shape[-1]
    if removed is not None:
        power[power <= ROUNDING * np.square(np.abs(removed), dtype=np.float64)] = 0
    return np.multiply(x, _inverse(np.sqrt(power).astype(np.float32)), out=out)


def _inverse(rms: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.divide(1, rms, out=np.zeros_like(rms), where=rms > SILENCE)


def measure(blocks: Iterable[ComplexArray], removes_mean: bool, config: PreprocessConfig) -> Level:
    """Mean and power of a whole signal in one pass. Sums are exact (fsum), so any chunking gives the same numbers."""
    sums: list[npt.NDArray[np.complex128]] = []
    energies: list[npt.NDArray[np.float64]] = []
    count = 0
    for x in rechunk(blocks, config.segment_length):
        sums.append(x.sum(axis=1, dtype=np.complex128))
        energies.append(np.square(np.ascontiguousarray(x).view(np.float32), dtype=np.float64).sum(axis=1))
        count += x.shape[1]
    total = np.array([complex(math.fsum(s.real), math.fsum(s.imag)) for s in np.stack(sums, axis=1)])
    energy = np.array([math.fsum(e) for e in np.stack(energies, axis=1)])
    mean = total / count if removes_mean else np.zeros_like(total)
    power = np.maximum(energy / count - np.abs(mean) ** 2, 0)
    power[power <= ROUNDING * energy / count] = 0  # a constant channel
    return Level(mean[:, None, None].astype(np.complex64), np.sqrt(power)[:, None, None].astype(np.float32))
