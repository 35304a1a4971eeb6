"""What the page draws of any signal: an envelope and a spectrogram, a few kilobytes whatever the length."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.signals import Signal

COLUMNS, BINS, POINTS = 240, 96, 480
_RANGE_DB = 70.0


def preview(signal: Signal) -> dict[str, Any]:
    """Envelope (lowest and highest value of each piece) and spectrogram of the first channel.

    >>> from planformer.signals import from_array
    >>> shown = preview(from_array(np.sin(np.arange(9000) / 3), rate=8000))
    >>> shown["spectrogram"]["columns"], len(shown["envelope"]["low"])
    (240, 480)
    """
    samples = np.asarray(signal.samples[0])
    real = samples.real
    edges = np.linspace(0, real.size, min(POINTS, real.size) + 1).astype(np.int64)[:-1]
    low, high = np.minimum.reduceat(real, edges), np.maximum.reduceat(real, edges)
    scale = float(max(abs(low.min()), abs(high.max()))) or 1.0
    picture = _spectrogram(samples, one_sided=signal.is_analytic)
    return {
        "seconds": signal.duration,
        "envelope": {"low": (low / scale).round(3).tolist(), "high": (high / scale).round(3).tolist(), "peak": scale},
        "spectrogram": {
            "columns": picture.shape[1],
            "bins": picture.shape[0],
            "low_hz": 0.0 if signal.is_analytic else -signal.rate / 2,
            "high_hz": signal.rate / 2,
            "levels": base64.b64encode(np.ascontiguousarray(picture).tobytes()).decode("ascii"),
        },
    }


def _spectrogram(samples: npt.NDArray[np.complex64], *, one_sided: bool) -> npt.NDArray[np.uint8]:
    """Levels 0 to 255 over 70 dB, ``[bins, columns]``, the highest frequency first."""
    size = 2 * BINS if one_sided else BINS  # an analytic signal's other half is empty
    if samples.size < size:
        samples = np.pad(samples, (0, size - samples.size))
    count = min(COLUMNS, 1 + (samples.size - size) // max(1, size // 4))
    starts = np.linspace(0, samples.size - size, count).astype(np.int64)
    frames = samples[starts[:, None] + np.arange(size)] * np.hanning(size).astype(np.float32)  # [columns, size]
    spectrum = np.fft.fft(frames, axis=1)
    spectrum = spectrum[:, 1 : BINS + 1] if one_sided else np.fft.fftshift(spectrum, axes=1)
    level = 20 * np.log10(np.abs(spectrum) + 1e-12)
    level = np.clip(1 + (level - level.max()) / _RANGE_DB, 0, 1)
    return (255 * level).astype(np.uint8).T[::-1]
