"""``planformer runs``: summaries of training runs."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Summaries of training runs.")


@app.command()
def show(folder: Path = typer.Argument(..., help="Folder of one run, e.g. runs/first.")) -> None:
    """Progress, speed, losses and probes of one run. Example: planformer runs show runs/first"""
    from planformer.training.summary import summarise, summary_text

    typer.echo(summary_text(summarise(folder)))


@app.command("list")
def list_runs(folder: Path = typer.Argument(Path("runs"), help="Folder that holds runs.")) -> None:
    """One line per run. Example: planformer runs list runs"""
    from planformer.errors import InputError, PlanFormerError
    from planformer.training.summary import summarise

    paths = sorted(path.parent for path in folder.glob("*/recipe.yaml"))
    if not paths:
        raise InputError(f"{folder}: no run below it (a run has a recipe.yaml)")
    typer.echo(f"{'run':<28}{'step':>14}{'loss':>10}{'radio %':>9}{'compass':>9}")
    for path in paths:
        try:
            s = summarise(path)
        except PlanFormerError as error:
            typer.echo(f"{path.name:<28}{error}")
            continue
        probe, compass = s.best("probe"), s.best("compass")
        radio = f"{probe['accuracy']:.1f}" if probe else "-"
        mean = f"{compass['mean']:.2f}" if compass else "-"
        typer.echo(f"{path.name:<28}{f'{s.steps}/{s.total_steps}':>14}{s.last_loss:>10.3f}{radio:>9}{mean:>9}")
