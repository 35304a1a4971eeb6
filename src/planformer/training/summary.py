"""A run in a few lines: how far it is, how fast it was, where its time went, what its probes say."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planformer.errors import InputError
from planformer.training.metrics import read_metrics
from planformer.training.run_folder import RunFolder
from planformer.training.timing import PHASES


@dataclass
class RunSummary:
    """What ``planformer runs show`` prints."""

    path: Path
    info: dict[str, Any]
    steps: int
    total_steps: int
    first_loss: float
    last_loss: float
    seconds_per_step: float
    samples_per_second: float
    shares: dict[str, float]
    probes: list[dict[str, Any]] = field(default_factory=list)
    compass: list[dict[str, Any]] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return self.steps >= self.total_steps

    def best(self, kind: str) -> dict[str, Any] | None:
        """The record with the highest accuracy (radio probe) or mean (compass)."""
        records, key = (self.probes, "accuracy") if kind == "probe" else (self.compass, "mean")
        scored = [record for record in records if isinstance(record.get(key), float)]
        return max(scored, key=lambda record: record[key]) if scored else None


def summarise(path: Path) -> RunSummary:
    """Read a run's folder; works while the run is going on."""
    folder = RunFolder(path)
    recipe = folder.recipe()
    if not folder.metrics_file.is_file():
        raise InputError(f"{path}: no metrics.jsonl yet; the run has not finished its first step")
    records: dict[str, list[dict[str, Any]]] = {"step": [], "probe": [], "compass": []}
    for record in read_metrics(folder.metrics_file):
        records.setdefault(str(record["kind"]), []).append(record)
    steps = records["step"]
    seconds = [float(record["seconds"]) for record in steps[1:] or steps]
    totals = {phase: sum(float(r.get(f"seconds_{phase}", 0.0)) for r in steps) for phase in PHASES}
    everything = sum(totals.values()) or 1.0
    return RunSummary(
        path=path,
        info=folder.info(),
        steps=int(steps[-1]["step"]) if steps else 0,
        total_steps=recipe.schedule.total_steps,
        first_loss=float(steps[0]["loss"]) if steps else float("nan"),
        last_loss=statistics.fmean(float(r["loss"]) for r in steps[-20:]) if steps else float("nan"),
        seconds_per_step=statistics.median(seconds) if seconds else 0.0,
        samples_per_second=statistics.median(float(r["samples_per_second"]) for r in steps) if steps else 0.0,
        shares={phase: value / everything for phase, value in totals.items()},
        probes=records["probe"],
        compass=records["compass"],
    )


def summary_text(summary: RunSummary) -> str:
    """The summary as lines of text."""
    info = summary.info
    state = "finished" if summary.finished else "not finished"
    left = (summary.total_steps - summary.steps) * summary.seconds_per_step / 3600
    lines = [
        f"{summary.path.name}: step {summary.steps} of {summary.total_steps} ({state}, {left:.1f} h left)",
        f"  started   {info.get('started')}, planformer {info.get('planformer')}, commit {info.get('commit')}",
        f"  data      {info.get('data', {}).get('sequences')} sequences of {info.get('data', {}).get('emitters')} "
        f"emitters, seed {info.get('seed')}, {info.get('processes')} process(es)",
        f"  loss      {summary.first_loss:.3f} at the start, {summary.last_loss:.3f} over the last 20 steps",
        f"  speed     {summary.samples_per_second:.1f} samples/s, {summary.seconds_per_step:.2f} s a step; "
        + ", ".join(f"{phase} {share:.1%}" for phase, share in summary.shares.items()),
    ]
    for kind, records, key in (("probe", summary.probes, "accuracy"), ("compass", summary.compass, "mean")):
        lines += _curve(kind, records, key)
    return "\n".join(lines)


def _curve(kind: str, records: list[dict[str, Any]], key: str) -> list[str]:
    """One line per kind of weights: the score over the steps."""
    lines = []
    for weights in sorted({str(record.get("weights")) for record in records}):
        own = [r for r in records if r.get("weights") == weights and isinstance(r.get(key), float)]
        if own:
            shown = own if len(own) <= 8 else [own[round(i * (len(own) - 1) / 7)] for i in range(8)]
            curve = "  ".join(f"{r['step']}: {r[key]:.2f}" for r in shown)
            lines.append(f"  {kind:<9} {weights:<4} {curve}")
    return lines
