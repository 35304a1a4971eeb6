"""Writing files so that a reader sees the old one or the new one, never half of either."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from planformer.errors import InputError


def replace_file(path: str | Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then rename it over ``path``.

    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> replace_file(target, lambda temporary: temporary.write_text("done") and None)
    >>> target.read_text()
    'done'
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.absolute().parent)
    except OSError as error:
        raise InputError(f"{path}: can't write there ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The process's mask: mkstemp makes files private, an output should have the usual permissions."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
