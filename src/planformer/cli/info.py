"""``planformer info``: versions, device, weights, parameter and MAC counts, measured on the live modules."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from typing import Any

import typer

app = typer.Typer(add_completion=False)

# Extra -> one distribution that shows whether it is installed.
EXTRAS = {
    "video": "av",
    "seismic": "pymseed",
    "eval": "fvcore",
    "export": "onnxruntime",
    "serve": "fastapi",
    "hub": "huggingface_hub",
    "rf": "sionna-no-rt",
    "track": "tensorboard",
    "scale": "ray",
}


@app.command()
def info(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
    weights: str = typer.Option(None, "--weights", help="A weights folder to describe instead of the shipped one."),
) -> None:
    """What is installed, which weights are found, parameter and MAC counts.

    Example: planformer info --json
    """
    facts = collect(weights)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _print(facts)


def collect(weights: str | None = None) -> dict[str, Any]:
    """Everything `planformer info` says, as plain values."""
    import torch

    from planformer import __version__
    from planformer.models.inventory import mac_counts, parameter_counts

    return {
        "planformer": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "extras": {extra: _version(name) for extra, name in EXTRAS.items()},
        "weights": _weights(weights),
        "parameters": parameter_counts(),
        "macs": mac_counts(),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _weights(source: str | None) -> dict[str, Any]:
    from planformer.models.planformer import ARCHITECTURE
    from planformer.models.pretrained import resolve, shipped_folder, shipped_variants
    from planformer.models.restoration import DECODER, SEPARATION
    from planformer.models.weights import read_component, weights_name

    folder = shipped_folder() if source is None else resolve(source)
    if folder is None:
        return {"found": False, "note": "none shipped: `PlanFormer.random(seed=0)` is the same network untrained"}
    component = read_component(folder, "model", architecture=ARCHITECTURE)
    beside = [name for name in (DECODER, SEPARATION) if (folder / weights_name(name)).is_file()]
    return {
        "found": True,
        "folder": str(folder),
        "sha256": component.sha256,
        "beside": beside,
        "variants": sorted(shipped_variants()),
        "provenance": component.provenance,
    }


def _runs(provenance: dict[str, Any]) -> list[str]:
    """A line for each run behind published weights, first run first; none where the file does not tell.

    By the clock where every run says when it began: the members of an average may have pasts of unlike length.
    """
    told = _told(provenance)
    began = {which: json.loads(which)[0].get("started") for which, _ in told}
    if all(isinstance(time, str) for time in began.values()):
        told.sort(key=lambda run: began[run[0]])
    return [line for _, line in told]


def _told(provenance: dict[str, Any]) -> list[tuple[str, str]]:
    """Which run, and its line. Averages may share their past, and two of their runs may have lines that are equal."""

    def of(key: str) -> list[list[tuple[str, str]]]:
        found = provenance.get(key, [])
        return [_told(origin) for origin in found if isinstance(origin, dict)] if isinstance(found, list) else []

    averaged = of("average_of")
    last = [told for runs in averaged for told in runs[-1:]]
    past = [told for runs in (*of("continues"), *(runs[:-1] for runs in averaged)) for told in runs]
    shown = [*(told for told in dict.fromkeys(past) if told not in last), *last]
    run = provenance.get("run")
    if isinstance(run, dict):
        line = f"{run.get('name')}: {provenance.get('step')} steps, {provenance.get('sequences_seen')} sequences"
        shown.append((json.dumps([run, provenance.get("step")], sort_keys=True), line))
    return shown


def _print(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"planformer {facts['planformer']}, python {facts['python']}, torch {facts['torch']}", highlight=False
    )
    console.print(f"{facts['platform']}, device {facts['device']}, {facts['threads']} threads", highlight=False)
    installed = [extra for extra, version in facts["extras"].items() if version]
    absent = [extra for extra, version in facts["extras"].items() if not version]
    console.print(f"extras: {', '.join(installed) or 'none'} (not installed: {', '.join(absent) or 'none'})")
    found = facts["weights"]
    line = (
        f"weights: {found['folder']} sha256 {found['sha256'][:12]}" if found["found"] else f"weights: {found['note']}"
    )
    console.print(line, highlight=False, markup=False)
    provenance = found.get("provenance", {})
    for run in _runs(provenance):
        console.print(f"  run {run}", highlight=False, markup=False)
    if found["found"]:
        beside = ", ".join(found["beside"]) or "no decoder: they embed, but can't restore"
        console.print(f"  beside the encoder: {beside}", highlight=False, markup=False)
        for name in found["variants"]:
            console.print(f"  also shipped: --weights {name}", highlight=False, markup=False)
    behind = provenance.get("decoder")
    for run in _runs(behind) if isinstance(behind, dict) else []:
        console.print(f"  decoder's run {run}", highlight=False, markup=False)

    table = Table("network", "parameters", "trainable", "fixed")
    for name, count in facts["parameters"].items():
        table.add_row(name, *(f"{count[key]:,}" for key in ("total", "trainable", "fixed")))
    console.print(table)
    for name, macs in facts["macs"].items():
        console.print(f"{name}: {macs / 1e6:.2f} M multiply-accumulates a segment of 5,120 samples", highlight=False)
