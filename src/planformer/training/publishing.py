"""From a run's folder to the weights that are shipped: the files, and where they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planformer.errors import InputError
from planformer.training.run_folder import RunFolder
from planformer.training.summary import RunSummary, summarise

_COMPONENTS = {
    "model": "planformer-encoder",
    "decoder": "planformer-decoder",
    "separation": "planformer-separation",
}

# Folders of the machine that trained: of no use to others.
_PATHS: dict[str, Any] = {"data": {"folder"}, "probe": {"compass_data"}, "networks": {"init_from"}}


def find_weights(run: RunFolder, which: str) -> Path:
    """``best``, ``last``, or the name of a folder below ``milestones``."""
    candidates = {"best": run.best, "last": run.last}
    folder = candidates.get(which, run.path / "milestones" / which)
    if not (folder / "model.safetensors").is_file():
        kept = sorted(path.name for path in (run.path / "milestones").glob("step-*"))
        there = [name for name, path in candidates.items() if path.is_dir()] + kept
        raise InputError(f"{run.path}: no weights {which!r}; there are: {', '.join(there) or 'none yet'}")
    return folder


def publish(path: Path, out: Path, *, which: str = "best") -> Path:
    """Copy weights out of a run and add their provenance: data, steps, recipe, commit, probe results.

    Everything is read and verified first; the folder that comes out is what ``PlanFormer.from_pretrained`` reads.
    """
    from planformer.models.weights import read_component, write_component

    run = RunFolder(path)
    source = find_weights(run, which)
    stored = {
        name: read_component(source, name, architecture=architecture)
        for name, architecture in _COMPONENTS.items()
        if (source / f"{name}.safetensors").is_file()
    }
    if out.resolve() == source.resolve():
        raise InputError(f"{out}: is the run's own folder; choose another one")
    origin = stored["model"].provenance
    provenance = _provenance(summarise(path), origin, run)
    for name, component in stored.items():
        write_component(
            out, name, component.tensors, component.config, architecture=_COMPONENTS[name], provenance=provenance
        )
    return out


def _provenance(summary: RunSummary, origin: dict[str, Any], run: RunFolder) -> dict[str, Any]:
    step, weights = origin.get("step"), origin.get("weights")

    def at_this_step(records: list[dict[str, Any]]) -> dict[str, Any]:
        for record in records:
            if record.get("step") == step and record.get("weights") == weights:
                return {key: value for key, value in record.items() if key not in ("kind", "step", "weights")}
        return {}

    info = summary.info
    return {
        "weights": weights,
        "step": step,
        "sequences_seen": origin.get("sequences_seen"),
        "recipe": run.recipe().model_dump(mode="json", exclude=_PATHS),
        "data": info.get("data"),
        "run": {key: info.get(key) for key in ("name", "started", "commit", "seed", "processes", "architecture")},
        "radio_probe": at_this_step(summary.probes),
        "compass": at_this_step(summary.compass),
        "radio_probe_at_start": next((r.get("accuracy") for r in summary.probes if r.get("step") == 0), None),
        "compass_at_start": next((r.get("mean") for r in summary.compass if r.get("step") == 0), None),
    }
