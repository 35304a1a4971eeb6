"""How good a restoration is: SNR, SI-SDR, the table of ablations, and a picture of input, output and difference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.files import replace_file
from planformer.signals import Signal, resample_length, roll_back

if TYPE_CHECKING:
    from planformer.models.restoration import Restorer, Task

FLOOR = 1e-20
SPECTROGRAM_BINS = 256
DRAWN_SAMPLES = 4000


def snr_db(reference: npt.ArrayLike, estimate: npt.ArrayLike) -> float:
    """Power of the reference over the power of the error, in decibels. All zeros as an estimate gives 0 dB.

    >>> round(snr_db([1.0, -1.0], [1.1, -1.1]), 1)
    20.0
    """
    x, y = np.asarray(reference), np.asarray(estimate)
    error = float(np.mean(np.abs(x - y) ** 2))
    return float(10 * np.log10((float(np.mean(np.abs(x) ** 2)) + FLOOR) / (error + FLOOR)))


def si_sdr_db(reference: npt.ArrayLike, estimate: npt.ArrayLike) -> float:
    """Scale-invariant signal-to-distortion ratio in decibels: the best real gain of the reference is taken first.

    >>> si_sdr_db([1.0, -1.0, 2.0], [2.0, -2.0, 4.0]) > 100
    True
    """
    x, y = np.asarray(reference).ravel(), np.asarray(estimate).ravel()
    gain = float(np.vdot(x, y).real) / (float(np.vdot(x, x).real) + FLOOR)
    return snr_db(gain * x, y)


def measured(signal: Signal) -> npt.NDArray[Any]:
    """What was measured: the real part of a signal that was real, without each channel's mean."""
    x = signal.samples.real if signal.is_analytic else signal.samples
    return x - x.mean(axis=-1, keepdims=True)


def compare(reference: Signal, estimate: Signal) -> dict[str, float]:
    """SNR and SI-SDR of an estimate against a clean reference of the same length."""
    if reference.samples.shape != estimate.samples.shape:
        raise InputError(
            f"the reference has {reference.channels} channels of {reference.n} samples, the output "
            f"{estimate.channels} of {estimate.n}: give a reference of the same recording"
        )
    x, y = measured(reference), measured(estimate)
    return {"snr_db": snr_db(x, y), "si_sdr_db": si_sdr_db(x, y)}


def ablation_table(restorer: Restorer, signal: Signal, task: Task, reference: Signal) -> list[dict[str, Any]]:
    """The same signal with the skips zeroed, with the latents zeroed, and through random weights."""
    from planformer.models.restoration import Restorer

    control = Restorer.random(0, restorer.encoder.config, size=restorer.decoder.config.size)
    rows = []
    for name, network, ablation in (
        ("as trained", restorer, "none"),
        ("skips zeroed", restorer, "skips"),
        ("latents zeroed", restorer, "latent"),
        ("random weights", control, "none"),
    ):
        variant = Restorer(network.encoder, network.decoder, network.separation, ablation=ablation)  # type: ignore[arg-type]
        rows.append({"variant": name, **compare(reference, variant.run(signal, task)[0])})
    return rows


def draw(path: str | Path, signal: Signal, outputs: Mapping[str, Signal]) -> Path:
    """A PNG: each output's waveform over the input's, the difference, and the spectrograms; images as images."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    if path.suffix.lower() != ".png":
        raise InputError(f"{path}: the comparison is a picture; name it .png")
    rows = len(outputs)
    height = 1 + 3.2 * rows * (1 if signal.kind == "image" else 2)
    figure = Figure(figsize=(15, height), dpi=80)
    figure.subplots_adjust(left=0.06, right=0.98, bottom=0.5 / height, top=1 - 0.4 / height, hspace=0.45, wspace=0.2)
    if signal.kind == "image":
        _draw_images(figure, signal, outputs)
    else:
        _draw_signals(figure, signal, outputs)
    canvas = FigureCanvasAgg(figure)
    replace_file(path, lambda temporary: canvas.print_png(str(temporary)))
    return path


def _draw_images(figure: Any, signal: Signal, outputs: Mapping[str, Signal]) -> None:
    before = _pixels(signal)
    axes = figure.subplots(len(outputs), 3, squeeze=False)
    for row, (name, output) in zip(axes, outputs.items(), strict=True):
        after = _pixels(output)
        difference = np.abs(after - before)
        panels = (("input", before), (name, after), (f"|difference|, mean {difference.mean():.3f}", difference))
        for axis, (title, image) in zip(row, panels, strict=True):
            axis.imshow(np.clip(image, 0, 1).squeeze(), cmap="gray", vmin=0, vmax=1)
            axis.set_title(title)
            axis.axis("off")


def _pixels(signal: Signal) -> npt.NDArray[Any]:
    height, width = int(signal.provenance["height"]), int(signal.provenance["width"])
    path = resample_length(signal.samples, 2 * height * width).real
    top = {"uint8": 255.0, "uint16": 65535.0}.get(str(signal.provenance.get("dtype")), 1.0)
    return np.moveaxis(roll_back(path, height, width), 0, -1) / top


def _draw_signals(figure: Any, signal: Signal, outputs: Mapping[str, Signal]) -> None:
    axes = figure.subplots(2 * len(outputs), 3, squeeze=False)
    x = signal.samples[0]
    span = slice(max(0, (len(x) - DRAWN_SAMPLES) // 2), (len(x) + DRAWN_SAMPLES) // 2)
    seconds = np.arange(len(x))[span] / signal.rate
    for index, (name, output) in enumerate(outputs.items()):
        y = output.samples[0]
        waves, spectra = axes[2 * index], axes[2 * index + 1]
        for axis, wave, title in zip(waves, (x, y, x - y), ("input", name, "difference"), strict=True):
            axis.plot(seconds, wave[span].real, linewidth=0.6)
            axis.set_title(f"{title}, real part")
            axis.set_xlabel("seconds")
            axis.sharey(waves[0])
        top = None
        for axis, wave, title in zip(spectra, (x, y, x - y), ("input", name, "difference"), strict=True):
            top = _spectrogram(axis, wave, signal, top)
            axis.set_title(f"{title}, dB")


def _spectrogram(axis: Any, wave: npt.NDArray[Any], signal: Signal, top: float | None) -> float:
    """Draw 80 dB below ``top`` (the input's peak), at most 600 columns however long the signal is."""
    bins = min(SPECTROGRAM_BINS, len(wave))
    starts = np.linspace(0, len(wave) - bins, min(600, max(1, len(wave) // (bins // 4)))).astype(int)
    frames = np.stack([wave[s : s + bins] for s in starts]) * np.hanning(bins)
    power = np.abs(np.fft.fft(frames, axis=1)) ** 2
    half = signal.is_analytic
    power = power[:, : bins // 2] if half else np.fft.fftshift(power, axes=1)
    decibels = 10 * np.log10(power.T + FLOOR)
    top = float(decibels.max()) if top is None else top
    low = 0.0 if half else -signal.rate / 2
    extent = (0.0, len(wave) / signal.rate, low, signal.rate / 2)
    axis.imshow(decibels, origin="lower", aspect="auto", extent=extent, vmin=top - 80, vmax=top, cmap="magma")
    axis.set_xlabel("seconds")
    axis.set_ylabel("Hz")
    return top
