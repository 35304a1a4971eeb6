"""``planformer embed``: files in, one row of numbers each out; resumes where an interrupted run stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from planformer.errors import InputError, PlanFormerError

if TYPE_CHECKING:
    from planformer.deploy.table import Journal
    from planformer.models.planformer import PlanFormer

app = typer.Typer(add_completion=False)


@app.command()
def embed(
    files: list[Path] = typer.Argument(..., help="Files of any kind; folders with --recursive."),
    output: Path = typer.Option(..., "-o", "--output", help="out.parquet, out.csv or out.npy."),
    recursive: bool = typer.Option(False, "-r", "--recursive", help="Take every file below the given folders."),
    channels: str = typer.Option(None, help="each, mix, or a channel number; default: sound is mixed, others each."),
    kind: str = typer.Option(None, help="iq, audio, seismic, image, video, text, array; default: by the file's name."),
    rate: float = typer.Option(None, help="Samples per second, for files that don't say."),
    weights: str = typer.Option(None, help="Weights folder, hub name, random or random:SEED; default: shipped."),
    readout: str = typer.Option("latent", help="latent (256 numbers a channel) or tokens (512)."),
    batch_size: int = typer.Option(64, min=1, help="Segments that go through the network at once."),
    keep_going: bool = typer.Option(False, "-k", "--keep-going", help="Report bad files and go on (exit code 1)."),
    restart: bool = typer.Option(False, help="Drop a half-done output instead of resuming it."),
) -> None:
    """Embed files: one row per file, 256 numbers for each of its channels.

    Example: planformer embed a.wav b.sigmf-meta c.png d.txt -o out.parquet
    """
    from planformer.deploy.table import Journal, check_target

    check_target(output)
    paths = list(collect_files(files, recursive=recursive))
    from planformer.models.planformer import PlanFormer

    model = PlanFormer.load(weights)
    options: dict[str, Any] = {"channels": channels, "kind": kind, "rate": rate, "readout": readout}
    settings = {"fingerprint": model.fingerprint, **options}
    with Journal(output, settings, restart=restart) as journal:
        bad = fill(journal, model, paths, batch_size=batch_size, keep_going=keep_going, **options)
        good = journal.finish([str(path) for path in paths])
    typer.echo(f"{good} rows in {output}" + (f", {bad} files skipped" if bad else ""), err=True)
    if bad:
        raise typer.Exit(1)


def fill(
    journal: Journal,
    model: PlanFormer,
    paths: list[Path],
    *,
    batch_size: int = 64,
    keep_going: bool = False,
    readout: str = "latent",
    kind: str | None = None,
    **options: Any,
) -> int:
    """Embed what the journal does not have yet; returns how many files were bad."""
    stamps = {str(path): _stamp(path) for path in paths}
    todo = [path for path in paths if not journal.has(str(path), stamps[str(path)])]
    if len(todo) < len(paths):
        typer.echo(f"resuming: {len(paths) - len(todo)} of {len(paths)} files are done", err=True)
    failures: list[PlanFormerError] = []

    def report(index: int, error: PlanFormerError) -> None:
        failures.append(error)
        typer.echo(f"skipped: {error}", err=True)

    read = {key: value for key, value in options.items() if key == "channels" and value is not None}
    results = model.iter_embed(
        todo,
        kind=kind,
        rate=options.get("rate"),
        readout=readout,  # type: ignore[arg-type]
        batch_size=batch_size,
        on_error=report if keep_going else None,
        **read,
    )
    from planformer.signals.reading import open_source

    for found in _progress(results, len(todo), failures):
        key = str(todo[found.index])
        said = open_source(key, kind).kind  # type: ignore[arg-type]
        fields = {"kind": said, "channels": found.channels, "segments": found.segments}
        journal.append(key, fields, found.embedding, stamp=stamps[key])
    return len(failures)


def collect_files(paths: Iterable[Path], *, recursive: bool = False) -> Iterator[Path]:
    """The files to embed, each once, in the order given; folders are walked in sorted order."""
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir() and not recursive:
            raise InputError(f"{path}: is a folder; add --recursive to take the files below it")
        for file in _walk(path) if path.is_dir() else [path]:
            if file not in seen:
                seen.add(file)
                yield file
    if not seen:
        raise InputError(f"{', '.join(map(str, paths))}: no files to embed")


def _walk(folder: Path) -> Iterator[Path]:
    """Every visible file below a folder, as any file is a signal. A SigMF pair is named by its .sigmf-meta alone."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        paired = path.suffix == ".sigmf-data" and path.with_suffix(".sigmf-meta").exists()
        if path.is_file() and not hidden and not paired:
            yield path


def _stamp(path: Path) -> str:
    """Size and time of change: a row in the journal counts only for the same version of the file."""
    try:
        status = path.stat()
    except OSError:
        return ""  # the reader says what is wrong
    return f"{status.st_size}:{status.st_mtime_ns}"


def _progress(results: Iterable[Any], total: int, failures: list[PlanFormerError]) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("embedding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        for done, found in enumerate(results, 1):
            yield found
            bar.update(task, completed=done + len(failures))
