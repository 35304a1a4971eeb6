"""The radio simulator: speed for each collection, reading speed, and what plain baselines make of its tasks.

Speeds are samples at 7.69 MHz per minute of CPU time on one core; the aim is 30 M for the mix of `simulate all`.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from planformer.data.heldout import EvaluationSet

AIM = 30e6  # samples a minute and core


def run() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        return [*_speeds(Path(folder) / "train"), *_baselines(Path(folder) / "eval")]


def _speeds(folder: Path) -> list[dict[str, object]]:
    from planformer.data.recordings import RecordingSet
    from planformer.data.simulator import SHARES, plan, write_recordings

    rows: list[dict[str, object]] = []
    list(write_recordings(plan(["powder", "fm"], 1, seed=1)[:6], folder / "warm", seed=1))
    seconds_per_sample = {}
    for name in SHARES:
        recordings = plan([name], 2_000_000, seed=0)
        started = time.process_time()
        list(write_recordings(recordings, folder, seed=0))
        count = sum(recording.samples for recording in recordings)
        seconds_per_sample[name] = (time.process_time() - started) / count
        rows.append({"name": f"simulate {name}", "value": 60e-6 / seconds_per_sample[name], "unit": "M samples/min"})
    mix = 60 / sum(share * seconds_per_sample[name] for name, share in SHARES.items())
    note = "ratio: to the aim of 30 M/min on one core"
    rows.append(
        {"name": "simulate all", "value": mix * 1e-6, "unit": "M samples/min", "ratio": mix / AIM, "note": note}
    )
    data = RecordingSet.from_folder(folder)
    order = np.random.default_rng(0).permutation(len(data))
    started = time.process_time()
    for start in range(0, len(order), 64):
        data.sequences(order[start : start + 64])
    speed = len(order) / (time.process_time() - started)
    return [*rows, {"name": "read sequences at random", "value": speed, "unit": "sequences/s"}]


def _baselines(folder: Path) -> list[dict[str, object]]:
    """Trivial features must stay near chance, a spectrum well above it and well below perfect."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, LinearSVC

    from planformer.data.heldout import evaluation_sets, write_evaluation

    list(write_evaluation(folder, sequences=8, recordings=10))
    rows: list[dict[str, object]] = []
    for task in [*evaluation_sets(folder).values(), _oracle(folder / "oracle")]:
        for name, values in _features(task.samples).items():
            model = LinearSVC(C=1e-4 if "raw" in name else 1e-2) if "linear" in name else SVC(C=3)
            probe = make_pipeline(StandardScaler(), model).fit(values[~task.test], task.labels[~task.test])
            accuracy = 100 * float(probe.score(values[task.test], task.labels[task.test]))
            ratio = accuracy / (100 / len(task.classes))
            title = f"{task.name}: {name}"
            rows.append({"name": title, "value": accuracy, "unit": "%", "ratio": ratio, "note": "ratio: to chance"})
    return rows


def _oracle(folder: Path) -> EvaluationSet:
    """Sixteen radios of one product that send the same frames; the last two of eight recordings of each are tested."""
    from planformer.data.collections import Recording
    from planformer.data.emitters import EMITTERS
    from planformer.data.heldout import EvaluationSet
    from planformer.data.recordings import RecordingSet
    from planformer.data.simulator import write_recordings

    places = ("14ft", "26ft", "38ft", "50ft")
    planned = [Recording(e, "WiFi", 1, k, 8 * 5120, places[k % 4]) for e in EMITTERS["oracle"] for k in range(8)]
    list(write_recordings(planned, folder, seed=0))
    data = RecordingSet.from_folder(folder)
    test = np.array([int(file.path.stem.rsplit("_", 1)[1]) >= 6 for file in data.files])[data.recordings]
    samples = data.sequences(np.arange(len(data)))
    return EvaluationSet("16 X310", samples, data.labels, data.emitters, data.recordings, test, data.protocols)


def _features(x: npt.NDArray[np.complex64]) -> dict[str, npt.NDArray[np.float32]]:
    power = np.mean(np.abs(x) ** 2, axis=1, keepdims=True)
    unit = x / np.sqrt(power)
    mean = unit.mean(1)
    frames = unit.reshape(len(x), -1, 256) * np.hanning(256).astype(np.float32)  # [n, 20, 256]
    spectrum = np.log(np.abs(np.fft.fft(frames)) ** 2 + 1e-9)
    bands = np.concatenate([spectrum.mean(1), spectrum.std(1)], 1).astype(np.float32)  # [n, 512]
    return {
        "power alone": np.log(power).astype(np.float32),
        "DC bin alone": np.stack([mean.real, mean.imag, np.log(np.abs(mean) + 1e-9)], 1).astype(np.float32),
        "spectrum, SVM": bands,
        "spectrum, linear": bands,
        "raw samples, linear": np.concatenate([unit.real, unit.imag], 1)[:, ::4].astype(np.float32),
        "sorted envelope, SVM": np.sort(np.abs(unit), axis=1)[:, ::40].astype(np.float32),
    }
