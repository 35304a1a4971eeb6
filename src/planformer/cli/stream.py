"""``planformer stream``: raw samples from a pipe, JSON lines out, for ever if need be."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from planformer.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from planformer.deploy.streaming import StreamingEmbedder
    from planformer.signals.sigmf_files import Datatype

app = typer.Typer(add_completion=False)

# What recorders call their formats -> SigMF's name for it.
ALIASES = {
    "s8": "ri8", "u8": "ru8", "s16le": "ri16_le", "s16_le": "ri16_le", "s16be": "ri16_be", "s32le": "ri32_le",
    "f32le": "rf32_le", "f64le": "rf64_le", "float_le": "rf32_le", "cs8": "ci8", "cs16": "ci16_le", "cf32": "cf32_le",
    "fc32": "cf32_le", "sc16": "ci16_le",
}  # fmt: skip
_CHUNK = 1 << 16


@app.command()
def stream(
    source: str = typer.Argument("-", help="- for standard input, or a file or named pipe of raw samples."),
    rate: float = typer.Option(..., help="Samples per second."),
    datatype: str = typer.Option(
        "s16le", "-t", "--datatype", help="SigMF name or s16le, u8, f32le, cu8, cs8, cs16, cf32; c.. is IQ."
    ),
    channels: int = typer.Option(1, min=1, help="Interleaved channels."),
    kind: str = typer.Option(None, help="iq, audio, seismic or array; default: iq if complex, else audio."),
    every: float = typer.Option(1.0, help="Print the embedding of everything so far every so many seconds of signal."),
    window: float = typer.Option(None, help="Instead: one embedding per interval of so many seconds."),
    hop: float = typer.Option(None, help="Seconds from one interval to the next (default: the interval)."),
    hilbert: str = typer.Option("local", help="Analytic signal of real samples: local (quick), exact (as `embed`)."),
    readout: str = typer.Option("latent", help="latent or tokens."),
    weights: str = typer.Option(None, help="Weights folder, hub name, random or random:SEED; default: shipped."),
) -> None:
    """Embed raw samples as they arrive; one JSON object a line.

    Example: arecord -f S16_LE -r 16000 | planformer stream - --rate 16000 --window 1
    Example: rtl_sdr -f 868e6 -s 2048000 - | planformer stream - --rate 2048000 -t cu8
    """
    from planformer.deploy.streaming import StreamingEmbedder
    from planformer.models.planformer import PlanFormer
    from planformer.signals.sigmf_files import Datatype

    if not every > 0:
        raise InputError(f"--every {every}: a positive number of seconds")
    format_ = Datatype.parse(ALIASES.get(datatype.lower(), datatype), "--datatype")
    embedder = StreamingEmbedder(
        PlanFormer.load(weights),
        rate=rate,
        kind=kind or ("iq" if format_.is_complex else "audio"),
        channels=channels,
        hilbert=hilbert,  # type: ignore[arg-type]
        readout=readout,  # type: ignore[arg-type]
    )
    with _open(source) as pipe:
        chunks = read_chunks(pipe, format_, channels)
        lines = running(embedder, chunks, every) if window is None else windows(embedder, chunks, window, hop)
        for line in lines:
            print(json.dumps(line), flush=True)


def read_chunks(pipe: BinaryIO, datatype: Datatype, channels: int) -> Iterator[npt.NDArray[Any]]:
    """Whole frames ``[channels, k]`` as they come; a pipe may deliver any number of bytes."""
    import numpy as np

    frame = datatype.sample_bytes * channels
    rest = b""
    while data := pipe.read1(_CHUNK):  # type: ignore[attr-defined]
        data = rest + data
        whole = len(data) // frame * frame
        rest = data[whole:]
        if whole:
            yield datatype.decode(np.frombuffer(data[:whole], datatype.dtype), channels)
    if rest:
        typer.echo(f"warning: {len(rest)} bytes after the last whole sample were dropped", err=True)


def running(embedder: StreamingEmbedder, chunks: Iterator[npt.NDArray[Any]], every: float) -> Iterator[dict[str, Any]]:
    """The embedding of everything so far, each time another ``every`` seconds are complete, and at the end."""
    step = max(1, round(every * (embedder.rate or 1.0)))
    for chunk in chunks:
        while chunk.shape[1]:
            room = step - embedder.samples % step
            embedder.push(chunk[:, :room])
            chunk = chunk[:, room:]
            if embedder.samples % step == 0:
                yield _line(0.0, embedder.seconds, _so_far(embedder))
    if not embedder.samples:
        raise InputError("no samples arrived")
    if embedder.samples % step:
        yield _line(0.0, embedder.seconds, _so_far(embedder))


def windows(
    embedder: StreamingEmbedder, chunks: Iterator[npt.NDArray[Any]], seconds: float, hop: float | None
) -> Iterator[dict[str, Any]]:
    """One embedding per interval."""
    windowed = embedder.windowed(seconds, hop)
    for chunk in chunks:
        for start, embedding in windowed.push(chunk):
            yield _line(start, start + seconds, embedding if embedding.any() else None)


def _so_far(embedder: StreamingEmbedder) -> npt.NDArray[np.float32] | None:
    return None if embedder.silent else embedder.embedding()


def _line(start: float, end: float, embedding: npt.NDArray[np.float32] | None) -> dict[str, Any]:
    """``embedding`` is null where the signal has not varied yet."""
    values = None if embedding is None else [float(f"{value:.7g}") for value in embedding]
    return {"start": round(start, 6), "end": round(end, 6), "embedding": values}


def _open(source: str) -> BinaryIO:
    if source == "-":
        return sys.stdin.buffer
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise InputError(f"{source}: can't be opened ({error.strerror})") from error
