"""`read`: any file to a :class:`Signal`; the reader is chosen by the file's content first and by its name second."""

from __future__ import annotations

import importlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from planformer.errors import InputError, PlanFormerError
from planformer.signals import sniff
from planformer.signals.signal import KINDS, Kind, Signal, check_rate
from planformer.signals.source import Source, choose_channels, collect

# format -> (module of its reader, what to call it in a message). Imported on first use.
READERS = {
    "sigmf": ("sigmf", "SigMF recording"),
    "raw": ("raw", "raw IQ recording"),
    "audio": ("audio", "sound file"),
    "miniseed": ("seismic", "miniSEED file"),
    "npy": ("arrays", "NumPy array"),
    "npz": ("arrays", "NumPy archive"),
    "csv": ("arrays", "table of numbers"),
    "hdf5": ("arrays", "HDF5 file"),
    "image": ("image", "image"),
    "video": ("video", "video"),
    "text": ("text", "text"),
}
# What a user may call the content of a format. Arrays can be anything.
_FORMAT_KINDS: dict[str, tuple[Kind, ...]] = {
    "sigmf": ("iq",),
    "raw": ("iq",),
    "audio": ("audio",),
    "miniseed": ("seismic",),
    "image": ("image", "video"),
    "video": ("video",),
    "text": ("text",),
}
# The reader to try when neither content nor name says anything but the user names a kind.
_KIND_FORMATS: dict[Kind | None, str] = {
    "iq": "raw",
    "audio": "audio",
    "seismic": "miniseed",
    "image": "image",
    "video": "video",
    "array": "csv",
}


@dataclass(frozen=True)
class Request:
    """What a reader is asked for; ``name`` is how messages call the file."""

    path: Path
    name: str
    format: str
    kind: Kind | None
    rate: float | None
    key: str | None
    first_frame: bool
    datatype: str | None


def read(
    path: str | os.PathLike[str],
    kind: Kind | None = None,
    *,
    rate: float | None = None,
    channels: str | int | None = None,
    key: str | None = None,
    first_frame: bool = False,
    datatype: str | None = None,
) -> Signal:
    """Read any file as a signal.

    ``kind`` overrides what the content says (``"text"`` takes any bytes). ``rate`` (Hz) is for files that do not state
    one. ``channels``: ``"each"``, ``"mix"`` or a number; by default sound is mixed down and everything else kept.
    ``key`` names an array inside npz, HDF5 or CSV files. ``datatype`` is that of a raw IQ file, e.g. ``"ci16_le"``.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> _ = file.write_text("any bytes are a signal")
    >>> read(file).kind
    'text'
    """
    return collect(
        open_source(path, kind, rate=rate, channels=channels, key=key, first_frame=first_frame, datatype=datatype)
    )


def open_source(
    path: str | os.PathLike[str],
    kind: Kind | None = None,
    *,
    rate: float | None = None,
    channels: str | int | None = None,
    key: str | None = None,
    first_frame: bool = False,
    datatype: str | None = None,
) -> Source:
    """Open a file and read its header only; the arguments are those of :func:`read`."""
    file = Path(path)
    name = str(path)
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind {kind!r}: use one of {', '.join(KINDS)}")
    if rate is not None:
        rate = check_rate(rate, name)
    file, head = _first_bytes(file, name)
    form = _format(file, name, head, kind, datatype)
    request = Request(file, name, form, kind, rate, key, first_frame, datatype)
    module, called = READERS[form]
    with library_errors(name, called):
        source: Source = importlib.import_module(f"planformer.signals.readers.{module}").open_file(request)
    return choose_channels(_guarded(source, called), channels)


def _guarded(source: Source, called: str) -> Source:
    blocks = source.blocks

    def guarded() -> Iterator[npt.NDArray[Any]]:
        with library_errors(source.name, called):
            yield from blocks()

    return replace(source, blocks=guarded)


def _first_bytes(path: Path, name: str) -> tuple[Path, bytes]:
    """Check that there is a readable, non-empty file, and read its start."""
    try:
        if not path.exists() and path.suffix != ".sigmf-meta" and Path(f"{path}.sigmf-meta").exists():
            path = Path(f"{path}.sigmf-meta")  # a recording named by its stem
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{name}: is a directory; give the files in it, e.g. {path / '*'}")
        if not stat.S_ISREG(mode):
            raise InputError(f"{name}: not a regular file; save its content to one first")
        with path.open("rb") as file:
            head = file.read(sniff.HEAD)
    except FileNotFoundError as error:
        raise InputError(f"{name}: no such file; check the path") from error
    except PermissionError as error:
        raise InputError(f"{name}: no permission to read it; change that with chmod u+r") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be opened ({getattr(error, 'strerror', None) or error})") from error
    if not head:
        raise InputError(f"{name}: the file is empty")
    return path, head


def _format(path: Path, name: str, head: bytes, kind: Kind | None, datatype: str | None) -> str:
    suffix = sniff.suffix_of(path)
    if kind == "text":
        return "text"
    if datatype is not None and suffix not in sniff.SUFFIXES["sigmf"]:
        return "raw"
    claimed = sniff.by_suffix(suffix)
    shown = sniff.by_content(head, suffix)
    if shown is None and claimed in ("audio", "npy", "npz", "hdf5", "video", "miniseed"):
        called = READERS[claimed][1]
        raise InputError(
            f"{name}: named {suffix} but its content is no {called}; rename it, "
            "or read it as bytes with kind text (--kind text)"
        )
    form = shown or claimed or _KIND_FORMATS.get(kind, "text")
    allowed = _FORMAT_KINDS.get(form)
    if kind is not None and allowed is not None and kind not in allowed:
        raise InputError(f"{name}: is a {READERS[form][1]}, which cannot be read as kind {kind}; leave the kind out")
    return form


@contextmanager
def library_errors(name: str, called: str) -> Iterator[None]:
    """Turn whatever a decoder throws at damaged data into one line that names the file."""
    try:
        yield
    except PlanFormerError:
        raise
    except Exception as error:
        reason = " ".join(str(error).replace(name, "the file").split())[:160] or type(error).__name__
        raise InputError(f"{name}: damaged or not a readable {called} ({reason})") from error
