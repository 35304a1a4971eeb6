"""Reconstruction and denoising strips for the report (Figure "Learned representation quality", Appendix E).

Only for weights that come with a decoder. Beside each reconstruction stands that of untrained networks of the same
architecture, since skip connections alone carry much of a signal.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from planformer.errors import WeightsError
from planformer.evaluation.report import Section
from planformer.evaluation.run import LoadedTask

if TYPE_CHECKING:
    from planformer.models.encoder import Encoder
    from planformer.models.restoration import Restorer, Task
    from planformer.signals import Signal

COLUMNS = 5
NOISE_DB = 5
STRIPS: dict[Task, tuple[str, ...]] = {
    "reconstruct": ("input", "reconstruction", "untrained"),
    "denoise": ("input", "noisy", "denoised", "untrained"),
}
SHOWN_SAMPLES = 400


def reconstruction_section(encoder: Encoder, folder: Path | None, tasks: Sequence[LoadedTask]) -> Section | None:
    """Strips for the first image task and the first other one; None when the weights have no decoder."""
    from planformer.models.restoration import Restorer

    if folder is None:
        return None
    try:
        trained = Restorer.load(encoder, folder)
    except WeightsError:
        return None
    control = Restorer.random(0, encoder.config, size=trained.decoder.config.size)
    images = next((task for task in tasks if task.data.is_images), None)
    waves = next((task for task in tasks if task.data.kind in ("iq", "audio", "seismic")), None)
    shown = [task for task in (images, waves) if task is not None]
    if not shown:
        return None
    pictures = [strip(task, trained, control, kind) for task in shown for kind in STRIPS]
    text = (
        "Reconstruction: the signal, encoded and decoded, and through untrained networks. Denoising: the signal, with "
        f"white noise {NOISE_DB} dB below it, denoised, and through untrained networks. SNR in dB of the real part."
    )
    return Section("Reconstructions", text=text, pictures=pictures)


def strip(task: LoadedTask, trained: Restorer, control: Restorer, kind: Task = "reconstruct") -> tuple[str, bytes]:
    """A few items of a task: original, (noisy and) restored, and the untrained control below each other."""
    from matplotlib.figure import Figure

    generator = np.random.default_rng(0)
    rows = generator.permutation(len(task.data))[:COLUMNS]
    names = STRIPS[kind]
    figure = Figure(figsize=(2.2 * COLUMNS, 1.9 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), len(rows), squeeze=False)
    for column, row in enumerate(rows):
        signal = _excerpt(task.data.signal(int(row)))
        seen = signal if kind == "reconstruct" else with_noise(signal, NOISE_DB, generator)
        restored = [network.run(seen, kind)[0] for network in (trained, control)]
        versions = [signal, *restored] if seen is signal else [signal, seen, *restored]
        for axis, version in zip(axes[:, column], versions, strict=True):
            _panel(axis, version, signal)
    for axis, name in zip(axes[:, 0], names, strict=True):
        axis.set_ylabel(name)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return f"{kind}, {task.name}", buffer.getvalue()


def with_noise(signal: Signal, below_db: float, generator: np.random.Generator) -> Signal:
    """White noise so far below what a signal varies by; that of a real signal is analytic, as the signal is."""
    from planformer.signals import Signal, analytic

    varies = signal.samples - signal.samples.mean(-1, keepdims=True)
    shape, level = varies.shape, 10 ** (-below_db / 20) * np.sqrt(np.mean(np.abs(varies) ** 2, axis=-1, keepdims=True))
    if signal.is_analytic:
        noise = analytic(generator.normal(size=shape)) / np.sqrt(2)
    else:
        noise = (generator.normal(size=shape) + 1j * generator.normal(size=shape)) / np.sqrt(2)
    return Signal((signal.samples + level * noise).astype(np.complex64), signal.rate, signal.kind, signal.provenance)


def _excerpt(signal: Signal) -> Signal:
    """One segment of the first channel is enough to look at; an image stays whole."""
    from planformer.signals import Signal

    if signal.kind == "image":
        return signal
    return Signal(signal.samples[:1, :5120], signal.rate, signal.kind, dict(signal.provenance))


def _panel(axis: Any, version: Signal, original: Signal) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    if version is not original:
        axis.set_title(f"{snr_db(original.samples.real, version.samples.real):.1f} dB", fontsize=8)
    if original.kind == "image":
        axis.imshow(_pixels(version), cmap="gray", vmin=0, vmax=255)
    else:
        middle = original.n // 2
        span = slice(max(0, middle - SHOWN_SAMPLES // 2), middle + SHOWN_SAMPLES // 2)
        axis.plot(version.samples[0, span].real, linewidth=0.7)
        peak = float(np.abs(original.samples[0, span].real).max()) or 1.0
        axis.set_ylim(-1.2 * peak, 1.2 * peak)


def _pixels(signal: Signal) -> npt.NDArray[np.uint8]:
    from planformer.signals import roll_back

    height, width = int(signal.provenance["height"]), int(signal.provenance["width"])
    pixels = np.clip(roll_back(signal.samples.real, height, width), 0, 255)  # (channels, H, W)
    return np.moveaxis(pixels, 0, -1).squeeze().astype(np.uint8)


def snr_db(reference: npt.NDArray[np.floating], estimate: npt.NDArray[np.floating]) -> float:
    """Power of the reference over that of the error, in dB.

    >>> round(snr_db(np.array([1.0, -1.0]), np.array([0.9, -0.9])), 1)
    20.0
    """
    error = float(np.sum((reference - estimate) ** 2))
    return float(10 * np.log10(float(np.sum(reference**2)) / max(error, 1e-30)))
