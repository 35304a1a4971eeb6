"""From a run's folder to the weights that are shipped: the files, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from planformer.errors import InputError
from planformer.training.run_folder import RunFolder
from planformer.training.summary import RunSummary, summarise

if TYPE_CHECKING:
    from planformer.models.weights import Component

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


def publish(paths: Path | Sequence[Path], out: Path, *, which: str = "best") -> Path:
    """Copy weights out of a run and add their provenance: data, steps, recipe, commit, probe results.

    Several runs that began from the same weights are averaged, parameter by parameter; the provenance then lists each.
    Everything is read and verified first; the folder that comes out is what ``PlanFormer.from_pretrained`` reads.
    """
    from planformer.models.weights import write_component

    runs = [RunFolder(path) for path in ([paths] if isinstance(paths, Path) else paths)]
    sources = [find_weights(run, which) for run in runs]
    if out.resolve() in {source.resolve() for source in sources}:
        raise InputError(f"{out}: is the run's own folder; choose another one")
    stored = [_components(source) for source in sources]
    origins = [
        _provenance(summarise(run.path), parts["model"].provenance, run)
        for run, parts in zip(runs, stored, strict=True)
    ]
    provenance = origins[0] if len(runs) == 1 else {"data": origins[0]["data"], "average_of": origins}
    components = _averaged(stored, sources)
    for name, (config, tensors) in components.items():
        write_component(out, name, tensors, config, architecture=_COMPONENTS[name], provenance=provenance)
    return out


def _components(source: Path) -> dict[str, Component]:
    from planformer.models.weights import read_component

    return {
        name: read_component(source, name, architecture=architecture)
        for name, architecture in _COMPONENTS.items()
        if (source / f"{name}.safetensors").is_file()
    }


def _averaged(
    stored: Sequence[dict[str, Component]], sources: Sequence[Path]
) -> dict[str, tuple[dict[str, Any], dict[str, Tensor]]]:
    """Mean of each parameter; one run's weights stay bit for bit what they are."""
    first = stored[0]
    for parts, source in zip(stored, sources, strict=True):
        if parts.keys() != first.keys() or any(parts[name].config != first[name].config for name in first):
            raise InputError(f"{source}: other networks than in {sources[0]}, they can't be averaged")
    if len(stored) == 1:
        return {name: (part.config, part.tensors) for name, part in first.items()}
    return {
        name: (
            part.config,
            {
                key: torch.stack([parts[name].tensors[key].double() for parts in stored]).mean(0).to(value.dtype)
                for key, value in part.tensors.items()
            },
        )
        for name, part in first.items()
    }


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
