"""The rows that choices may be made on, and the report's own protocol on them.

A test part is looked at once, for weights that were chosen before. To choose, the same probes, splits and whole signals
are needed on other rows: :func:`validation_task` gives them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planformer.errors import InputError
from planformer.evaluation.tasks.base import Task, TaskData

RADIO = {"rf-modulation": "modulation", "powder": "fingerprint"}  # task -> its set of `planformer simulate eval`


def validation_part(name: str, data: TaskData) -> TaskData:
    """The rows a choice may be made on: a task's fixed test part, or TinySOL's last fold, is never among them."""
    if data.test is not None:
        data = data.subset(~data.test)
    if name.startswith("tinysol") and data.groups is not None:
        return data.subset(data.groups != "fold 4")
    return data


def validation_task(task: Task, data_dir: Path, radio: Path) -> TaskData:
    """What `planformer evaluate --validation` probes instead of the whole task.

    A simulated radio task is the set of another seed in ``radio``, with its own fixed test set; every other task is its
    :func:`validation_part`. Recordings that the report itself is scored on are refused.
    """
    if task.name in RADIO:
        from planformer.evaluation.tasks.rf import simulated

        other = simulated(radio, RADIO[task.name])
        if task.present(data_dir) and task.load(data_dir).fingerprint() == other.fingerprint():
            raise InputError(f"{radio}: the recordings that the report is scored on; simulate others with --seed 1")
        return replace(other, notes=(*other.notes, "validation: not the recordings of the report"))
    whole = task.load(data_dir)
    part = replace(validation_part(task.name, whole), test=None)
    remark = "validation: no row of the test part"
    if len(part) == len(whole):
        remark = "validation: the task has no test part, so these are the report's rows, too"
    return replace(part, notes=(*part.notes, remark))
