"""`Signal`: what every reader returns and every model takes (paper, Appendix A.3: every domain as complex baseband)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.signals.analytic import analytic
from planformer.signals.checks import SampleCheck
from planformer.signals.resampling import analytic_resample, resample_rate
from planformer.signals.snake import unwrap

Kind = Literal["iq", "audio", "seismic", "image", "video", "text", "array"]
KINDS: tuple[str, ...] = get_args(Kind)

# A video's frames are brought to this many points each when they are read (paper, Appendix E, video task).
FRAME_LENGTH = 5120


@dataclass(frozen=True, eq=False, repr=False)
class Signal:
    """Complex baseband samples ``[channels, n]`` (read-only), their rate in Hz, what they are, where they came from.

    ``provenance`` always has ``"analytic"``: True when the samples were real and got their imaginary part by Hilbert.
    An image's samples are its unwrapped path (``provenance["height"], ["width"]``), a video's are 5,120 points a frame.

    >>> signal = from_array([0.0, 1.0, 0.0, -1.0] * 100, rate=8000, kind="audio")
    >>> signal.channels, signal.n, signal.duration
    (1, 400, 0.05)
    """

    samples: npt.NDArray[np.complex64]
    rate: float
    kind: Kind
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        samples = np.asarray(self.samples, dtype=np.complex64)
        if samples.ndim != 2 or 0 in samples.shape:
            raise InputError(f"a signal has samples [channels, n], not the shape {list(samples.shape)}")
        if self.kind not in KINDS:
            raise InputError(f"kind {self.kind!r}: use one of {', '.join(KINDS)}")
        view = samples.view()
        view.flags.writeable = False
        object.__setattr__(self, "samples", view)
        object.__setattr__(self, "rate", check_rate(self.rate))
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))

    def __repr__(self) -> str:
        return f"Signal({self.kind}, {self.channels} x {self.n} samples at {self.rate:g} Hz)"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Signal, (np.asarray(self.samples), self.rate, self.kind, dict(self.provenance)))

    @property
    def channels(self) -> int:
        return self.samples.shape[0]

    @property
    def n(self) -> int:
        """Samples in each channel."""
        return self.samples.shape[1]

    @property
    def duration(self) -> float:
        """Seconds (for text and images, which have no time: points)."""
        return self.n / self.rate

    @property
    def is_analytic(self) -> bool:
        """True when the samples were real, so that only the real part was measured."""
        return bool(self.provenance.get("analytic", False))

    def resampled(self, rate: float) -> Signal:
        """The same signal at another sample rate (band-limited).

        >>> from_array(range(441), rate=44100).resampled(16000).n
        160
        """
        if self.kind in ("image", "video", "text"):
            raise InputError(f"a signal of kind {self.kind} has no sample rate to change")
        return Signal(
            resample_rate(self.samples, self.rate, rate),
            rate,
            self.kind,
            {**self.provenance, "resampled_from": self.rate},
        )


def check_rate(rate: float | None, name: str = "the signal") -> float:
    """A usable sample rate in Hz, or :class:`InputError`; None stands for 1 (no physical time)."""
    if rate is None:
        return 1.0
    if not (np.isfinite(rate) and rate > 0):
        raise InputError(f"{name}: a sample rate of {rate} Hz is not usable; give a positive one with rate (--rate)")
    return float(rate)


def from_array(x: Any, rate: float | None = None, kind: Kind = "array", *, name: str = "array") -> Signal:
    """An array, string or bytes -> :class:`Signal`.

    Real ``[n]`` or ``[channels, n]`` becomes analytic, complex stays as it is. ``kind="image"`` takes ``[H, W]`` or
    ``[H, W, channels]``, ``"video"`` ``[T, H, W]`` or ``[T, H, W, channels]``, ``"text"`` a string or bytes.

    >>> import numpy as np
    >>> from_array(np.eye(28), kind="image").n      # 2 x 28 x 28: two passes
    1568
    >>> from_array("any text, any language", kind="text").n
    22
    """
    if kind not in KINDS:
        raise InputError(f"kind {kind!r}: use one of {', '.join(KINDS)}")
    if kind == "text":
        return _text(x, rate, name)
    data = _numeric(x, name)
    if kind == "image":
        return _image(data, rate, name)
    if kind == "video":
        return _video(data, rate, name)
    data = np.atleast_1d(data)
    data = data[None] if data.ndim == 1 else data
    if data.ndim != 2:
        raise InputError(f"{name}: expected [n] or [channels, n], got the shape {list(data.shape)}")
    check = SampleCheck(name)
    data = check.block(data)
    check.finish()
    is_real = not np.iscomplexobj(data)
    samples = analytic(data) if is_real else data.copy()
    return Signal(samples, check_rate(rate, name), kind, {"source": name, "analytic": is_real})


def _numeric(x: Any, name: str) -> npt.NDArray[Any]:
    try:
        data = np.asarray(x)
    except ValueError as error:  # ragged nested lists
        raise InputError(f"{name}: not a rectangular array of numbers") from error
    if data.dtype == bool:
        data = data.astype(np.uint8)
    if data.dtype.kind not in "iufc":
        raise InputError(f"{name}: expected numbers, got {data.dtype}; for text pass kind='text'")
    return data


def _text(x: Any, rate: float | None, name: str) -> Signal:
    if isinstance(x, str):
        x = x.encode("utf-8", errors="surrogatepass")
    if isinstance(x, (bytes, bytearray, memoryview)):
        x = np.frombuffer(x, np.uint8)
    data = _numeric(x, name)
    if data.dtype != np.uint8 or data.ndim != 1:
        raise InputError(f"{name}: text is a string, bytes or a flat array of byte values (uint8)")
    check = SampleCheck(name)
    values = check.block(data[None])
    check.finish()
    return Signal(analytic(values), check_rate(rate, name), "text", {"source": name, "analytic": True})


def planes(images: npt.NDArray[Any], spatial: int, name: str) -> npt.NDArray[Any]:
    """Move a trailing colour axis to the front: ``[..., H, W]`` or ``[..., H, W, C]`` -> ``[C, ..., H, W]``.

    ``spatial`` is the number of axes without the colour axis (2 for an image, 3 for a video).
    """
    if np.iscomplexobj(images):
        raise InputError(f"{name}: pixels are real numbers, not complex ones")
    if images.ndim == spatial:
        images = images[..., None]
    if images.ndim != spatial + 1:
        raise InputError(
            f"{name}: the shape {list(images.shape)} is not {'[T, ' if spatial == 3 else '['}H, W(, colours)]"
        )
    if images.shape[-1] > 4:
        raise InputError(f"{name}: {images.shape[-1]} colour channels on the last axis; expected 1 to 4")
    if 0 in images.shape or images.shape[-3] * images.shape[-2] < 2:
        raise InputError(
            f"{name}: an image of {images.shape[-3]}x{images.shape[-2]} pixels is too small; at least two are needed"
        )
    return np.moveaxis(images, -1, 0)


def _image(data: npt.NDArray[Any], rate: float | None, name: str) -> Signal:
    pixels = planes(data, 2, name)
    check = SampleCheck(name)
    path = check.block(unwrap(pixels))
    check.finish()
    _, height, width = pixels.shape
    provenance = {"source": name, "analytic": True, "height": height, "width": width, "dtype": str(data.dtype)}
    return Signal(analytic(path), check_rate(rate, name), "image", provenance)


def _video(data: npt.NDArray[Any], rate: float | None, name: str) -> Signal:
    frames = planes(data, 3, name)  # (C, T, H, W)
    check = SampleCheck(name)
    path = check.block(unwrap(frames).reshape(frames.shape[0], -1))
    check.finish()
    channels, count, height, width = frames.shape
    samples = analytic_resample(path.reshape(channels, count, -1), FRAME_LENGTH).reshape(channels, -1)
    provenance = {
        "source": name,
        "analytic": True,
        "frames": count,
        "height": height,
        "width": width,
        "dtype": str(data.dtype),
    }
    return Signal(samples, check_rate(rate, name) * FRAME_LENGTH, "video", provenance)
