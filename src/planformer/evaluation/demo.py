"""Three small tasks that need no download: digit images from scikit-learn, simulated radio, synthesised sounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planformer.evaluation.run import LoadedTask
from planformer.evaluation.tasks import TaskData
from planformer.evaluation.tasks.base import as_labels

SOUND_RATE = 16_000.0
SOUND_LENGTH = 5120
SOUNDS = ("plucked string", "organ", "bell", "reed", "drum", "wind")


def demo_tasks(per_class: int = 20, seed: int = 0) -> list[LoadedTask]:
    """Digits (10 classes), modulations (8) and sounds (6), ``per_class`` items each."""
    return [digits(per_class, seed), modulations(per_class, seed), sounds(per_class, seed)]


def digits(per_class: int = 20, seed: int = 0) -> LoadedTask:
    """8x8 handwritten digits that scikit-learn carries."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(np.flatnonzero(bunch.target == k))[:per_class] for k in range(10)])
    images = (bunch.images[rows] * 15.9375).astype(np.uint8)
    data = TaskData(images, as_labels(bunch.target[rows]), "image")
    return LoadedTask("digits", "Handwritten digits (8x8 images)", "mixed", "2-D", data)


def modulations(per_class: int = 20, seed: int = 0) -> LoadedTask:
    """Eight modulations of a simulated radio; items of one recording share their channel, so recordings are groups."""
    from planformer.data.collections import render
    from planformer.data.simulator import plan_evaluation

    sequences = 4
    samples, labels, groups = [], list[str](), list[str]()
    for recording in plan_evaluation(sequences, max(5, per_class // sequences))["modulation"]:
        received, _ = render(recording, 40_000 + seed)
        samples.append(received.reshape(sequences, -1))
        labels += [recording.protocol] * sequences
        groups += [recording.name] * sequences
    data = TaskData(
        np.concatenate(samples), as_labels(labels), "iq", 7.69e6, groups=as_labels(groups), group_name="recording"
    )
    return LoadedTask("modulations", "Radio modulation (simulated)", "physical", "1-D", data)


def sounds(per_class: int = 20, seed: int = 0) -> LoadedTask:
    """Six ways of making a sound, each at random pitch, loudness and noise."""
    rng = np.random.default_rng(seed)
    items = [synthesise(name, rng) for name in SOUNDS for _ in range(per_class)]
    labels = as_labels([name for name in SOUNDS for _ in range(per_class)])
    data = TaskData(np.stack(items), labels, "audio", SOUND_RATE)
    return LoadedTask("sounds", "Sound source (synthesised)", "physical", "1-D", data)


def synthesise(name: str, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """One sound of 0.32 s at 16 kHz."""
    t = np.arange(SOUND_LENGTH) / SOUND_RATE
    pitch = 110.0 * 2.0 ** rng.uniform(0, 2.5)
    if name == "plucked string":
        x = _harmonics(t, pitch, [1 / k for k in range(1, 16)], decay=rng.uniform(4, 9), damping=1.5)
    elif name == "organ":
        x = _harmonics(t, pitch, [1.0, 0.7, 0.0, 0.5, 0.0, 0.0, 0.0, 0.3]) * np.minimum(1, t / 0.03)
    elif name == "bell":
        ratios = np.array([0.5, 1.0, 1.19, 1.56, 2.0, 2.51, 2.66, 3.01, 4.1])
        x = sum(np.sin(2 * np.pi * r * 2 * pitch * t) * np.exp(-t * 3 * r) / (1 + k) for k, r in enumerate(ratios))
    elif name == "reed":
        vibrato = 1 + 0.008 * np.sin(2 * np.pi * rng.uniform(4, 7) * t)
        phase = 2 * np.pi * np.cumsum(pitch * vibrato) / SOUND_RATE
        x = np.tanh(3 * np.sin(phase) + rng.uniform(0.2, 0.6)) * np.minimum(1, t / 0.02)
    elif name == "drum":
        sweep = np.cumsum(pitch * (0.6 + 1.4 * np.exp(-t * 30))) / SOUND_RATE
        x = np.sin(2 * np.pi * sweep) * np.exp(-t * rng.uniform(8, 20)) + 0.4 * rng.standard_normal(len(t)) * np.exp(
            -t * 60
        )
    else:
        spectrum = np.fft.rfft(rng.standard_normal(len(t)))
        frequency = np.fft.rfftfreq(len(t), 1 / SOUND_RATE)
        centre = pitch * rng.uniform(2, 5)
        x = np.fft.irfft(spectrum * np.exp(-(((frequency - centre) / (0.6 * centre)) ** 2)), len(t))
    x = x / (np.sqrt(np.mean(np.square(x))) + 1e-9)
    noise = 10 ** (-rng.uniform(0, 15) / 20)
    mixed = (x + noise * rng.standard_normal(len(t))) * rng.uniform(0.05, 0.3)
    return np.asarray(mixed, dtype=np.float32)


def _harmonics(
    t: npt.NDArray[np.float64], pitch: float, weights: list[float], decay: float = 0.0, damping: float = 0.0
) -> npt.NDArray[np.float64]:
    """Harmonics below the Nyquist frequency; higher ones fade faster with ``damping``."""
    x = np.zeros_like(t)
    for k, weight in enumerate(weights, start=1):
        if k * pitch < SOUND_RATE / 2:
            x += weight * np.sin(2 * np.pi * k * pitch * t) * np.exp(-t * decay * (1 + damping * (k - 1)))
    return x
