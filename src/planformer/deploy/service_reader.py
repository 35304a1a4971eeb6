"""Uploads are read in processes of their own, with limits on memory and time.

A decoder that hangs, eats memory or crashes on a hostile file takes its process with it and nothing else. Requests and
answers are one JSON line each, the samples follow as raw bytes: nothing that the reading process says is executed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError, PlanFormerError

CALLED = "the upload"


class TooLongError(InputError):
    """More samples than the service takes."""


@dataclass(frozen=True)
class Reading:
    """What came out of a file: segments ``[channels, k, segment]`` or samples ``[channels, n]``, and its facts."""

    samples: npt.NDArray[np.complex64]
    facts: dict[str, Any]


class ReaderPool:
    """A fixed number of reading processes; each is replaced when it dies or is killed.

    >>> import tempfile, pathlib
    >>> pool = ReaderPool(1)
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "upload.txt"
    >>> _ = file.write_text("any bytes are a signal")
    >>> pool.read(file, mode="signal").facts["kind"]
    'text'
    >>> pool.close()
    """

    def __init__(self, count: int = 2, *, seconds: float = 20.0, memory: int = 2 << 30) -> None:
        self.seconds, self.memory = seconds, memory
        self._free: queue.Queue[_Child] = queue.Queue()
        self._all = [_Child(memory) for _ in range(count)]
        self._closed = False
        for child in self._all:
            self._free.put(child)

    def read(self, path: str | Path, **request: Any) -> Reading:
        """Read a file (options as in :func:`planformer.read`); blocks until a process is free and has answered."""
        child = self._free.get()
        try:
            if self._closed:
                raise InputError(f"{CALLED}: not read, the service is stopping")
            return child.ask({"path": str(path), **request}, self.seconds)
        finally:
            self._free.put(child)

    def close(self) -> None:
        """Stop the processes; a reading under way fails."""
        self._closed = True
        for child in self._all:
            child.interrupt()
        for child in [self._free.get() for _ in self._all]:  # each is cleaned up when no other thread uses it
            child.kill()
            self._free.put(child)


class _Child:
    """One reading process, started when it is first needed."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], seconds: float) -> Reading:
        process = self._start()
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = _receive(process.stdout)
        except (OSError, ValueError) as error:  # it died: a broken pipe, or half an answer
            self.kill()
            reason = (
                f"took longer than {seconds:g} s to read" if late.is_set() else "could not be read: decoder crashed"
            )
            raise InputError(f"{CALLED}: {reason}; check the file, or use planformer embed") from error
        finally:
            timer.cancel()
        if late.is_set():  # it answered at the last moment and is dying: the next file gets a new process
            self.kill()
        header, data = answer
        if "error" in header:
            message = str(header["error"]).replace(request["path"], CALLED)
            raise (TooLongError if header.get("long") else InputError)(message)
        return Reading(np.frombuffer(data, np.complex64).reshape(header.pop("shape")), header)

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.kill()
            threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            command = [sys.executable, "-P", "-m", "planformer.deploy.service_reader", str(self._memory)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **threads}
            )
            assert self._process.stdout is not None
            self._process.stdout.readline()  # imports are done: a slow start is not the file's fault
        return self._process

    def interrupt(self) -> None:
        """End the process from another thread than the one that waits for its answer."""
        if (process := self._process) is not None:
            process.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(OSError), self._process:  # closes the pipes and waits
                self._process = None


def _receive(stream: Any) -> tuple[dict[str, Any], bytes]:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise ValueError("no answer")
    header = json.loads(line)
    size = 8 * int(np.prod(header.get("shape", [0]), dtype=np.int64))
    data = stream.read(size) if size else b""
    if len(data) != size:
        raise ValueError("half an answer")
    return header, data


# In the reading process -------------------------------------------------------------------------------------------


def main() -> None:
    """Answer requests from standard input until it ends."""
    import resource

    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    for module in ("PIL.Image", "scipy.fft", "soundfile", "planformer.signals"):  # before the limit and the clock
        importlib.import_module(module)
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out.write(b"ready\n")
    out.flush()
    for line in sys.stdin.buffer:
        _reply(out, json.loads(line))


def _reply(out: BinaryIO, request: dict[str, Any]) -> None:
    data = np.zeros(0, np.complex64)
    try:
        header, data = _serve(request)
    except MemoryError:
        header = {"error": f"{CALLED}: needs more memory than the service gives to one file; use planformer embed"}
    except PlanFormerError as error:
        header = {"error": str(error), "long": isinstance(error, TooLongError)}
    out.write(json.dumps(header, default=str).encode() + b"\n")
    out.write(data.tobytes())
    out.flush()


def _serve(request: dict[str, Any]) -> tuple[dict[str, Any], npt.NDArray[np.complex64]]:
    from planformer.deploy.service_preview import preview
    from planformer.signals import PreprocessConfig, Signal, prepare
    from planformer.signals.reading import open_source

    path = Path(request["path"])
    refuse_links(path)
    read = {key: request[key] for key in ("kind", "rate", "channels", "datatype") if request.get(key) is not None}
    source = open_source(path, **read)
    limit, parts, seen = request.get("max_samples") or sys.maxsize, [], 0
    for block in source.complex_blocks():
        seen += block.size
        if seen > limit:
            raise TooLongError(
                f"{path}: longer than {limit:,} samples, the limit of this service; use planformer embed"
            )
        parts.append(block)
    provenance = {**source.provenance, **source.report()}
    provenance["analytic"] = source.real or bool(source.provenance.get("analytic", False))
    signal = Signal(np.concatenate(parts, axis=1), source.rate, source.kind, provenance)
    facts: dict[str, Any] = {"kind": signal.kind, "rate": signal.rate, "channels": signal.channels, "samples": signal.n}
    if request.get("preview"):
        facts["preview"] = preview(signal)
    if request["mode"] == "segments":
        data = prepare(signal, PreprocessConfig.model_validate(request["config"]))
    else:
        data, facts["provenance"] = signal.samples, provenance
    return {"shape": list(data.shape), **facts}, np.ascontiguousarray(data)


def refuse_links(path: Path) -> None:
    """Some formats can name other files on the reader's disk; an upload must not be able to.

    HDF5 has external storage, SigMF metadata names its samples, playlists name their pieces.
    """
    from planformer.signals import sniff

    with path.open("rb") as stream:
        head = stream.read(sniff.HEAD)
    suffix = sniff.suffix_of(path)
    form = sniff.by_content(head, suffix)
    if form == "hdf5":
        raise InputError(f"{path}: the service takes no HDF5 files, which can point to others; send the array as .npy")
    if form == "sigmf" and head[257:262] != b"ustar":
        raise InputError(f"{path}: SigMF metadata without its samples; send the recording as one .sigmf archive")
    if head.lstrip()[:7] in (b"#EXTM3U", b"ffconca"):
        raise InputError(f"{path}: is a playlist; send the media file itself")


if __name__ == "__main__":
    main()
