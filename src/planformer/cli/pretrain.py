"""``planformer pretrain``: train the encoder, on one process or under torchrun."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def pretrain(
    recipe: Path = typer.Argument(..., help="YAML file with what differs from the defaults, e.g. recipes/cpu.yaml."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder of the run; an interrupted run in it is continued."),
    data: Path | None = typer.Option(None, "--data", help="Folder of labelled SigMF recordings."),
    changes: list[str] = typer.Option([], "--set", help="Change one value: key.path=value. May be repeated."),
    compass: Path | None = typer.Option(None, "--compass", help="Folder of data sets for frozen probes on the way."),
    max_steps: int | None = typer.Option(None, "--max-steps", min=0, help="Stop after this many further steps."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress on standard error."),
) -> None:
    """Train the encoder on radio recordings.

    Examples:

        planformer pretrain recipes/cpu.yaml --data radio/ --out runs/first

        torchrun --nproc-per-node 2 -m planformer pretrain recipes/cpu.yaml --data radio/ --out runs/first
    """
    from planformer.training.recipe import load_recipe
    from planformer.training.start import pretrain as start

    given = [f"data.folder={data}"] if data is not None else []
    given += [f"probe.compass_data={compass}"] if compass is not None else []
    start(load_recipe(recipe, [*changes, *given]), out, max_steps=max_steps, show=not quiet)
