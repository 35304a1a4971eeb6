"""From a run's folder to the weights that are shipped: the files, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from planformer.errors import InputError
from planformer.models.weights import PROVENANCE, Component, read_component, write_component
from planformer.training.run_folder import RunFolder
from planformer.training.summary import summarise

_COMPONENTS = {
    "model": "planformer-encoder",
    "decoder": "planformer-decoder",
    "separation": "planformer-separation",
}

# What is left of a run that has been described before; info lists these.
_WHICH_RUN = ("run", "step", "weights", "sequences_seen", "sha256", "continues", "average_of")

# Folders of the machine that trained: of no use to others.
_PATHS: dict[str, Any] = {"data": {"folder"}, "probe": {"compass_data"}, "networks": {"init_from"}}


def find_weights(run: RunFolder, which: str) -> Path:
    """``best``, ``last``, or the name of a folder below ``milestones``."""
    if not run.path.is_dir():
        raise InputError(f"{run.path}: no such folder")
    candidates = {"best": run.best, "last": run.last}
    folder = candidates.get(which, run.path / "milestones" / which)
    if not (folder / "model.safetensors").is_file():
        kept = sorted(path.name for path in (run.path / "milestones").glob("step-*"))
        there = [name for name, path in candidates.items() if path.is_dir()] + kept
        raise InputError(f"{run.path}: no weights {which!r}; there are: {', '.join(there) or 'none yet'}")
    return folder


def publish(paths: Path | Sequence[Path], out: Path, *, which: str = "best", gate: bool = False) -> Path:
    """Copy weights out of a run and add their provenance: data, steps, recipe, commit, probe results.

    A run that continued weights (``networks.init_from``) lists where these come from, first run first.
    Several runs that began from the same weights are averaged, parameter by parameter; the provenance then lists each.
    One of several may be a folder of weights itself, say those that the runs began from. Networks that only some of
    them have, as the decoder of the shipped weights, are left out: they belong to one encoder.
    ``gate`` puts the Parseval gate back that a run may leave out to be faster (``model.parseval_gate: false``): it has
    no parameters of its own and hardly moves the embedding. The provenance says how the run was made.
    Everything is read and verified first; the folder that comes out is what ``PlanFormer.from_pretrained`` reads.
    """
    folders = [paths] if isinstance(paths, Path) else list(paths)
    runs = [None if len(folders) > 1 and _is_weights(path) else RunFolder(path) for path in folders]
    sources = [find_weights(run, which) if run else path for run, path in zip(runs, folders, strict=True)]
    if out.resolve() in {source.resolve() for source in sources}:
        raise InputError(f"{out}: is the run's own folder; choose another one")
    stored = [_components(source, gate=gate) for source in sources]
    if len(stored) > 1:  # a decoder belongs to one encoder, so what not all of them have is not averaged
        common = set.intersection(*(set(parts) for parts in stored))
        stored = [{name: part for name, part in parts.items() if name in common} for parts in stored]
    origins = [_origin(parts, run) for run, parts in zip(runs, stored, strict=True)]
    provenance = origins[0] if len(runs) == 1 else {"data": origins[0].get("data"), "average_of": origins}
    provenance = said_once(provenance)
    components = _averaged(stored, sources)
    for name, (config, tensors) in components.items():
        write_component(out, name, tensors, config, architecture=_COMPONENTS[name], provenance=provenance)
    return out


def publish_decoder(path: Path, out: Path, *, which: str = "best") -> Path:
    """Add the decoder of a run to the weights folder ``out``, which holds the very encoder it was trained behind.

    The encoder's files and what is known of their past stay as they are; the decoder's own past stands beside it.
    """
    run = RunFolder(path)
    source = find_weights(run, which)
    stored = _components(source, gate=False)
    if "decoder" not in stored:
        raise InputError(f"{source}: this run has no decoder (recipe: networks.decoder: compact)")
    encoder = read_component(out, "model", architecture=_COMPONENTS["model"]).tensors
    own = stored["model"].tensors
    if encoder.keys() != own.keys() or any(not torch.equal(encoder[name], own[name]) for name in own):
        raise InputError(f"{out}: another encoder than the one behind which the decoder of {path} was trained")
    origin = _provenance(stored["model"].provenance, run)
    earlier = [past for past in _earlier(run) if _decodes(past)]
    decoder = stored["decoder"]
    write_component(
        out,
        "decoder",
        decoder.tensors,
        decoder.config,
        architecture=_COMPONENTS["decoder"],
        provenance={"decoder": origin | ({"continues": earlier} if earlier else {})},
    )
    return out


def _decodes(origin: dict[str, Any]) -> bool:
    """Whether the run of a provenance trained a decoder, too."""
    decoder = origin.get("recipe", {}).get("networks", {}).get("decoder", "none")
    return bool(decoder != "none")


def _is_weights(path: Path) -> bool:
    return (path / "model.safetensors").is_file() and not RunFolder(path).info_file.is_file()


def _components(source: Path, *, gate: bool) -> dict[str, Component]:
    found = {
        name: read_component(source, name, architecture=architecture)
        for name, architecture in _COMPONENTS.items()
        if (source / f"{name}.safetensors").is_file()
    }
    if gate:
        config = {key: value for key, value in found["model"].config.items() if key != "parseval_gate"}
        found["model"] = replace(found["model"], config=config)
    return found


def _origin(parts: dict[str, Component], run: RunFolder | None) -> dict[str, Any]:
    """Where one source comes from: the run and those before it, or what published weights say of themselves.

    Of a decoder that is not among the parts, nothing is said.
    """

    def of_parts(told: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in told.items() if key != "decoder" or key in parts}

    stored = parts["model"].provenance
    if run is None:
        return of_parts(stored)
    origin = _provenance(stored, run)
    if before := _earlier(run):
        origin["continues"] = [of_parts(past) for past in before]
    return origin


def said_once(provenance: dict[str, Any], told: set[str] | None = None) -> dict[str, Any]:
    """A provenance in which every run is described once, where it comes first; after that only which run it was.

    Averages share their past, and averages of averages share it many times over.

    >>> run = {"run": {"name": "a"}, "step": 4, "recipe": {"seed": 1}}
    >>> said_once({"average_of": [run, {"run": {"name": "b"}, "continues": [run]}]})["average_of"][1]["continues"]
    [{'run': {'name': 'a'}, 'step': 4}]
    """
    told = set() if told is None else told
    result = dict(provenance)
    for key in ("continues", "average_of"):  # the past is told first
        if key in result:
            result[key] = [said_once(origin, told) for origin in result[key]]
    if provenance.get("run"):
        which = json.dumps([provenance.get(key) for key in ("run", "step", "weights")], sort_keys=True)
        if which in told:
            return {key: value for key, value in result.items() if key in _WHICH_RUN}
        told.add(which)
    return result


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


def _earlier(run: RunFolder, seen: frozenset[Path] = frozenset()) -> list[dict[str, Any]]:
    """The provenance of each run before this one, first run first, as far back as their folders are still there."""
    start = run.recipe().networks.init_from
    source = Path(start).resolve() if start is not None else None
    if source is None or source in seen or not (source / PROVENANCE).is_file():
        return []
    stored = read_component(source, "model", architecture=_COMPONENTS["model"])
    weights = {"model.safetensors": stored.sha256}
    folder = next((path for path in list(source.parents)[:2] if RunFolder(path).info_file.is_file()), None)
    if folder is None:  # weights that were published, with their own past beside them
        past = stored.provenance.get("continues", [])
        return [*past, {key: value for key, value in stored.provenance.items() if key != "continues"}]
    before = RunFolder(folder)
    return [*_earlier(before, seen | {source}), _provenance(stored.provenance, before) | {"sha256": weights}]


def _provenance(origin: dict[str, Any], run: RunFolder) -> dict[str, Any]:
    summary = summarise(run.path)
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
