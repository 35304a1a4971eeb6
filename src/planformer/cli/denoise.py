"""``planformer denoise``: a file through encoder and decoder, into a file of the same format."""

from __future__ import annotations

from pathlib import Path

import typer

from planformer.cli import _restore as shared

app = typer.Typer(add_completion=False)


@app.command()
def denoise(
    file: Path = shared.FILE,
    output: Path = shared.OUTPUT,
    weights: str = shared.WEIGHTS,
    kind: str = shared.KIND,
    rate: float = shared.RATE,
    compare: Path = shared.COMPARE,
    reference: Path = shared.REFERENCE,
    ablate: bool = shared.ABLATE,
    batch_size: int = shared.BATCH,
) -> None:
    """Remove noise from a file. The output has the input's format, rate, length and channels.

    Example: planformer denoise recording.wav -o out.wav --compare out.png
    """
    references = [] if reference is None else [reference]
    shared.restore(
        "denoise",
        file,
        output,
        weights=weights,
        batch_size=batch_size,
        compare=compare,
        references=references,
        ablate=ablate,
        kind=kind,
        rate=rate,
    )
