"""The compass: fixed rows, never a test part, cheap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planformer.errors import InputError
from planformer.evaluation.compass import PER_CLASS, CompassSet, compass, compass_sets
from planformer.evaluation.tasks import get_task
from planformer.evaluation.validation import validation_part


def spectrum(segments: np.ndarray) -> np.ndarray:
    bands = np.abs(np.fft.fft(segments[:, 0], axis=1)).reshape(len(segments), 64, 80).mean(axis=2)
    return np.log(bands + 1e-3)


@pytest.mark.shared_data
def test_a_spectrum_beats_noise_and_the_answer_is_reproducible(data_dir: Path) -> None:
    first = compass(spectrum, data_dir, "tiny")
    assert first == compass(spectrum, data_dir, "tiny")
    rng = np.random.default_rng(0)
    noise = compass(lambda segments: rng.standard_normal((len(segments), 16)), data_dir, "tiny")
    assert first["mean"] > noise["mean"] + 0.2
    assert {"fsdd-speaker", "fsdd-digit", "tinysol-family", "quake", "mnist"} <= set(first)


@pytest.mark.shared_data
def test_small_is_affordable(data_dir: Path) -> None:
    segments = sum(part.segments.shape[0] * part.segments.shape[1] for part in compass_sets(data_dir, "small").values())
    assert segments < 2000


@pytest.mark.shared_data
def test_rows_are_never_test_rows(data_dir: Path) -> None:
    clips = validation_part("fsdd-digit", get_task("fsdd-digit").load(data_dir))
    assert min(int(path.stem.split("_")[2]) for path in clips.items) == 5
    assert len(validation_part("mnist", get_task("mnist").load(data_dir))) == 60_000
    notes = validation_part("tinysol-instrument", get_task("tinysol-instrument").load(data_dir))
    assert notes.groups is not None and "fold 4" not in set(notes.groups)
    for name in PER_CLASS:
        task = get_task(name)
        if task.present(data_dir):
            part = validation_part(name, task.load(data_dir))
            assert part.test is None or not part.test.any()


def test_folds_keep_groups_apart_or_not_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that know a row's group only: no help where groups are kept apart, the answer where they are mixed."""
    groups = np.repeat(np.arange(12), 8)
    labels = np.array(["one", "two", "three"])[np.arange(12) % 3][groups]
    segments = np.zeros((96, 1, 1, 5120), np.complex64)
    segments[:, 0, 0, 0] = groups
    targets = {name: (labels, groups.astype(str)) for name in ("fsdd-digit", "powder")}
    parts = {"fsdd-digit": CompassSet(segments, targets)}
    monkeypatch.setattr("planformer.evaluation.compass.compass_sets", lambda *_, **__: parts)

    def which_group(rows: np.ndarray) -> np.ndarray:
        return np.eye(12)[rows[:, 0, 0].real.astype(int)]

    apart, mixed = compass(which_group, "unused"), compass(which_group, "unused", folds="reported")
    assert apart["fsdd-digit"] < 0.5 and mixed["fsdd-digit"] == 1.0
    assert apart["powder"] == mixed["powder"] < 0.5, "its first split in the report is by recording"


def test_empty_folder_and_unknown_size_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of the compass's data sets"):
        compass(spectrum, tmp_path)
    with pytest.raises(InputError, match="size is one of"):
        compass(spectrum, tmp_path, "huge")  # type: ignore[arg-type]
