"""``planformer publish``: a run's weights as a folder for others."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def publish(
    runs: list[Path] = typer.Argument(..., help="Folder of the run; several, or a run and weights, are averaged."),
    out: Path = typer.Option(..., "--out", "-o", help="Weights folder to write."),
    which: str = typer.Option("best", "--which", help="best, last, or the name of a folder below milestones/."),
    gate: bool = typer.Option(False, "--gate", help="Use the Parseval gate although the run left it out."),
    decoder: bool = typer.Option(
        False, "--decoder", help="Only the decoder, into a weights folder with the encoder it was trained behind."
    ),
) -> None:
    """Write a weights folder with its provenance. Example: planformer publish runs/first --out weights/

    Several runs that began from the same weights are averaged: planformer publish runs/a runs/b -o weights/
    So are a run and the weights it began from: planformer publish runs/a START -o weights/
    """
    from planformer.errors import InputError
    from planformer.training.publishing import publish as write
    from planformer.training.publishing import publish_decoder

    if decoder:
        if len(runs) > 1 or gate:
            raise InputError("--decoder takes one run, and leaves the encoder as it is: no averages, no --gate")
        typer.echo(f"written: {publish_decoder(runs[0], out, which=which)}", err=True)
        return
    typer.echo(f"written: {write(runs, out, which=which, gate=gate)}", err=True)
