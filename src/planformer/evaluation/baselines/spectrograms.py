"""Signals as pictures for vision models (Appendix "Comparison to CLIP", "Domain-Specific Preprocessing").

Sound: mel power spectrogram (2,048-point FFT, hop 512, 128 mel bands up to 8 kHz) in dB, one picture for each window of
5,120 samples. Radio and seismic: power spectrogram (1,024-point FFT, hop 22), log10(power + 1e-6). Both min-max
normalised to [0, 1], coloured with Viridis and brought to 224x224 by bicubic interpolation.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from planformer.signals.signal import Signal

Pixels = npt.NDArray[np.uint8]  # [..., 224, 224, 3]
SIZE = 224
WINDOW = 5120


def audio_pictures(signal: Signal) -> Pixels:
    """Mel spectrograms of consecutive 5,120-sample windows (at least one), ``[windows, 224, 224, 3]``."""
    samples = signal.samples.real.mean(axis=0)
    count = max(1, len(samples) // WINDOW)
    padded = np.pad(samples, (0, max(0, count * WINDOW - len(samples))))
    return np.stack([colour(mel_decibels(padded[k * WINDOW : (k + 1) * WINDOW], signal.rate)) for k in range(count)])


def radio_pictures(signal: Signal) -> Pixels:
    """Power spectrogram of each channel, brought to exactly 5,120 samples first."""
    from planformer.signals import resample_length

    pictures = []
    for channel in signal.samples:
        samples = channel if len(channel) == WINDOW else resample_length(channel[None], WINDOW)[0]
        samples = samples.real if signal.is_analytic else samples
        power = stft_power(samples, 1024, 22)
        pictures.append(colour(np.log10(power + 1e-6)))
    return np.stack(pictures)


def stft_power(
    x: npt.NDArray[np.floating] | npt.NDArray[np.complexfloating], size: int, hop: int
) -> npt.NDArray[np.float64]:
    """Hann-windowed |STFT|^2 ``[bins, frames]`` with reflected edges: one frame centred on every ``hop``-th sample.

    Real input has size / 2 + 1 bins; complex input keeps the same number, negative frequencies first.
    """
    padded = np.pad(x, size // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop] * np.hanning(size + 1)[:-1]
    if not np.iscomplexobj(x):
        return np.asarray(np.abs(np.fft.rfft(frames, axis=1)) ** 2).T
    return np.asarray(np.abs(np.fft.fftshift(np.fft.fft(frames, axis=1), axes=1)) ** 2).T


def mel_decibels(x: npt.NDArray[np.floating], rate: float) -> npt.NDArray[np.float64]:
    """Mel power in dB, at most 80 dB below its peak, ``[128, frames]``."""
    power = mel_filters(rate) @ stft_power(np.asarray(x, np.float64), 2048, 512)
    decibels = 10.0 * np.log10(np.maximum(power, 1e-10))
    return np.asarray(np.maximum(decibels, decibels.max() - 80.0))


@functools.lru_cache(maxsize=8)
def mel_filters(rate: float, size: int = 2048, bands: int = 128, top: float = 8000.0) -> npt.NDArray[np.float64]:
    """Triangular filters, equally spaced on the mel scale between 0 and 8 kHz (or half the rate), ``[128, 1025]``."""
    top = min(top, rate / 2)
    edges = 700.0 * (10.0 ** (np.linspace(0.0, 2595.0 * np.log10(1 + top / 700.0), bands + 2) / 2595.0) - 1.0)
    frequency = np.fft.rfftfreq(size, 1.0 / rate)
    rising = (frequency - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequency) / np.diff(edges)[1:, None]
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)))


def colour(values: npt.NDArray[np.float64]) -> Pixels:
    """Min-max to [0, 1], Viridis, 224x224 by bicubic interpolation; low frequencies at the bottom."""
    import matplotlib
    from PIL import Image

    span = values.max() - values.min()
    unit = (values - values.min()) / span if span > 0 else np.zeros_like(values)
    pixels = (matplotlib.colormaps["viridis"](unit[::-1])[:, :, :3] * 255).round().astype(np.uint8)
    return np.asarray(Image.fromarray(pixels).resize((SIZE, SIZE), Image.Resampling.BICUBIC))


def photo(image: npt.NDArray[np.uint8]) -> Pixels:
    """An image as it is: grey replicated three times, 224x224 by bicubic interpolation."""
    from PIL import Image

    rgb = np.repeat(image[..., None], 3, axis=-1) if image.ndim == 2 else image[..., :3]
    return np.asarray(Image.fromarray(np.ascontiguousarray(rgb)).resize((SIZE, SIZE), Image.Resampling.BICUBIC))
