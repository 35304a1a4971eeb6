"""A request's body as a temporary file under a name of ours: multipart, raw bytes, or JSON numbers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from fastapi import Request
from starlette.datastructures import UploadFile

from planformer.errors import InputError
from planformer.signals.sniff import RAW_SUFFIXES, SUFFIXES

# Endings that choose a reader. All else is found by content.
KNOWN = {suffix for suffixes in SUFFIXES.values() for suffix in suffixes} | set(RAW_SUFFIXES) | {".txt"}
KNOWN -= {".sigmf-meta", ".sigmf-data"}

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["samples"],
                    "properties": {
                        "samples": {"type": "array", "items": {}, "description": "[n] or [channels][n] numbers"},
                        "imaginary": {"type": "array", "items": {}, "description": "same shape, for IQ"},
                    },
                }
            },
        },
    }
}
"""What OpenAPI says about the body of every endpoint that takes a signal."""


@asynccontextmanager
async def uploaded(request: Request, suffix: str | None = None) -> AsyncIterator[Path]:
    """The body in a file ``upload`` of a private temporary folder, which goes away afterwards."""
    with tempfile.TemporaryDirectory(prefix="planformer-") as folder:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "multipart/form-data":
            yield await _multipart(request, Path(folder))
        elif kind == "application/json":
            yield _numbers(await request.body(), Path(folder))
        else:
            path = Path(folder) / f"upload{known_suffix('x' + (suffix or ''))}"
            with path.open("wb") as stream:
                async for chunk in request.stream():
                    stream.write(chunk)
            yield path


def known_suffix(name: str | None) -> str:
    """The ending of a client's file name if it is one we know, else nothing; never any other part of the name.

    >>> known_suffix("../../etc/Song.WAV"), known_suffix("a.wav/../../x"), known_suffix("run.sh")
    ('.wav', '', '')
    """
    suffix = PurePosixPath(name or "").suffix.lower()
    return suffix if suffix in KNOWN else ""


async def _multipart(request: Request, folder: Path) -> Path:
    async with request.form(max_files=1, max_fields=8) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InputError("the form has no file: send it in the field 'file' (curl -F file=@a.wav)")
        path = folder / f"upload{known_suffix(file.filename)}"
        with path.open("wb") as stream:
            while chunk := await file.read(1 << 20):
                stream.write(chunk)
    return path


def _numbers(body: bytes, folder: Path) -> Path:
    try:
        document = json.loads(body)
        samples = np.asarray(document["samples"], np.float64)
        if document.get("imaginary") is not None:
            samples = samples + 1j * np.asarray(document["imaginary"], np.float64)
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
        raise InputError(
            'expected {"samples": [numbers]} or {"samples": [[numbers], ...]}, one row a channel'
        ) from error
    path = folder / "upload.npy"
    np.save(path, samples, allow_pickle=False)
    return path
