"""`planformer simulate`: labelled radio recordings, simulated or converted from real data sets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from planformer.errors import InputError

if TYPE_CHECKING:
    from planformer.data.collections import Recording

app = typer.Typer(add_completion=False)

_WHAT = ("oracle", "powder", "modulation", "commodity", "fm", "all", "stations", "eval")
STATIONS = 64


@app.command()
def simulate(
    what: str = typer.Argument(..., help=f"One of {', '.join(_WHAT)}."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder for the recordings; an interrupted run is continued."),
    samples: str | None = typer.Option(
        None, "--samples", help="Complex samples at 7.69 MHz, e.g. 60M. Default: 200M for all."
    ),
    hours: float | None = typer.Option(None, "--hours", help="Hours of signal instead (1 h is 27.7 G samples)."),
    seed: int = typer.Option(0, "--seed", help="The same seed gives the same bytes."),
    recordings: int | None = typer.Option(
        None,
        "--recordings",
        min=5,
        help="eval: recordings of each class (10); 40 make a sharper comparison of weights.",
    ),
    stations: int | None = typer.Option(None, "--stations", help="stations: how many made-up base stations (64)."),
    made_up: bool = typer.Option(
        False, "--made-up", help="powder, stations: send protocols that do not exist instead of WiFi and 4G."
    ),
    oracle: Path | None = typer.Option(
        None, "--oracle", help="Folder of the real ORACLE set: converted, not simulated."
    ),
    powder: Path | None = typer.Option(
        None, "--powder", help="Folder of the real POWDER set: converted, not simulated."
    ),
) -> None:
    """Write labelled SigMF recordings of the paper's five collections, of made-up base stations (stations), or the
    held-out evaluation sets (eval).

    Example: planformer simulate all --out radio --samples 60M
    """
    if what not in _WHAT:
        raise InputError(f"{what!r}: choose one of {', '.join(_WHAT)}")
    if samples is not None and hours is not None:
        raise InputError("give either --samples or --hours, not both")
    if stations is not None and what != "stations":
        raise InputError(f"--stations is for `simulate stations`, not for `simulate {what}`")
    if made_up and (what not in ("powder", "stations") or powder is not None):
        raise InputError("--made-up is for `simulate powder` and `simulate stations`, and not for real recordings")
    if what == "eval":
        from planformer.data.simulator import EVALUATION_RECORDINGS

        if samples is not None or hours is not None or oracle is not None:
            raise InputError(
                "the evaluation sets have a fixed size and no ORACLE: leave out --samples, --hours, --oracle"
            )
        _run([_evaluation(out, seed, powder, recordings or EVALUATION_RECORDINGS)], out)
        return
    if recordings is not None:
        raise InputError(f"--recordings is for the evaluation sets: `simulate {what}` takes --samples or --hours")
    from planformer.data.simulator import SHARES

    if what == "stations":
        if oracle is not None or powder is not None:
            raise InputError("made-up stations are simulated: leave out --oracle and --powder")
        wanted = STATIONS if stations is None else stations
        _run([_stations(wanted, _count(samples, hours, SHARES["powder"]), out, seed, made_up)], out)
        return
    names = list(SHARES) if what == "all" else [what]
    real = {name: path for name, path in (("oracle", oracle), ("powder", powder)) if path is not None}
    unused = [name for name in real if name not in names]
    if unused:
        raise InputError(f"--{unused[0]} has no use in `simulate {what}`")
    count = _count(samples, hours, sum(SHARES[name] for name in names))
    jobs = [_conversion(name, path, out) for name, path in real.items()]
    simulated = [name for name in names if name not in real]
    _run([*jobs, *([_simulation(simulated, count, out, seed, made_up)] if simulated else [])], out)


@dataclass
class _Job:
    """Something that writes recordings: how much is to come, and the work as (emitter, samples, new)."""

    samples: int
    recordings: int
    work: Iterator[tuple[str, int, bool]]


def _simulation(names: list[str], count: int, out: Path, seed: int, made_up: bool) -> _Job:
    from planformer.data.simulator import plan

    return _written(plan(names, count, seed, made_up=made_up), out, seed)


def _written(planned: list[Recording], out: Path, seed: int) -> _Job:
    from planformer.data.simulator import write_recordings

    done = write_recordings(planned, out, seed)
    return _Job(sum(r.samples for r in planned), len(planned), ((r.emitter.name, r.samples, new) for r, new in done))


def _stations(stations: int, count: int, out: Path, seed: int, made_up: bool) -> _Job:
    from planformer.data.simulator import plan_stations

    return _written(plan_stations(stations, count, seed, made_up=made_up), out, seed)


def _conversion(name: str, root: Path, out: Path) -> _Job:
    from planformer.data.conversion import convert
    from planformer.data.oracle import find_oracle
    from planformer.data.powder import find_powder

    found = find_oracle(root) if name == "oracle" else find_powder(root)
    other = [recording for recording in found if "but only" in recording.decision]
    if other:
        typer.echo(f"{other[0].data}: {other[0].decision} ({len(other)} of {len(found)} files)", err=True)
    work = ((str(r.labels["emitter"]), r.resampled, convert(r, out)[1]) for r in found)
    return _Job(sum(r.resampled for r in found), len(found), work)


def _evaluation(out: Path, seed: int, powder: Path | None, recordings: int) -> _Job:
    from planformer.data.heldout import planned_evaluation, write_evaluation

    count, samples = planned_evaluation(powder, recordings=recordings)
    return _Job(samples, count, write_evaluation(out, seed, recordings=recordings, powder=powder))


def _check_out(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: can't make this folder ({error.strerror}); choose another --out") from error


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


def _run(jobs: list[_Job], out: Path) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    _check_out(out)
    total, recordings = sum(job.samples for job in jobs), sum(job.recordings for job in jobs)
    percent = TextColumn("{task.percentage:>3.0f} %")
    columns = (TextColumn("{task.description}"), BarColumn(), percent, TimeRemainingColumn())
    new, emitters = 0, set()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("simulating", total=total)
        for job in jobs:
            for emitter, samples, fresh in job.work:
                new += fresh
                emitters.add(emitter)
                progress.update(task, advance=samples, description=emitter)
    size = f"{total / 1e6:.1f} M samples, {4 * total / 1e9:.2f} GB"
    typer.echo(f"{out}: {recordings} recordings ({new} new), {len(emitters)} emitters, {size}")
