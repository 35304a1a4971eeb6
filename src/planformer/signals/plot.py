"""Pictures of a signal: waveform, spectrum and spectrogram; for an image its two snake passes and unwrapped path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.signals.analytic import ComplexArray
from planformer.signals.replacing import replacing
from planformer.signals.signal import Signal
from planformer.signals.snake import roll_back, snake_indices

PLOT_SAMPLES = 1 << 21  # of a long recording, only the start is drawn
_COLUMNS = 2000  # a longer waveform is drawn as its envelope
_COLOURS = ("#3b6ea8", "#d1682c", "#4d9a57", "#8a5aa5", "#777777")


def plot_signal(signal: Signal, target: str | Path, *, title: str, shown_of: int | None = None) -> Path:
    """Draw a signal into an image file. ``shown_of``: samples in the whole recording, when this is only its start.

    >>> import numpy as np, tempfile
    >>> from planformer.signals import from_array
    >>> tone = from_array(np.sin(np.arange(8000) / 5), rate=8000, kind="audio")
    >>> plot_signal(tone, tempfile.mkdtemp() + "/tone.png", title="tone").name
    'tone.png'
    """
    from matplotlib.figure import Figure  # no pyplot: no display and no global state needed

    if shown_of is not None and shown_of > signal.n:
        title = f"{title} (the first {signal.n / signal.rate:.4g} s of {shown_of / signal.rate:.4g} s)"
    figure = Figure(figsize=(10, 9), layout="constrained")
    figure.suptitle(title)
    if signal.kind == "image":
        _draw_image(figure, signal)
    else:
        top, middle, bottom = figure.subplots(3, 1)
        _draw_waveform(top, signal)
        _draw_spectrum(middle, signal)
        _draw_spectrogram(figure, bottom, signal)
    target = Path(target)
    with replacing(target) as temporary:
        figure.savefig(temporary, dpi=110)
    return target


def _colours(signal: Signal) -> tuple[str, ...]:
    if signal.kind not in ("image", "video"):
        return _COLOURS
    return ("#c0392b", "#2e8b57", "#3b6ea8") if signal.channels == 3 else ("#444444",)


def _time_axis(signal: Signal) -> tuple[float, str]:
    """Factor from sample number to the axis' unit, and the unit's name."""
    if signal.kind == "text":
        return 1.0, "byte"
    if signal.kind in ("image", "array") and signal.rate == 1:
        return 1.0, "sample"
    if signal.duration < 0.1:
        return 1e3 / signal.rate, "time (ms)"
    return 1 / signal.rate, "time (s)"


def _frequency_axis(signal: Signal) -> tuple[float, str]:
    """Factor from cycles per sample to the axis' unit, and the unit's name."""
    if signal.rate == 1 or signal.kind in ("text", "image"):
        return 1.0, "frequency (cycles per sample)"
    for scale, unit in ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")):
        if signal.rate >= 2 * scale:
            return signal.rate / scale, f"frequency ({unit})"
    return signal.rate, "frequency (Hz)"


def _draw_waveform(axes: Any, signal: Signal) -> None:
    factor, label = _time_axis(signal)
    if signal.is_analytic:
        names = [f"channel {i}" for i in range(signal.channels)]
        curves = list(signal.samples.real[: len(_COLOURS)])
    else:
        names, curves = ["I", "Q"], [signal.samples[0].real, signal.samples[0].imag]
    for name, curve, colour in zip(names, curves, _COLOURS, strict=False):
        _draw_curve(axes, curve, factor, colour, name)
    axes.set(xlabel=label, ylabel="amplitude", title="waveform")
    axes.margins(x=0)
    if len(curves) > 1:
        axes.legend(loc="upper right", fontsize="small")


def _draw_curve(axes: Any, curve: npt.NDArray[Any], factor: float, colour: str, name: str) -> None:
    n = len(curve)
    if n <= 2 * _COLUMNS:
        axes.plot(np.arange(n) * factor, curve, color=colour, lw=0.8, label=name, alpha=0.8)
        return
    width = n // _COLUMNS
    parts = curve[: n // width * width].reshape(-1, width)  # (columns, samples a column)
    at = (np.arange(len(parts)) + 0.5) * width * factor
    axes.fill_between(at, parts.min(axis=1), parts.max(axis=1), color=colour, lw=0.4, label=name, alpha=0.6)


def _spectrum(x: ComplexArray) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Welch's estimate over both signs of frequency, in dB."""
    from scipy.signal import welch

    size = min(4096, x.shape[-1])
    frequency, power = welch(x, nperseg=size, return_onesided=False, detrend=False)
    order = np.argsort(frequency)
    decibel = 10 * np.log10(np.maximum(power[..., order], 1e-20 * max(float(power.max()), 1e-300)))
    return frequency[order], decibel


def _draw_spectrum(axes: Any, signal: Signal) -> None:
    factor, label = _frequency_axis(signal)
    frequency, decibel = _spectrum(signal.samples)
    shown = frequency >= 0 if signal.is_analytic else np.ones(len(frequency), bool)
    for row, colour in zip(decibel, _colours(signal), strict=False):
        axes.plot(frequency[shown] * factor, row[shown], color=colour, lw=0.9, alpha=0.85)
    body = decibel[:, shown]
    if signal.is_analytic and body.shape[1] > 16:
        body = body[:, 4:]  # the mean of an image or a text would leave no room for the rest
    top, low = float(body.max()), float(np.quantile(body, 0.01))
    axes.set(xlabel=label, ylabel="power density (dB)", title="spectrum", ylim=(max(top - 110, low) - 5, top + 5))
    axes.margins(x=0)
    axes.grid(alpha=0.3)


def _draw_spectrogram(figure: Any, axes: Any, signal: Signal) -> None:
    size = max(16, min(512, signal.n // 16))
    hop = max(size // 4, signal.n // _COLUMNS)  # of a long recording, one frame in each column of the picture
    frequency = np.fft.fftfreq(size)
    values, time = _frames(signal.samples[0], size, hop)
    order = np.argsort(frequency)
    if signal.is_analytic:
        order = order[frequency[order] >= 0]
    power = 20 * np.log10(np.maximum(np.abs(values[order]), 1e-12))
    time_factor, time_label = _time_axis(signal)
    factor, label = _frequency_axis(signal)
    top = float(power.max())
    mesh = axes.pcolormesh(
        time * time_factor, frequency[order] * factor, power, vmin=top - 80, vmax=top, cmap="magma", rasterized=True
    )
    figure.colorbar(mesh, ax=axes, label="dB", pad=0.01)
    axes.set(xlabel=time_label, ylabel=label, title="spectrogram" + (", channel 0" if signal.channels > 1 else ""))


def _frames(x: npt.NDArray[Any], size: int, hop: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Windowed spectra ``[size, frames]`` and the sample number of each frame's middle."""
    x = np.pad(x, (0, max(0, size + hop - len(x))))
    starts = np.arange(0, len(x) - size + 1, hop)
    frames = x[starts[:, None] + np.arange(size)] * np.hanning(size)  # (frames, size)
    return np.fft.fft(frames, axis=1).T, starts + size / 2


def _draw_image(figure: Any, signal: Signal) -> None:
    height, width = int(signal.provenance["height"]), int(signal.provenance["width"])
    grid = figure.add_gridspec(3, 3)
    pixels = np.moveaxis(roll_back(signal.samples.real, height, width), 0, -1)  # (H, W, C)
    low, high = float(pixels.min()), float(pixels.max())
    shown = (pixels - low) / max(high - low, 1e-12)
    for column in range(3):
        axes = figure.add_subplot(grid[0, column])
        axes.imshow(shown[..., 0] if shown.shape[-1] == 1 else shown[..., :3], cmap="gray", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[], title=(f"{width} x {height} pixels", "vertical pass", "horizontal pass")[column])
        if column:
            _draw_pass(axes, height, width, column - 1)
    _draw_path(figure.add_subplot(grid[1, :]), signal)
    _draw_spectrum(figure.add_subplot(grid[2, :]), signal)


def _draw_pass(axes: Any, height: int, width: int, which: int) -> None:
    """The way over the pixels, coloured from its start (dark) to its end; a large image gets a coarse snake."""
    rows, columns = min(height, 24), min(width, 24)
    indices = snake_indices(rows, columns)[which * rows * columns :][: rows * columns]
    y = (indices // columns + 0.5) * height / rows - 0.5
    x = (indices % columns + 0.5) * width / columns - 0.5
    axes.plot(x, y, color="#ffffff", lw=1.6, alpha=0.5)
    axes.scatter(x, y, c=np.arange(len(x)), cmap="viridis", s=5, zorder=3)


def _draw_path(axes: Any, signal: Signal) -> None:
    half = signal.n // 2
    names = ("red", "green", "blue") if signal.channels == 3 else ("grey",)
    for row, name, colour in zip(signal.samples.real, names, _colours(signal), strict=False):
        _draw_curve(axes, row, 1.0, colour, name)
    axes.axvspan(half, signal.n, color="#f0e6d2", zorder=0)
    axes.axvline(half, color="#8a6d3b", lw=1)
    axes.set(
        xlabel="point of the path: vertical pass, then horizontal pass (shaded)", ylabel="value", title="unwrapped path"
    )
    axes.margins(x=0)
    if signal.channels > 1:
        axes.legend(loc="upper right", fontsize="small")
