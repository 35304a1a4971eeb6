"""Ablations: same data, same steps, one change; mean and spread over seeds of the frozen-probe results."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planformer.errors import ConfigError, InputError
from planformer.files import replace_file
from planformer.training.recipe import Recipe, build_recipe, merge, parse_change
from planformer.training.run_folder import RunFolder, check_run
from planformer.training.summary import summarise

BASELINE = "baseline"
UNTRAINED = "untrained"


@dataclass(frozen=True)
class Variant:
    """One row of the table: a name and what it changes."""

    name: str
    changes: tuple[str, ...]


def parse_variants(changes: Sequence[str]) -> list[Variant]:
    """The baseline and one variant per ``--change``; several values that belong together are separated by spaces.

    >>> [v.name for v in parse_variants(["model.pooling=frequency", "seed=1 ema.decay=0.9"])]
    ['baseline', 'model.pooling=frequency', 'seed=1 ema.decay=0.9']
    """
    variants = [Variant(BASELINE, ())]
    for change in changes:
        parts = tuple(change.split())
        for part in parts:
            parse_change(part)
        variants.append(Variant(" ".join(parts), parts))
    names = [variant.name for variant in variants]
    if len(set(names)) < len(names):
        raise ConfigError("--change: the same change is given twice")
    return variants


def shorten(recipe: Recipe, steps: int) -> dict[str, Any]:
    """Schedule for a run of exactly ``steps`` steps in up to eight milestones, probed at both ends."""
    milestones = max(k for k in range(1, 9) if steps % k == 0)
    return {
        "schedule": {
            "milestones": milestones,
            "steps_per_milestone": steps // milestones,
            "warmup_steps": min(recipe.schedule.warmup_steps, steps // 4),
        },
        "curriculum": {"cycles": min(recipe.curriculum.cycles, milestones)},
        "probe": {
            "every_milestones": milestones,
            "compass_every_milestones": milestones if recipe.probe.compass_data else 0,
            "tsne_every_milestones": 0,
            "pictures_every_milestones": 0,
        },
        "monitor": {"min_effective_rank": 0.0, "min_deviation": 0.0},
    }


def run_ablation(
    recipe: Recipe,
    changes: Sequence[str],
    out: Path,
    *,
    steps: int,
    seeds: Sequence[int],
    note: Callable[[str], None] = lambda text: None,
    show: bool = True,
) -> list[dict[str, Any]]:
    """Train every variant with every seed (finished ones are kept), and return the table's rows."""
    from planformer.training.start import pretrain

    variants = parse_variants(changes)
    base = merge(recipe.model_dump(mode="json"), shorten(recipe, steps))
    # A wrong key is found before anything is trained.
    plans = {
        (v, seed): build_recipe(base, [*v.changes, f"seed={seed}"], where=v.name) for v in variants for seed in seeds
    }
    results: dict[str, list[dict[str, float]]] = {}
    for (variant, seed), plan in plans.items():
        folder = out / f"{_file_name(variant.name)}-seed{seed}"
        if not _finished(folder, plan):
            note(f"{variant.name}, seed {seed} ...")
            pretrain(plan, folder, show=show)
            if not _finished(folder, plan):
                raise InputError(f"{folder}: interrupted; the same command goes on where it was")
        start = UNTRAINED if variant.name == BASELINE else f"{variant.name}, {UNTRAINED}"
        results.setdefault(start, []).append(final_scores(folder, step=0))
        results.setdefault(variant.name, []).append(final_scores(folder, step=steps))
    # A change of the encoder has a start of its own; the others begin as the baseline does.
    same = [name for name, runs in results.items() if name.endswith(f", {UNTRAINED}") and runs == results[UNTRAINED]]
    rows = table_rows({name: runs for name, runs in results.items() if name not in same})
    text = json.dumps({"steps": steps, "seeds": list(seeds), "rows": rows}, indent=2) + "\n"
    replace_file(out / "ablation.json", lambda path: _write(path, text))
    return rows


def final_scores(folder: Path, *, step: int) -> dict[str, float]:
    """Radio probe and every compass task at one step, of the averaged weights where they were measured."""
    summary = summarise(folder)
    scores: dict[str, float] = {}
    for kind, records in (("radio", summary.probes), ("compass", summary.compass)):
        own = [r for r in records if r.get("step") == step]
        chosen = [r for r in own if r.get("weights") == "ema"] or own
        if not chosen:
            continue
        if kind == "radio":
            scores["radio"] = float(chosen[-1]["accuracy"])
            scores["effective rank"] = float(chosen[-1]["effective_rank"])
        else:
            scores |= {k: float(v) for k, v in chosen[-1].items() if isinstance(v, float)}
    if not scores:
        raise InputError(f"{folder}: no probe result at step {step}; probe.every_milestones is 0?")
    return scores


def table_rows(results: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """Mean and sample deviation of each score for each variant, and the difference to the baseline's mean."""
    reference = {key: statistics.fmean(run[key] for run in results[BASELINE]) for key in results[BASELINE][0]}
    rows = []
    for name, runs in results.items():
        row: dict[str, Any] = {"variant": name, "runs": len(runs)}
        for key, base in reference.items():
            values = [run[key] for run in runs if key in run]
            mean = statistics.fmean(values)
            spread = statistics.stdev(values) if len(values) > 1 else None
            row[key] = {"mean": mean, "spread": spread, "difference": mean - base}
        rows.append(row)
    return rows


def table_text(rows: list[dict[str, Any]], keys: Sequence[str] | None = None) -> str:
    """The table for a terminal: mean ± spread for each score."""
    keys = keys or [key for key in rows[0] if key not in ("variant", "runs")]
    width = max(len(str(row["variant"])) for row in rows) + 2
    lines = [f"{'variant':<{width}}" + "".join(f"{key:>20}" for key in keys)]
    for row in rows:
        cells = []
        for key in keys:
            cell = row[key]
            spread = "" if cell["spread"] is None else f" ± {cell['spread']:.2f}"
            cells.append(f"{cell['mean']:.2f}{spread}")
        lines.append(f"{row['variant']:<{width}}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def _finished(folder: Path, plan: Recipe) -> bool:
    """Whether this very run is complete; a folder that holds another one is refused."""
    check_run(folder, plan)
    run = RunFolder(folder)
    if not run.recipe_file.is_file() or not run.metrics_file.is_file():
        return False
    return (run.last / "model.safetensors").is_file() and summarise(folder).steps >= plan.schedule.total_steps


def _file_name(name: str) -> str:
    """A folder's name; where the change's own had to be altered, a few digits keep two of them apart."""
    safe = "".join(c if c.isalnum() or c in "-._=" else "_" for c in name)[:80]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
