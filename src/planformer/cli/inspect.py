"""`planformer inspect`: what is in a file, before anything is computed from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from planformer.signals.summary import Summary

app = typer.Typer(add_completion=False)


@app.command()
def inspect(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE...", help="Any files: radio, sound, seismic, images, video, text."
    ),
    kind: str | None = typer.Option(None, help="Read as: iq, audio, seismic, image, video, text, array."),
    rate: float | None = typer.Option(None, help="Sample rate in Hz, for files that do not state one."),
    datatype: str | None = typer.Option(None, help="Sample format of a raw IQ file, e.g. ci16_le."),
    channels: str | None = typer.Option(None, help="each, mix, or a channel number. Default: sound is mixed."),
    key: str | None = typer.Option(None, help="The array in an npz, HDF5 or CSV file, or seismic source to take."),
    first_frame: bool = typer.Option(False, "--first-frame", help="Only the first frame of a video."),
    plot: Path | None = typer.Option(None, help="Draw waveform, spectrum and spectrogram (or an image's path) here."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object a line."),
) -> None:
    """What is in a file: kind, rate, channels, duration, power, dynamic range.

    Example: planformer inspect note.wav capture.sigmf-meta --plot look.png
    """
    from planformer.errors import PlanFormerError

    options = {
        "kind": kind, "rate": rate, "datatype": datatype, "channels": channels, "key": key, "first_frame": first_frame,
    }  # fmt: skip
    failed = 0
    for file in files:
        try:
            _inspect_one(file, options, _plot_path(plot, file, len(files)), as_json)
        except PlanFormerError as error:
            if len(files) == 1:
                raise
            failed += 1
            typer.echo("error: " + " ".join(str(error).split()), err=True)
    if failed:
        raise typer.Exit(2)


def _plot_path(plot: Path | None, file: Path, count: int) -> Path | None:
    """One picture a file: with several files, the name of each is added to that of the picture."""
    if plot is None or count == 1:
        return plot
    return plot.with_name(f"{plot.stem}-{file.stem}{plot.suffix or '.png'}")


def _inspect_one(file: Path, options: dict[str, Any], plot: Path | None, as_json: bool) -> None:
    import json

    from rich.console import Console
    from rich.markup import escape

    from planformer.signals.reading import open_source
    from planformer.signals.summary import summarise

    if plot is not None:
        _check_picture(plot)
    with Console(stderr=True).status(f"reading {escape(file.name)}"):  # shown on a terminal only
        source = open_source(file, **options)
        summary, start = summarise(source, _samples_to_plot(source.kind) if plot else 0)
    if plot is not None:
        from planformer.signals.plot import plot_signal
        from planformer.signals.signal import Signal

        analytic = source.real or bool(source.provenance.get("analytic", False))
        shown = Signal(start, source.rate, source.kind, {**summary.details, "analytic": analytic})
        plot_signal(shown, plot, title=file.name, shown_of=summary.samples)
    if as_json:
        typer.echo(json.dumps({**summary.as_dict(), "plot": str(plot) if plot else None}, default=str))
    else:
        _print_table(summary, plot)


def _check_picture(plot: Path) -> None:
    from planformer.errors import InputError

    if plot.suffix.lower() not in (".png", ".pdf", ".svg", ".jpg", ".jpeg"):
        raise InputError(f"{plot}: name the picture .png, .pdf, .svg or .jpg")
    if not plot.parent.is_dir():
        raise InputError(f"{plot}: there is no folder {plot.parent}; make it first")


def _samples_to_plot(kind: str) -> int:
    from planformer.signals.plot import PLOT_SAMPLES

    return 1 << 62 if kind == "image" else PLOT_SAMPLES


def _print_table(summary: Summary, plot: Path | None) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(summary.file), show_header=False, title_justify="left", min_width=50)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _rows(summary):
        table.add_row(name, escape(value))
    if plot is not None:
        table.add_row("plot", escape(str(plot)))
    Console().print(table)


def _rows(summary: Summary) -> list[tuple[str, str]]:
    import math

    timeless = summary.kind in ("text", "image")
    per_sample = summary.rate == 1.0
    rows = [
        ("kind", summary.kind),
        ("rate", "none" if timeless or per_sample else _hertz(summary.rate)),
        ("channels", str(summary.channels)),
        ("samples", f"{summary.samples:,}"),
        ("duration", "none" if timeless or per_sample else f"{summary.duration:.6g} s"),
        ("segments", f"{summary.segments:,} of 5,120"),
        ("power", f"{summary.power:.4g} ({10 * math.log10(summary.power):.1f} dB)"),
        ("peak", f"{summary.peak:.4g}"),
        ("dynamic range", f"{summary.dynamic_range_db:.1f} dB"),
    ]
    if summary.silent_percent:
        rows.append(("silence", f"{summary.silent_percent:.1f} % of the frames are exactly zero"))
    return rows + _detail_rows(summary.details)


def _detail_rows(details: Any) -> list[tuple[str, str]]:
    """What the reader found besides samples; lists are counted, not printed."""
    rows = []
    for name in (
        "format",
        "subtype",
        "codec",
        "mode",
        "datatype",
        "key",
        "columns",
        "sourceids",
        "start",
        "fps",
        "frames",
    ):
        if name in details:
            value = details[name]
            rows.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    if "height" in details:
        rows.append(("size", f"{details['width']} x {details['height']} pixels"))
    if details.get("mixed_from"):
        rows.append(("mixed from", f"{details['mixed_from']} channels"))
    if details.get("annotations"):
        rows.append(("annotations", str(len(details["annotations"]))))
    if details.get("gaps"):
        rows.append(("gaps", f"{len(details['gaps'])}, {details['samples_filled']} samples filled"))
    return rows


def _hertz(rate: float) -> str:
    for scale, unit in ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")):
        if rate >= scale:
            return f"{rate / scale:.6g} {unit}"
    return f"{rate:.6g} Hz"
