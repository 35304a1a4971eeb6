"""The tasks by name. ``get_task("mnist").load(data_dir)`` gives labelled items and their split."""

from __future__ import annotations

import importlib

from planformer.errors import InputError
from planformer.evaluation.tasks.base import Task, TaskData

# name -> "module:class", in the order of the paper's table, then the further public sets.
TASKS: dict[str, str] = {
    "rf-modulation": "rf:RfModulation",
    "powder": "rf:Powder",
    "tidyvoice-speaker": "audio:TidyVoiceSpeaker",
    "tidyvoice-language": "audio:TidyVoiceLanguage",
    "tinysol-family": "audio:TinySolFamily",
    "tinysol-instrument": "audio:TinySolInstrument",
    "gtzan": "audio:Gtzan",
    "seismic": "seismic:Seismic",
    "arxiv-topic": "text:ArxivTopic",
    "arxiv-field": "text:ArxivField",
    "mnist": "images:Mnist",
    "fashion-mnist": "images:FashionMnist",
    "pathmnist": "images:PathMnist",
    "cifake": "images:Cifake",
    "mitosis": "video:Mitosis",
    "mitosis-first-frame": "video:MitosisFirstFrame",
    "fsdd-speaker": "audio:FsddSpeaker",
    "fsdd-digit": "audio:FsddDigit",
    "quake": "seismic:Quake",
    "bloodcells": "images:BloodCells",
    "text-topic": "text:TextTopic",
    "text-field": "text:TextField",
}

__all__ = ["TASKS", "Task", "TaskData", "get_task"]


def get_task(name: str) -> Task:
    """The task called ``name``.

    >>> get_task("mnist").type
    'mixed'
    """
    if name not in TASKS:
        raise InputError(f"there is no task {name!r}: choose from {', '.join(TASKS)}")
    module, cls = TASKS[name].split(":")
    task = getattr(importlib.import_module(f"planformer.evaluation.tasks.{module}"), cls)()
    assert isinstance(task, Task)
    return task
