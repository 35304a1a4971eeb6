"""Rows to choose by: no test row, radio of another seed, and the report's own recordings refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from planformer.data.heldout import write_evaluation
from planformer.errors import InputError
from planformer.evaluation.run import task_splits
from planformer.evaluation.tasks import get_task
from planformer.evaluation.validation import validation_task


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A data folder with spoken digits and the report's radio, and radio of another seed."""
    root = tmp_path_factory.mktemp("validation")
    recordings = root / "data" / "fsdd" / "recordings"
    recordings.mkdir(parents=True)
    for digit in range(2):
        for n in range(9):
            soundfile.write(recordings / f"{digit}_ann_{n}.wav", np.random.default_rng(n).normal(size=800) * 0.1, 8000)
    for seed, folder in ((0, root / "data" / "radio-eval"), (1, root / "other")):
        list(write_evaluation(folder, seed, sequences=1, recordings=2))
    return root / "data", root / "other"


def test_no_row_of_a_test_part_is_left(folders: tuple[Path, Path]) -> None:
    data, radio = folders
    task = get_task("fsdd-digit")
    part = validation_task(task, data, radio)
    assert len(task.load(data)) == 18 and task.load(data).test.sum() == 10
    assert sorted({int(Path(item).stem.split("_")[2]) for item in part.items}) == [5, 6, 7, 8]
    assert next(iter(task_splits(part))) == "random 5-fold"
    assert "no row of the test part" in part.notes[-1]


@pytest.mark.parametrize("name", ["rf-modulation", "powder"])
def test_radio_is_of_another_seed_with_its_own_test_set(folders: tuple[Path, Path], name: str) -> None:
    data, radio = folders
    task = get_task(name)
    part, reported = validation_task(task, data, radio), task.load(data)
    assert part.labels.tolist() == reported.labels.tolist() and part.test.tolist() == reported.test.tolist()
    assert not np.isclose(part.items, reported.items).all(axis=1).any()  # not one sequence in common
    assert next(iter(task_splits(part))) == "fixed test set"


def test_the_recordings_of_the_report_are_refused(folders: tuple[Path, Path]) -> None:
    data, _ = folders
    with pytest.raises(InputError, match="scored on; simulate others with --seed 1"):
        validation_task(get_task("powder"), data, data / "radio-eval")
