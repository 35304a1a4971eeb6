"""``planformer separate``: a mixture into its dominant source and the interferer, two files of the same format."""

from __future__ import annotations

from pathlib import Path

import typer

from planformer.cli import _restore as shared

app = typer.Typer(add_completion=False)


@app.command()
def separate(
    file: Path = shared.FILE,
    output: Path = typer.Option(..., "-o", "--output", help="out.wav writes out-a.wav (dominant) and out-b.wav."),
    weights: str = shared.WEIGHTS,
    kind: str = shared.KIND,
    rate: float = shared.RATE,
    compare: Path = shared.COMPARE,
    reference: list[Path] = typer.Option(None, help="The sources a and b, in this order: prints SNR and SI-SDR."),
    batch_size: int = shared.BATCH,
) -> None:
    """Split a mixture of two sources; the dominant one goes to NAME-a, the other to NAME-b.

    Example: planformer separate mixture.sigmf-meta -o sources.sigmf-meta --compare sources.png
    """
    shared.restore(
        "separate",
        file,
        output,
        weights=weights,
        batch_size=batch_size,
        compare=compare,
        references=reference,
        kind=kind,
        rate=rate,
    )
