"""A quick, fixed reading of an encoder on real signals, for choices that are made many times (training, ablations).

The rows are a fixed *validation* subset: never the test parts (MNIST's t10k, spoken digits with n below 5, TinySOL's
fold 4, the documents' and cells' test parts). Segments are prepared once in a process and kept in memory. The probe is
:func:`planformer.evaluation.ridge.ridge_probe`, so the figures rank encoders but are not those of the report.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.evaluation.ridge import ridge_probe
from planformer.evaluation.tasks import TaskData, get_task
from planformer.evaluation.validation import validation_part
from planformer.signals import PreprocessConfig, prepare, prepare_images
from planformer.signals.signal import Signal

Segments = npt.NDArray[np.complex64]
# Prepared segments [n, segments, 5120] -> features [n, d]; `PlanFormer.embed_segments` is one.
EmbedFunction = Callable[[Segments], npt.NDArray[np.floating]]
Size = Literal["tiny", "small", "medium"]
Folds = Literal["grouped", "reported"]

# task -> items of each class in the size "small"; "tiny" takes a third, "medium" four times as many.
PER_CLASS: dict[str, int] = {
    "rf-modulation": 20,
    "powder": 30,
    "fsdd-digit": 24,
    "tinysol-instrument": 12,
    "quake": 30,
    "text-topic": 24,
    "bloodcells": 20,
    "mnist": 24,
    "fashion-mnist": 24,
}
SCALE: dict[str, float] = {"tiny": 1 / 3, "small": 1.0, "medium": 4.0}
# A second label of the same rows costs no second embedding. The digit says nothing about who speaks, so the speaker
# is probed on random folds; families keep the notes' grouped folds.
SHARED_ROWS = {"tinysol-instrument": ("tinysol-family", True), "fsdd-digit": ("fsdd-speaker", False)}
# Tasks whose first split in the report has every group on both sides: random folds, or a test part of known speakers.
MIXED_GROUPS = ("fsdd-digit", "tinysol-instrument", "tinysol-family", "quake")


@dataclass(frozen=True, eq=False)
class CompassSet:
    """Prepared rows, segments ``[n, channels, 1, 5120]``, and the labels and groups of each task that reads them."""

    segments: Segments
    targets: Mapping[str, tuple[npt.NDArray[np.str_], npt.NDArray[np.str_] | None]]


def compass(
    embed_fn: EmbedFunction,
    data_dir: str | Path,
    size: Size = "small",
    *,
    config: PreprocessConfig | None = None,
    tasks: tuple[str, ...] | None = None,
    folds: Folds = "grouped",
) -> dict[str, float]:
    """Ridge-probe accuracy of each task whose data are present, and their ``"mean"``.

    ``folds``: groups (recordings, speakers, pitches) are kept apart wherever a task has them, or, with "reported", only
    where the report's first split keeps them apart. Weights were chosen by the first that lost by the second
    (docs/decisions.md, "What the tenth round tried"): look at both.

    ``embed_fn`` maps prepared segments ``[n, segments, 5120]`` (complex64) to features ``[n, d]``:

        compass(model.embed_segments, "data")["mean"]
    """
    results: dict[str, float] = {}
    for part in compass_sets(data_dir, size, config=config, tasks=tasks).values():
        n, channels = part.segments.shape[:2]
        flat = part.segments.reshape(n * channels, *part.segments.shape[2:])  # (n * channels, 1, 5120)
        features = np.asarray(embed_fn(flat), dtype=np.float64)
        features = features.reshape(n, -1)  # channels side by side
        for name, (labels, groups) in part.targets.items():
            mixed = folds == "reported" and name in MIXED_GROUPS
            results[name] = ridge_probe(features, labels, groups=None if mixed else groups)
    if results:
        results["mean"] = float(np.mean(list(results.values())))
    return results


def compass_sets(
    data_dir: str | Path,
    size: Size = "small",
    *,
    config: PreprocessConfig | None = None,
    tasks: tuple[str, ...] | None = None,
) -> dict[str, CompassSet]:
    """The prepared rows of each task that is present (cached in this process)."""
    if size not in SCALE:
        raise InputError(f"size is one of {', '.join(SCALE)}, not {size!r}")
    root, settings = Path(data_dir), config or PreprocessConfig()
    names = [name for name in PER_CLASS if tasks is None or name in tasks]
    found = {name: _compass_set(name, root, size, settings) for name in names if get_task(name).present(root)}
    if not found:
        raise InputError(f"{root}: none of the compass's data sets is here ({', '.join(names)})")
    return found


@functools.lru_cache(maxsize=64)
def _compass_set(name: str, root: Path, size: Size, config: PreprocessConfig) -> CompassSet:
    data = validation_part(name, get_task(name).load(root))
    count = max(6, round(PER_CLASS[name] * SCALE[size]))
    data = data.subset(_even_rows(data, count))
    if data.is_images:
        segments = prepare_images(data.items, config)
    else:
        segments = np.stack([_first_segment(data.signal(i), config) for i in range(len(data))])
    targets = {name: (data.labels, data.groups)}
    if name in SHARED_ROWS:
        other_name, grouped = SHARED_ROWS[name]
        other = get_task(other_name).load(root)
        by_path = dict(zip(map(str, other.items), other.labels, strict=True))
        labels = np.array([by_path[str(path)] for path in data.items])
        targets[other_name] = (labels, data.groups if grouped else None)
    return CompassSet(segments, targets)


def _even_rows(data: TaskData, per_class: int) -> npt.NDArray[np.int64]:
    """``per_class`` rows of each class, drawn with a fixed seed, so the subset never depends on the model."""
    rng = np.random.default_rng(8)
    rows = []
    for label in data.class_names:
        of_class = np.flatnonzero(data.labels == label)
        rows.append(rng.permutation(of_class)[:per_class])
    return np.sort(np.concatenate(rows))


def _first_segment(signal: Signal, config: PreprocessConfig) -> Segments:
    """One segment a channel: of a long signal the one an eighth in, past a note's attack and a document's opening."""
    length = config.segment_length
    if signal.n > length and signal.kind not in ("image", "video"):
        start = min(signal.n // 8, signal.n - length)
        crop = signal.samples[:, start : start + length]
        signal = Signal(crop, signal.rate, signal.kind, dict(signal.provenance))
    return prepare(signal, config)[:, :1]
