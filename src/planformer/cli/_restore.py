"""What ``reconstruct``, ``denoise`` and ``separate`` share: load, restore into a file, compare, report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from planformer.models.restoration import Restorer, Task
    from planformer.models.restoration_files import Progress

FILE = typer.Argument(..., help="A sound, SigMF recording, image, seismogram, array ...")
OUTPUT = typer.Option(..., "-o", "--output", help="Same format as the input; its suffix if you give none.")
WEIGHTS = typer.Option(None, help="Weights folder, hub name, or random (untrained control); default: shipped.")
KIND = typer.Option(None, help="iq, audio, seismic, image, video, text, array; default: by the file's content.")
RATE = typer.Option(None, help="Samples per second, for files that don't say.")
BATCH = typer.Option(16, "--batch-size", min=1, help="Segments that go through the networks at once.")
COMPARE = typer.Option(None, help="Write a PNG: input, output, difference, spectrograms.")
REFERENCE = typer.Option(None, help="The clean signal: prints SNR and SI-SDR before and after.")
DECODED = "The decoder's own waveform, as in the paper, instead of the input through the filter it describes."
ABLATE = typer.Option(False, "--ablate", help="Print a table: skips zeroed, latents zeroed, random weights.")


def one_output(task: Task, text: str) -> typer.Typer:
    """The app of a verb with one output: ``reconstruct`` and ``denoise`` differ in the task and the help."""
    app = typer.Typer(add_completion=False)

    @app.command(name=task, help=text)
    def verb(
        file: Path = FILE,
        output: Path = OUTPUT,
        weights: str = WEIGHTS,
        kind: str = KIND,
        rate: float = RATE,
        compare: Path = COMPARE,
        reference: Path = REFERENCE,
        ablate: bool = ABLATE,
        decoded: bool = typer.Option(False, "--decoded", help=DECODED, hidden=task != "denoise"),
        batch_size: int = BATCH,
    ) -> None:
        restore(
            task,
            file,
            output,
            weights=weights,
            batch_size=batch_size,
            compare=compare,
            references=[] if reference is None else [reference],
            ablate=ablate,
            decoded=decoded,
            kind=kind,
            rate=rate,
        )

    return app


def restore(
    task: Task,
    file: Path,
    output: Path,
    *,
    weights: str | None,
    batch_size: int,
    compare: Path | None = None,
    references: list[Path] | None = None,
    ablate: bool = False,
    decoded: bool = False,
    **read: Any,
) -> None:
    """The verbs' body."""
    options = {key: value for key, value in read.items() if value is not None}
    restorer = load(weights).variant(refined=not decoded)
    from planformer.models.restoration_files import restore_file

    with _progress(f"{task} {file.name}") as progress:
        targets = restore_file(restorer, task, file, output, batch_size=batch_size, progress=progress, **options)
    typer.echo("written: " + ", ".join(str(target) for target in targets), err=True)
    if compare is not None or references or ablate or task == "reconstruct":
        _report(restorer, task, file, targets, compare, references or [], ablate, options)


def load(weights: str | None) -> Restorer:
    """Encoder and decoder of a weights folder, or both untrained."""
    from planformer.models.planformer import PlanFormer

    return PlanFormer.load(weights).restorer


def _report(
    restorer: Restorer,
    task: Task,
    file: Path,
    targets: list[Path],
    picture: Path | None,
    references: list[Path],
    ablate: bool,
    options: dict[str, Any],
) -> None:
    """Figures block by block; the table and the picture need the whole recording in memory."""
    from planformer.models.restoration_compare import ablation_table, compare_files, draw
    from planformer.signals import read

    clean = references or ([file] if task == "reconstruct" else [])
    for target, reference in zip(targets, clean, strict=False):
        line = f"{target.name}: {_figures(compare_files(reference, target, **options))}"
        if reference != file:
            line += f" (input: {_figures(compare_files(reference, file, **options))})"
        typer.echo(line)
    if not ablate and picture is None:
        return
    options = {"channels": "each", **options}
    signal = read(file, **options)
    if ablate:
        reference_signal = read(clean[0], **options) if clean else signal
        _print_table(ablation_table(restorer, signal, task, reference_signal))
    if picture is not None:
        draw(picture, signal, {target.stem: read(target, **options) for target in targets})
        typer.echo(f"written: {picture}", err=True)


def _figures(measured: dict[str, float]) -> str:
    return f"SNR {measured['snr_db']:.2f} dB, SI-SDR {measured['si_sdr_db']:.2f} dB"


def _print_table(rows: list[dict[str, Any]]) -> None:
    typer.echo(f"{'variant':<16}{'SNR dB':>9}{'SI-SDR dB':>11}")
    for row in rows:
        typer.echo(f"{row['variant']:<16}{row['snr_db']:>9.2f}{row['si_sdr_db']:>11.2f}")


@contextmanager
def _progress(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,.0f} samples"))
    with Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        number = bar.add_task(title, total=None)
        yield lambda samples: bar.advance(number, samples)
