"""How good a restoration is: SNR, SI-SDR, the table of ablations, and a picture of input, output and difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.files import replace_file
from planformer.signals import Signal, resample_length, roll_back
from planformer.signals.preprocess import rechunk
from planformer.signals.reading import open_source
from planformer.signals.source import Source

if TYPE_CHECKING:
    from planformer.models.restoration import Restorer, Task

FLOOR = 1e-20
SPECTROGRAM_BINS = 256
DRAWN_SAMPLES = 4000
COMPARED_SAMPLES = 1 << 16  # of two files at a time


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


@dataclass
class RunningComparison:
    """SNR and SI-SDR of an estimate against a reference, block by block; each channel's mean doesn't count.

    >>> running = RunningComparison()
    >>> running.add(np.array([[3.0, 1.0]]), np.array([[3.1, 0.9]]))
    >>> round(running.result()["snr_db"], 1)
    20.0
    """

    count: int = 0
    # The first block's means, taken from everything: beside a large offset the sums would lose their digits.
    offsets: list[npt.NDArray[Any]] = field(default_factory=list)
    sums: npt.NDArray[Any] = field(default_factory=lambda: np.zeros((3, 1), np.complex128))
    products: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(4))

    def add(self, reference: npt.NDArray[Any], estimate: npt.NDArray[Any]) -> None:
        """One block ``[C, k]`` of both."""
        if not self.offsets:
            self.offsets = [z.mean(axis=1, keepdims=True, dtype=np.complex128) for z in (reference, estimate)]
        x, y = reference - self.offsets[0], estimate - self.offsets[1]
        self.count += x.shape[1]
        self.sums = self.sums + np.stack([z.sum(axis=1) for z in (x, y, x - y)])  # (3, C)
        self.products += _products(x, y, x - y)

    def result(self) -> dict[str, float]:
        """Both figures in decibels."""
        x, y, both, error = self.products - _products(*self.sums) / self.count  # without the means
        gain = both / (x + FLOOR)
        return {
            "snr_db": _decibel(x, error),
            "si_sdr_db": _decibel(gain**2 * x, gain**2 * x - 2 * gain * both + y),
        }


def _products(x: npt.NDArray[Any], y: npt.NDArray[Any], error: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.array([np.vdot(a, b).real for a, b in ((x, x), (y, y), (x, y), (error, error))])


def _decibel(signal: float, noise: float) -> float:
    return float(10 * np.log10((signal + FLOOR) / (max(noise, 0.0) + FLOOR)))


def compare(reference: Signal, estimate: Signal) -> dict[str, float]:
    """SNR and SI-SDR of an estimate against a clean reference of the same length.

    Of signals that were real, the real part counts: what was measured.
    """
    if reference.samples.shape != estimate.samples.shape:
        raise InputError(
            f"the reference has {reference.channels} channels of {reference.n} samples, the output "
            f"{estimate.channels} of {estimate.n}: give a reference of the same recording"
        )
    running = RunningComparison()
    running.add(*(z.samples.real if z.is_analytic else z.samples for z in (reference, estimate)))
    return running.result()


def compare_files(reference: str | Path, estimate: str | Path, **read: Any) -> dict[str, float]:
    """:func:`compare` for two files, in bounded memory; ``read`` holds the reader's options (kind, rate)."""
    sources = [open_source(path, **{"channels": "each", **read}) for path in (reference, estimate)]
    if sources[0].channels != sources[1].channels:
        raise InputError(
            f"{reference} has {sources[0].channels} channels, {estimate} {sources[1].channels}: "
            "give a reference of the same recording"
        )
    running = RunningComparison()
    for x, y in zip_longest(*(rechunk(_measured(source), COMPARED_SAMPLES) for source in sources)):
        if x is None or y is None or x.shape != y.shape:
            raise InputError(f"{reference} and {estimate} differ in length: give a reference of the same recording")
        running.add(x, y)
    return running.result()


def _measured(source: Source) -> Iterator[npt.NDArray[Any]]:
    analytic = source.real or bool(source.provenance.get("analytic", False))
    for block in source.complex_blocks():
        yield block.real if analytic else block


def ablation_table(restorer: Restorer, signal: Signal, task: Task, reference: Signal) -> list[dict[str, Any]]:
    """The same signal with the skips zeroed, with the latents zeroed, and through random weights."""
    from planformer.models.restoration import Restorer

    control = Restorer.random(0, restorer.encoder.config, size=restorer.decoder.config.size)
    variants = {
        "as trained": restorer.variant(ablation="none"),
        "skips zeroed": restorer.variant(ablation="skips"),
        "latents zeroed": restorer.variant(ablation="latent"),
        "random weights": control.variant(refined=restorer.refined),
    }
    return [{"variant": name, **compare(reference, network.run(signal, task)[0])} for name, network in variants.items()]


def draw(path: str | Path, signal: Signal, outputs: Mapping[str, Signal], *, dpi: int = 80) -> Path:
    """A PNG: each output's waveform over the input's, the difference, and the spectrograms; images as images."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    if path.suffix.lower() != ".png":
        raise InputError(f"{path}: the comparison is a picture; name it .png")
    rows = len(outputs)
    height = 1 + 3.2 * rows * (1 if signal.kind == "image" else 2)
    figure = Figure(figsize=(15, height), dpi=dpi)
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
