"""``planformer embed``: files in, one row of numbers each out; resumes where an interrupted run stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from planformer.errors import InputError

if TYPE_CHECKING:
    from planformer.deploy.corpus import Row, RowOptions
    from planformer.deploy.table import Journal
    from planformer.models.planformer import PlanFormer

app = typer.Typer(add_completion=False)
ENGINES = ("auto", "torch", "ray")


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
    engine: str = typer.Option("auto", help="torch (auto: this) or ray: many processes or machines, extra scale."),
    workers: int = typer.Option(None, min=1, help="Processes of --engine ray; default: one for each core."),
    keep_going: bool = typer.Option(False, "-k", "--keep-going", help="Report bad files and go on (exit code 1)."),
    restart: bool = typer.Option(False, help="Drop a half-done output instead of resuming it."),
) -> None:
    """Embed files: one row per file, 256 numbers for each of its channels.

    Example: planformer embed a.wav b.sigmf-meta c.png d.txt -o out.parquet
    """
    from planformer.deploy.corpus import RowOptions
    from planformer.deploy.table import Journal, check_target

    check_target(output)
    check_engine(engine, workers)
    paths = list(collect_files(files, recursive=recursive))
    from planformer.models.planformer import PlanFormer

    model = PlanFormer.load(weights)
    options = RowOptions(channels, kind, rate, readout, batch_size)
    # The engine is no part of the settings: its rows are the same, so one engine may finish what another began.
    settings = {"fingerprint": model.fingerprint, **options.settings()}
    with Journal(output, settings, restart=restart) as journal:
        bad = fill(journal, model, paths, options, engine=engine, workers=workers, keep_going=keep_going)
        good = journal.finish([str(path) for path in paths])
    typer.echo(f"{good} rows in {output}" + (f", {bad} files skipped" if bad else ""), err=True)
    if bad:
        raise typer.Exit(1)


def check_engine(engine: str, workers: int | None) -> None:
    """Say what is wrong before the weights are loaded."""
    if engine not in ENGINES:
        raise InputError(f"--engine {engine}: choose one of {', '.join(ENGINES)}")
    if engine == "ray":
        from planformer.deploy.scale import import_ray

        import_ray()
    elif workers is not None:
        raise InputError("--workers: only with --engine ray")


def fill(
    journal: Journal,
    model: PlanFormer,
    paths: list[Path],
    options: RowOptions,
    *,
    engine: str = "auto",
    workers: int | None = None,
    keep_going: bool = False,
) -> int:
    """Embed what the journal does not have yet; returns how many files were bad."""
    stamps = {str(path): _stamp(path) for path in paths}
    todo = [path for path in paths if not journal.has(str(path), stamps[str(path)])]
    if len(todo) < len(paths):
        typer.echo(f"resuming: {len(paths) - len(todo)} of {len(paths)} files are done", err=True)
    if engine == "ray":
        from planformer.deploy.scale import ray_rows

        rows = ray_rows(model, todo, options, workers=workers)
    else:
        from planformer.deploy.corpus import embed_rows

        rows = embed_rows(model, todo, options, keep_going=keep_going)
    bad = 0
    with closing(rows):  # also when a bad file ends it early: workers stop now, not at the garbage collector's leisure
        for row in _progress(rows, len(todo)):
            if row.error is None:
                fields = {"kind": row.kind, "channels": row.channels, "segments": row.segments}
                journal.append(row.path, fields, row.embedding, stamp=stamps[row.path])
            elif keep_going:
                bad += 1
                typer.echo(f"skipped: {row.error}", err=True)
            else:
                raise row.error
    return bad


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


def _progress(rows: Iterable[Row], total: int) -> Iterator[Row]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("embedding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        for row in rows:
            yield row
            bar.advance(task)
