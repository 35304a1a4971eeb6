"""``planformer index``: add files to a similarity index; says what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from planformer.errors import PlanFormerError

if TYPE_CHECKING:
    from planformer.deploy.index import Index
    from planformer.models.planformer import PlanFormer

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Build a similarity index.")


@app.command()
def add(
    files: list[Path] = typer.Argument(..., help="Files of any kind; folders with --recursive."),
    to: Path = typer.Option(..., "--to", help="The index, a folder; made if there is none."),
    recursive: bool = typer.Option(False, "-r", "--recursive", help="Take every file below the given folders."),
    kind: str = typer.Option(None, help="iq, audio, seismic, image, video, text, array; default: by the content."),
    rate: float = typer.Option(None, help="Samples per second, for files that don't say."),
    weights: str = typer.Option(None, help="Weights folder, hub name, random or random:SEED; default: shipped."),
    batch_size: int = typer.Option(64, min=1, help="Segments that go through the network at once."),
    keep_going: bool = typer.Option(False, "-k", "--keep-going", help="Report bad files and go on (exit code 1)."),
) -> None:
    """Embed files into an index. The same content twice is stored once; a changed file replaces its row.

    Example: planformer index add sounds/*.wav --to idx
    """
    from planformer.cli.embed import collect_files

    paths = list(collect_files(files, recursive=recursive))
    from planformer.deploy.index import Index
    from planformer.models.planformer import PlanFormer

    model = PlanFormer.load(weights)
    index = Index.create(to, fingerprint=model.fingerprint, width=len(model.feature_names()))
    known, bad = fill(index, model, paths, keep_going=keep_going, kind=kind, rate=rate, batch_size=batch_size)
    added = len(paths) - known - bad
    typer.echo(
        f"{added} added, {known} known by content, {bad} skipped; {len(index)} items in {to}",
        err=True,
    )
    if bad:
        raise typer.Exit(1)


@app.command()
def info(index: Path = typer.Argument(..., help="An index folder.")) -> None:
    """How many items of which kinds, and the weights they were made with.

    Example: planformer index info idx
    """
    from collections import Counter

    from planformer.deploy.index import Index

    opened = Index(index)
    kinds = Counter(item.kind for item in opened.items)
    typer.echo(f"{len(opened)} items ({', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))})")
    typer.echo(f"weights {str(opened.settings['fingerprint'])[:12]}, {opened.width} numbers an item")


def fill(
    index: Index, model: PlanFormer, paths: list[Path], *, keep_going: bool = False, **options: Any
) -> tuple[int, int]:
    """Add what the index does not have; returns how many files were known by content and how many were bad."""
    from planformer.deploy.index import Item, content_hash, item_vector
    from planformer.signals.reading import open_source

    failures: list[PlanFormerError] = []

    def report(place: int, error: PlanFormerError) -> None:
        failures.append(error)
        typer.echo(f"skipped: {error}", err=True)

    with index.writer() as writer:
        todo: list[tuple[Path, str]] = []
        hashes: set[str] = set()
        for path in paths:
            try:
                sha256 = content_hash(path)
            except PlanFormerError as error:
                if not keep_going:
                    raise
                report(0, error)
                continue
            if writer.duplicate_of(sha256) is None and sha256 not in hashes:
                todo.append((path, sha256))
            hashes.add(sha256)
        known = len(paths) - len(todo) - len(failures)
        results = model.iter_embed([path for path, _ in todo], on_error=report if keep_going else None, **options)
        for found in _progress(results, len(todo)):
            path, sha256 = todo[found.index]
            kind = open_source(path, options.get("kind")).kind
            item = Item(str(path), sha256, kind, found.channels, found.segments)
            writer.add(item, item_vector(found.embedding, found.channels))
    return known, len(failures)


def _progress(results: Any, total: int) -> Any:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(results, "embedding", total=total, console=console, transient=True, disable=not console.is_terminal)
