"""Every task with every method on the same rows and splits (paper, Experiments; Appendix "Evaluation Protocol")."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError, MissingExtraError, PlanFormerError
from planformer.evaluation.cache import FeatureCache
from planformer.evaluation.featurisers import Features, Featuriser
from planformer.evaluation.probes import ProbeResult, linear_probe, majority_probe, rbf_probe
from planformer.evaluation.splits import encode_labels, groups_usable
from planformer.evaluation.statistics import Difference, Resampled, mean_difference, resample
from planformer.evaluation.tasks import TaskData

PROBES: dict[str, Callable[..., ProbeResult]] = {"linear": linear_probe, "rbf": rbf_probe}
MAJORITY = "majority"
FIRST, GROUPED = "first", "grouped"  # a task's own split; how the name of one begins that keeps groups apart
AGAINST = "against"  # the method that other weights beside the judged ones are


class Reporter(Protocol):
    """Told what happens; the command line draws bars from it."""

    def start(self, what: str, total: int) -> None: ...
    def advance(self, count: int) -> None: ...
    def done(self, what: str, detail: str) -> None: ...


class Silent:
    """A reporter that says nothing."""

    def start(self, what: str, total: int) -> None: ...
    def advance(self, count: int) -> None: ...
    def done(self, what: str, detail: str) -> None: ...


@dataclass(frozen=True, eq=False)
class LoadedTask:
    """A task's description and its data."""

    name: str
    title: str
    type: str
    domain: str
    data: TaskData
    published: dict[str, float] = field(default_factory=dict)
    in_averages: bool = True


@dataclass(frozen=True, eq=False)
class Entry:
    """One cell: a method on a task under one split and probe."""

    task: str
    method: str
    split: str
    probe: str
    result: ProbeResult
    embed_seconds: float
    probe_seconds: float
    cached: bool
    width: int


@dataclass(eq=False)
class Evaluation:
    """All cells, and what is needed to draw them."""

    tasks: list[LoadedTask]
    methods: dict[str, str]  # name -> title, in order
    model: str  # the method that is judged
    entries: list[Entry] = field(default_factory=list)
    skipped: list[tuple[str, str, str]] = field(default_factory=list)  # (task, method, why)
    features: dict[str, Features] = field(default_factory=dict)  # the judged method's, by task

    @property
    def main_probe(self) -> str:
        """The probe of differences, averages and pictures: the linear one where it ran."""
        ran = [entry.probe for entry in self.entries if entry.method != MAJORITY]
        return ran[0] if ran and "linear" not in ran else "linear"

    def find(self, task: str, method: str, split: str, probe: str | None = None) -> Entry | None:
        """One cell; without ``probe``, of the main one."""
        wanted = (task, method, split, probe or self.main_probe)
        return next((e for e in self.entries if (e.task, e.method, e.split, e.probe) == wanted), None)

    def splits(self, task: str) -> list[str]:
        """Splits of a task, the paper's own first."""
        return list(dict.fromkeys(e.split for e in self.entries if e.task == task))

    def random_methods(self) -> list[str]:
        return [name for name in self.methods if name.startswith("random:") and "+" not in name]

    def difference(
        self, task: LoadedTask, split: str, probe: str | None = None, *, against: str | None = None
    ) -> Difference | None:
        """The judged method against the untrained encoders, or ``against`` another, item by item; None without both."""
        found = self._resampled(task, split, probe, against)
        return None if found is None else found.difference

    def mean_differences(self, against: str | None = None) -> dict[str, tuple[int, Difference]]:
        """How many tasks, and the mean difference over their :data:`FIRST` splits and over their :data:`GROUPED` ones.

        A mean is absent where there are fewer than two, or where one of them has nothing to compare with.
        """
        parts: dict[str, list[Resampled | None]] = {FIRST: [], GROUPED: []}
        for seed, task in enumerate(task for task in self.tasks if task.in_averages):
            splits = self.splits(task.name)
            chosen = {FIRST: splits[:1], GROUPED: [s for s in splits if s.startswith(GROUPED)]}
            for kind, names in chosen.items():
                parts[kind] += [self._resampled(task, split, None, against, seed=seed) for split in names]
        there = {kind: [part for part in found if part is not None] for kind, found in parts.items()}
        complete = {kind: found for kind, found in there.items() if 1 < len(found) == len(parts[kind])}
        return {kind: (len(found), mean_difference(found)) for kind, found in complete.items()}

    def _resampled(
        self, task: LoadedTask, split: str, probe: str | None, against: str | None, *, seed: int = 0
    ) -> Resampled | None:
        own = self.find(task.name, self.model, split, probe)
        references = self.random_methods() if against is None else [against]
        others = [e for m in references if m != self.model and (e := self.find(task.name, m, split, probe))]
        if own is None or not others:
            return None
        groups = resampling_groups(task.data, split)
        return resample(own.result.correct, [e.result.correct for e in others], groups=groups, seed=seed)


def resampling_groups(data: TaskData, split: str) -> npt.NDArray[Any] | None:
    """The groups that a difference on ``split`` is resampled by, None for items one by one.

    Whole groups wherever a split keeps them apart: sequences of one recording are right or wrong together, so a test
    set of a few recordings is only as large as their number. A fixed test set keeps them apart if no group of it is in
    the training rows.
    """
    groups, test = data.groups, data.test
    if groups is None or split.startswith(GROUPED):
        return groups
    if test is None or not test.any() or np.isin(groups[test], groups[~test]).any():
        return None
    return groups


def task_splits(data: TaskData) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Splits by name, as arguments for a probe: the paper's own, and grouped folds where groups are known."""
    splits: dict[str, dict[str, npt.NDArray[Any]]] = {}
    if data.test is not None and data.test.any():
        splits["fixed test set"] = {"test": data.test}
    else:
        splits["random 5-fold"] = {}
    if groups_usable(encode_labels(data.labels)[0], data.groups):
        assert data.groups is not None
        splits[f"{GROUPED} 5-fold by {data.group_name or 'group'}"] = {"groups": data.groups}
    return splits


def limit_rows(data: TaskData, limit: int | None, seed: int = 0) -> TaskData:
    """At most ``limit`` rows, with the same share of each class and of the test part; the notes say so."""
    if limit is None or len(data) <= limit:
        return data
    from dataclasses import replace

    strata = data.labels if data.test is None else np.char.add(data.labels, np.where(data.test, "|test", "|train"))
    rng = np.random.default_rng(seed)
    rows = []
    for stratum in np.unique(strata):
        of = np.flatnonzero(strata == stratum)
        rows.append(rng.permutation(of)[: max(1, round(limit * len(of) / len(data)))])
    kept = data.subset(np.sort(np.concatenate(rows)))
    return replace(kept, notes=(*kept.notes, f"{len(kept)} of {len(data)} items, drawn with seed {seed}"))


def evaluate(
    tasks: Sequence[LoadedTask],
    methods: Iterable[Featuriser],
    *,
    model: str,
    majority: bool = True,
    probes: Sequence[str] = ("linear",),
    cache: FeatureCache | None = None,
    seed: int = 0,
    reporter: Reporter | None = None,
) -> Evaluation:
    """Run everything. A method that does not apply to a task is noted, not an error."""
    unknown = [p for p in probes if p not in PROBES]
    if unknown:
        raise InputError(f"there is no probe {unknown[0]!r}: choose from {', '.join(PROBES)}")
    featurisers = list(methods)
    titles = {f.name: f.title for f in featurisers} | ({MAJORITY: "most frequent class"} if majority else {})
    run = Evaluation(list(tasks), titles, model)
    cache, reporter = cache or FeatureCache(None), reporter or Silent()
    for task in tasks:
        for featuriser in featurisers:
            _one(run, task, featuriser, probes, cache, seed, reporter)
        if majority:
            for split, arguments in task_splits(task.data).items():
                result = majority_probe(task.data.labels, seed=seed, **arguments)
                run.entries.append(Entry(task.name, MAJORITY, split, "linear", result, 0.0, 0.0, False, 0))
    return run


def _one(
    run: Evaluation,
    task: LoadedTask,
    featuriser: Featuriser,
    probes: Sequence[str],
    cache: FeatureCache,
    seed: int,
    reporter: Reporter,
) -> None:
    reason = featuriser.not_applicable(task.data)
    if reason is not None:
        run.skipped.append((task.name, featuriser.name, reason))
        return
    what = f"{task.name} · {featuriser.name}"
    reporter.start(what, len(task.data))
    began = time.perf_counter()
    try:
        features, cached = cache.features(featuriser, task.data, reporter.advance)
    except MissingExtraError as error:
        run.skipped.append((task.name, featuriser.name, str(error)))
        reporter.done(what, f"skipped: {error}")
        return
    except PlanFormerError as error:
        raise type(error)(f"{what}: {error}") from error
    embedded = time.perf_counter() - began
    if featuriser.name == run.model:
        run.features[task.name] = features
    texts = []
    for probe in probes:
        for split, arguments in task_splits(task.data).items():
            started = time.perf_counter()
            result = PROBES[probe](features, task.data.labels, seed=seed, **arguments)
            seconds = time.perf_counter() - started
            run.entries.append(
                Entry(task.name, featuriser.name, split, probe, result, embedded, seconds, cached, features.shape[1])
            )
            texts.append(f"{100 * result.top1_mean:.1f} %")
    reporter.done(what, " / ".join(texts))
