"""`planformer simulate`: write simulated radio recordings with emitter labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from planformer.errors import InputError

if TYPE_CHECKING:
    from planformer.data.collections import Recording

app = typer.Typer(add_completion=False)

_WHAT = ("oracle", "powder", "modulation", "commodity", "fm", "all", "eval")


@app.command()
def simulate(
    what: str = typer.Argument(..., help=f"One of {', '.join(_WHAT)}."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder for the recordings; an interrupted run is continued."),
    samples: str | None = typer.Option(
        None, "--samples", help="Complex samples at 7.69 MHz, e.g. 60M. Default: 200M for all."
    ),
    hours: float | None = typer.Option(
        None, "--hours", help="Hours of signal instead of samples (1 h is 27.7 G samples)."
    ),
    seed: int = typer.Option(0, "--seed", help="The same seed gives the same bytes."),
) -> None:
    """Write labelled SigMF recordings of the paper's five collections, or the held-out evaluation sets.

    Example: planformer simulate all --out radio --samples 60M
    """
    if what not in _WHAT:
        raise InputError(f"{what!r}: choose one of {', '.join(_WHAT)}")
    if samples is not None and hours is not None:
        raise InputError("give either --samples or --hours, not both")
    from planformer.data.heldout import write_evaluation
    from planformer.data.simulator import SHARES, plan, plan_evaluation, write_recordings

    if what == "eval":
        if samples is not None or hours is not None:
            raise InputError("the evaluation sets have a fixed size: leave out --samples and --hours")
        planned = [recording for part in plan_evaluation().values() for recording in part]
        _run(write_evaluation(out, seed), planned, out)
        return
    names = list(SHARES) if what == "all" else [what]
    count = _count(samples, hours, sum(SHARES[name] for name in names))
    planned = plan(names, count, seed)
    _run(write_recordings(planned, out, seed), planned, out)


def _count(samples: str | None, hours: float | None, share: float) -> int:
    """Number of samples to write; one collection alone defaults to its share of the whole."""
    from planformer.data.resampling import TARGET_RATE
    from planformer.data.simulator import DEFAULT_SAMPLES

    if hours is not None:
        value = hours * 3600 * TARGET_RATE
    elif samples is None:
        return int(DEFAULT_SAMPLES * share)
    else:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG]?)", samples.strip())
        if not match:
            raise InputError(f"--samples {samples}: write a number such as 500000, 60M or 1.5G")
        value = float(match[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[match[2]]
    if not 1 <= value <= 1e12:
        raise InputError(f"--samples/--hours: {value:.0f} samples; ask for 1 to 1,000 G")
    return int(value)


def _run(written: Iterator[tuple[Recording, bool]], planned: Sequence[Recording], out: Path) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    total = sum(recording.samples for recording in planned)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    new = 0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("simulating", total=total)
        for recording, fresh in written:
            new += fresh
            progress.update(task, advance=recording.samples, description=recording.emitter.name)
    emitters = len({recording.emitter.name for recording in planned})
    size = f"{total / 1e6:.1f} M samples, {4 * total / 1e9:.2f} GB"
    typer.echo(f"{out}: {len(planned)} recordings ({new} new), {emitters} emitters, {size}")
