"""Write a file completely or not at all: to a temporary file beside the target, which then replaces it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from planformer.errors import InputError


@contextmanager
def replacing(target: str | Path) -> Iterator[Path]:
    """A temporary path with the target's suffix; it becomes the target on success and vanishes on failure.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("done")
    >>> target.read_text()
    'done'
    """
    target = Path(target)
    if target.is_dir():
        raise InputError(f"{target}: is a directory; name a file to write")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise InputError(f"{target}: cannot write here ({error.strerror}); choose another folder") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp made it private
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"{target}: writing failed ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)
