"""Fingerprints of stations that trained the weights, and of stations that nobody has ever heard.

    python -m benchmarks.unheard_radios [--weights runs/a/last weights/old] [--groups 3]

The held-out fingerprint task (four stations on another day, a protocol that training did not know) as
`planformer simulate eval` makes it, and the same task with the hardware of other stations of the same product, four in
each group. Recordings, channels and protocols are planned alike; only who sends differs. Top-1 of the report's linear
probe: fixed test set / grouped by recording.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from planformer.data.collections import Recording, render
from planformer.data.heldout import EVALUATION_SEED, in_test_set
from planformer.data.resampling import TARGET_RATE
from planformer.data.simulator import SEQUENCE, plan_evaluation
from planformer.errors import PlanFormerError
from planformer.evaluation.cache import FeatureCache, default_cache
from planformer.evaluation.models import load_model
from planformer.evaluation.run import LoadedTask, evaluate, limit_rows
from planformer.evaluation.tasks.base import TaskData, as_labels


def planned(group: int, recordings: int) -> Iterator[Recording]:
    """The fingerprint recordings; from group 1 on, every station is replaced by another one of its product."""
    for recording in plan_evaluation(recordings=recordings)["fingerprint"]:
        station = recording.emitter
        other = replace(station, name=f"{station.name}-unheard-{group}") if group else station
        yield replace(recording, emitter=other)


def fingerprint_task(group: int, seed: int, recordings: int, limit: int) -> LoadedTask:
    """Rendered, not written: the last two fifths of each class's recordings are the test set, as in the report."""
    rows, labels, groups, test = [], list[str](), list[str](), list[bool]()
    title = f"unheard {group}" if group else "heard in training"
    plan = list(planned(group, recordings))
    for recording in track(plan, description=title):
        samples, _ = render(recording, EVALUATION_SEED + seed)
        chunks = samples[: len(samples) // SEQUENCE * SEQUENCE].reshape(-1, SEQUENCE)
        rows.append(chunks.astype(np.complex64))
        labels += [recording.emitter.name] * len(chunks)
        groups += [recording.name] * len(chunks)
        test += [in_test_set(recording, recordings)] * len(chunks)
    whole = TaskData(
        np.concatenate(rows), as_labels(labels), "iq", TARGET_RATE, as_labels(groups), "recording", np.array(test)
    )
    return LoadedTask(title, title, "physical", "1-D", limit_rows(whole, limit))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", nargs="+", default=[], help="weights folders beside the shipped ones")
    parser.add_argument("--groups", type=int, default=3, help="of four stations that were never heard")
    parser.add_argument("--recordings", type=int, default=10, help="of each station and protocol")
    parser.add_argument("--limit", type=int, default=1200, help="sequences of each task at the most")
    parser.add_argument("--seed", type=int, default=3, help="of channels and symbols; 0 is the report's own")
    options = parser.parse_args()
    if options.groups < 1 or options.recordings < 5:
        parser.error("--groups is 1 or more, --recordings 5 or more")
    try:
        models = [(name or "shipped weights", load_model(name)) for name in (None, *options.weights, "random:0")]
    except PlanFormerError as error:
        parser.error(str(error))
    tasks = [
        fingerprint_task(group, options.seed, options.recordings, options.limit) for group in range(options.groups + 1)
    ]
    cache = FeatureCache(default_cache())
    table = Table("weights", *(task.name for task in tasks), "mean of unheard")
    for name, judged in models:
        method = judged.readouts(tokens=False)
        found = []
        for task in track(tasks, description=name):
            entries = evaluate([task], method, model=judged.name, majority=False, cache=cache).entries
            found.append([100 * entry.result.top1_mean for entry in entries])
        cells = [*found, np.mean(found[1:], axis=0)]
        table.add_row(name, *(" / ".join(f"{value:.1f}" for value in cell) for cell in cells))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
