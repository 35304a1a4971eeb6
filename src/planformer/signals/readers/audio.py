"""Sound through libsndfile: WAV, FLAC, OGG, MP3 and others, any number of channels."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy.typing as npt

from planformer.errors import InputError
from planformer.signals.reading import Request
from planformer.signals.signal import check_rate
from planformer.signals.source import BLOCK_SAMPLES, Source

_descriptor_lock = threading.Lock()


def open_file(request: Request) -> Source:
    import soundfile

    _check_complete(request.path, request.name)
    with _quiet_decoder(), soundfile.SoundFile(str(request.path)) as file:
        rate, channels, frames = file.samplerate, file.channels, file.frames
        provenance = {"format": file.format, "subtype": file.subtype, "channels_in_file": channels}
    if frames <= 0:
        raise InputError(f"{request.name}: there is no sound in it (zero length)")

    def blocks() -> Iterator[npt.NDArray[Any]]:
        seen, step = 0, max(1, BLOCK_SAMPLES // channels)
        quiet = _quiet_decoder if provenance["format"] == "MP3" else nullcontext
        with quiet():
            file = soundfile.SoundFile(str(request.path))
        with file:
            while True:
                with quiet():
                    block = file.read(step, dtype="float32", always_2d=True)
                if not len(block):
                    break
                seen += len(block)
                yield block.T  # (channels, k)
        if seen < frames:
            raise InputError(f"{request.name}: truncated: {seen} of {frames} frames could be read")

    return Source(request.name, "audio", check_rate(rate, request.name), channels, True, blocks, provenance)


@contextmanager
def _quiet_decoder() -> Iterator[None]:
    """libmpg123 writes its remarks on damaged MP3 straight to file descriptor 2, past Python: keep them away."""
    with _descriptor_lock:
        try:
            saved = os.dup(2)
        except OSError:  # a service without standard error
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            os.close(nowhere)


def _check_complete(path: Path, name: str) -> None:
    """libsndfile reads what is left of a cut file without a word; the containers' own sizes tell."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] in (b"RIFF", b"FORM") and head[8:12] in (b"WAVE", b"AIFF", b"AIFC"):
            order = "little" if head[:4] == b"RIFF" else "big"
            missing = _missing_bytes(file, size, order)
        elif head[:4] == b"OggS":
            missing = not _ends_with_page(file, size)
        else:
            return
    if missing:
        raise InputError(f"{name}: truncated: the file ends before its sound does; copy it again")


def _missing_bytes(file: Any, size: int, order: Any) -> bool:
    """Walk the chunks of a RIFF or AIFF file; a data chunk of size 0 or 2^32 - 1 was streamed and has no known end."""
    offset = 12
    while offset + 8 <= size:
        file.seek(offset)
        chunk = file.read(8)
        length = int.from_bytes(chunk[4:], order)
        if chunk[:4] in (b"data", b"SSND"):
            return length < 0xFFFFFF00 and offset + 8 + length > size
        offset += 8 + length + length % 2
    return True


def _ends_with_page(file: Any, size: int) -> bool:
    """The last Ogg page is complete and carries the end-of-stream flag."""
    file.seek(max(0, size - 65_536 - 512))
    tail = file.read()
    at = tail.rfind(b"OggS")
    if at < 0 or at + 27 > len(tail):
        return False
    count = tail[at + 26]
    lacing = tail[at + 27 : at + 27 + count]
    complete = len(lacing) == count and at + 27 + count + sum(lacing) <= len(tail)
    return complete and bool(tail[at + 5] & 0x04)
