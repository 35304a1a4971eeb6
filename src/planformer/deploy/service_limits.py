"""What one client may cost the service: bytes, samples, seconds, places in the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True)
class Limits:
    """The service's limits; each has its own answer, and the service goes on after any of them."""

    max_bytes: int = 64 << 20
    """Size of a request (413)."""
    max_samples: int = 10_000_000
    """Samples of a signal, all channels together: ten minutes of sound at 16 kHz (413)."""
    max_pending: int = 64
    """Requests accepted and not answered yet (429)."""
    max_wait: float = 120.0
    """Seconds until an accepted request is given up (503)."""
    read_seconds: float = 20.0
    """Seconds for reading one file (422)."""
    read_memory: int = 2 << 30
    """Address space of a reading process in bytes (422)."""
    readers: int = 2
    """Reading processes."""
    max_batch: int = 64
    """Segments that go through the network at once."""
    threads: int | None = None
    """Threads of the network; see :class:`planformer.deploy.service_batching.Batcher`."""


class BodyLimit:
    """ASGI middleware: 413 before the body is read where its length is stated, else as soon as it is too long."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        stated = dict(scope["headers"]).get(b"content-length", b"")
        if stated.isdigit() and int(stated) > self.max_bytes:
            await _answer(send, self._message())
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.max_bytes:
                raise HTTPException(413, self._message())
            return message

        await self.app(scope, counted, send)

    def _message(self) -> str:
        return f"larger than {self.max_bytes:,} bytes, the limit of this service; use planformer embed for large files"


async def _answer(send: Send, detail: str) -> None:
    import json

    body = json.dumps({"detail": detail}).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
