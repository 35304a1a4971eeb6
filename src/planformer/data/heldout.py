"""Evaluation sets of simulated radio: other radios, channels and days than training (paper, Appendix E.2.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from planformer.data.collections import Recording
from planformer.data.conversion import RealRecording, convert
from planformer.data.powder import find_powder
from planformer.data.recordings import RecordingSet
from planformer.data.resampling import TARGET_RATE
from planformer.data.simulator import EVALUATION_RECORDINGS, plan_evaluation, write_recordings
from planformer.errors import InputError

EVALUATION_SEED = 20_000  # added to the user's seed, so that no training set shares a channel or a symbol

REAL_LIMIT = 500_000  # samples of a real recording that are used: 100 sequences are enough for a probe


@dataclass(frozen=True, eq=False)
class EvaluationSet:
    """Sequences with labels; ``groups`` is the recording: sequences of one must not be on both sides of a split."""

    name: str
    samples: npt.NDArray[np.complex64]  # [n, 5120]
    labels: npt.NDArray[np.int64]
    classes: list[str]
    groups: npt.NDArray[np.int64]
    test: npt.NDArray[np.bool_]  # the fixed test set; recordings are whole
    protocols: list[str]
    rate: float = TARGET_RATE


def in_test_set(recording: Recording, recordings: int) -> bool:
    """Whether it is among the last 40 % of the ``recordings`` of its class: the fixed test set."""
    return recording.index >= round(0.6 * recordings)


def write_evaluation(
    folder: Path,
    seed: int = 0,
    *,
    sequences: int = 20,
    recordings: int = EVALUATION_RECORDINGS,
    powder: Path | None = None,
) -> Iterator[tuple[str, int, bool]]:
    """Write both sets below ``folder``; yields (emitter, samples, whether new) for each recording.

    The last 40 % of the recordings of each class are the fixed test set. With ``powder``, the fingerprint set is
    day 2 of the real POWDER recordings in that folder, its sessions 4 and 5 being the test set.
    """
    for name, part in plan_evaluation(sequences, recordings).items():
        if name == "fingerprint" and powder is not None:
            for real in _real_fingerprint(powder):
                yield str(real.labels["emitter"]), real.resampled, convert(real, folder / name, REAL_LIMIT)[1]
            continue
        for recording, new in write_recordings(
            part, folder / name, EVALUATION_SEED + seed, test=lambda r: in_test_set(r, recordings)
        ):
            yield recording.emitter.name, recording.samples, new


def planned_evaluation(powder: Path | None = None, *, recordings: int = EVALUATION_RECORDINGS) -> tuple[int, int]:
    """How many recordings and samples :func:`write_evaluation` will write."""
    sizes = {name: [r.samples for r in part] for name, part in plan_evaluation(recordings=recordings).items()}
    if powder is not None:
        sizes["fingerprint"] = [recording.resampled for recording in _real_fingerprint(powder)]
    return sum(map(len, sizes.values())), sum(map(sum, sizes.values()))


def _real_fingerprint(root: Path) -> list[RealRecording]:
    found = find_powder(root, "day 2")
    return [
        dataclasses.replace(recording, labels=recording.labels | {"test": recording.labels["place"] in ("s4", "s5")})
        for recording in found
    ]


def evaluation_sets(folder: str | Path) -> dict[str, EvaluationSet]:
    """Load ``modulation`` (8 classes, held-out radio) and ``fingerprint`` (4 stations, day 2, 5G unseen).

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> done = list(write_evaluation(root, sequences=1, recordings=2))
    >>> {name: part.samples.shape for name, part in evaluation_sets(root).items()}
    {'modulation': (16, 5120), 'fingerprint': (24, 5120)}
    """
    root = Path(folder)
    result = {}
    for name, key in (("modulation", "protocol"), ("fingerprint", "emitter")):
        if not (root / name).is_dir():
            raise InputError(f"{root}: no folder {name} in it; `planformer simulate eval --out {root}` makes it")
        data = RecordingSet.from_folder(root / name)
        text = [str(file.label(key)) for file in data.files]
        classes = sorted(set(text))
        labels = np.array([classes.index(value) for value in text], np.int64)
        test = np.array([bool(file.label("test")) for file in data.files])
        result[name] = EvaluationSet(
            name=name,
            samples=data.sequences(np.arange(len(data))),
            labels=labels[data.recordings],
            classes=classes,
            groups=data.recordings,
            test=test[data.recordings],
            protocols=data.protocols,
        )
    return result
