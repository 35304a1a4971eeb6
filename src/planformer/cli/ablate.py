"""``planformer ablate``: what one change of a recipe is worth."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def ablate(
    recipe: Path = typer.Argument(..., help="Recipe of the baseline, e.g. recipes/cpu.yaml."),
    changes: list[str] = typer.Option([], "--change", help="key.path=value; several in quotes belong together."),
    steps: int = typer.Option(200, "--steps", min=1, help="Training steps of every run."),
    seeds: str = typer.Option("0,1", "--seeds", help="Comma-separated seeds; the spread is over them."),
    out: Path = typer.Option(Path("runs/ablation"), "--out", "-o", help="Folder; finished runs in it are kept."),
    data: Path | None = typer.Option(None, "--data", help="Folder of labelled SigMF recordings."),
    compass: Path | None = typer.Option(None, "--compass", help="Folder of data sets for the frozen probes."),
    settings: list[str] = typer.Option([], "--set", help="Change a value in every run, baseline included."),
    full: bool = typer.Option(False, "--all-tasks", help="A column for every task, not only the mean."),
) -> None:
    """Same data, same steps, one change: a table of frozen-probe results.

    Example: planformer ablate recipes/cpu.yaml --data radio/ --change model.pooling=frequency --steps 200 --seeds 0,1
    """
    from planformer.errors import ConfigError
    from planformer.training.ablation import run_ablation, table_text
    from planformer.training.recipe import load_recipe

    try:
        numbers = [int(seed) for seed in seeds.split(",")]
    except ValueError as error:
        raise ConfigError(f"--seeds {seeds!r}: write numbers separated by commas, e.g. 0,1") from error
    given = [f"data.folder={data}"] if data is not None else []
    given += [f"probe.compass_data={compass}"] if compass is not None else []
    base = load_recipe(recipe, [*settings, *given])
    out.mkdir(parents=True, exist_ok=True)
    rows = run_ablation(base, changes, out, steps=steps, seeds=numbers, note=lambda text: typer.echo(text, err=True))
    short = [key for key in ("radio", "mean", "effective rank") if key in rows[0]]
    typer.echo(table_text(rows, None if full else short))
