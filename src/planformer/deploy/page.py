"""The service's page at ``/``: its files, what it needs to know at the start, and examples made on the fly.

Everything comes from this process: a content policy forbids the browser to load anything from elsewhere.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import APIRouter, HTTPException, Response

from planformer.deploy.api_page import api_page

FILES = Path(__file__).resolve().parent / "page_files"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript"}


def chirp() -> bytes:
    """A second of sound that rises from 200 Hz to 3 kHz, in noise.

    >>> chirp()[:4]
    b'RIFF'
    """
    import soundfile

    rate = 8000
    time = np.arange(rate) / rate
    wave = 0.5 * np.sin(2 * np.pi * (200 * time + 1400 * time**2))
    wave = wave + 0.05 * np.random.default_rng(0).standard_normal(rate)
    stream = io.BytesIO()
    soundfile.write(stream, wave, rate, format="WAV", subtype="PCM_16")
    return stream.getvalue()


def radio() -> bytes:
    """QPSK at eight samples a symbol with a carrier offset, as complex numbers."""
    rng = np.random.default_rng(1)
    symbols = np.exp(0.5j * np.pi * (rng.integers(4, size=1280) + 0.5))
    shaped = np.convolve(np.kron(symbols, np.eye(1, 8)[0]), np.hanning(17), "same")  # [1280 * 8]
    samples = shaped * np.exp(2j * np.pi * 0.02 * np.arange(shaped.size))
    noise = rng.standard_normal((2, samples.size))
    stream = io.BytesIO()
    np.save(stream, (samples + 0.05 * (noise[0] + 1j * noise[1])).astype(np.complex64))
    return stream.getvalue()


def picture() -> bytes:
    """Rings, 64 by 64 pixels."""
    from PIL import Image

    y, x = np.mgrid[-1:1:64j, -1:1:64j]
    stream = io.BytesIO()
    Image.fromarray((127 + 120 * np.cos(20 * np.hypot(x, y))).astype(np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def sentence() -> bytes:
    """A pangram: any bytes are a signal."""
    return b"The quick brown fox jumps over the lazy dog. " * 8


EXAMPLES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "chirp.wav": ("Sound: a chirp in noise", chirp),
    "qpsk.npy": ("Radio: QPSK with a carrier offset", radio),
    "rings.png": ("Image: rings", picture),
    "sentence.txt": ("Text: a sentence", sentence),
}


def build_page(state: Callable[[], dict[str, Any]], document: Callable[[], dict[str, Any]]) -> APIRouter:
    """The page's routes; ``state`` says what the page shows before the first file, ``document`` is OpenAPI's."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> Response:
        return _file("index.html")

    @router.get("/docs")
    async def documentation() -> Response:
        return _answer(api_page(document()).encode(), ".html")

    @router.get("/page/state")
    async def begin() -> dict[str, Any]:
        return {"examples": [{"name": name, "title": title} for name, (title, _) in EXAMPLES.items()], **state()}

    @router.get("/page/examples/{name}")
    async def example(name: str) -> Response:
        if name not in EXAMPLES:
            raise HTTPException(404, "no such example")
        return Response(EXAMPLES[name][1](), media_type="application/octet-stream")

    @router.get("/page/{name}")
    async def file(name: str) -> Response:
        if name not in ("page.css", "page.js"):
            raise HTTPException(404, "no such file")
        return _file(name)

    return router


def _file(name: str) -> Response:
    path = FILES / name
    return _answer(path.read_bytes(), path.suffix)


def _answer(content: bytes, suffix: str) -> Response:
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
    return Response(content, media_type=_TYPES[suffix], headers=headers)
