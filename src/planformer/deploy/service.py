"""The web service: any signal in a request, its embedding, neighbours or restored version in the answer.

>>> from planformer.models.planformer import PlanFormer
>>> app = create_app(PlanFormer.random())
>>> sorted(path for path in app.openapi()["paths"] if path in ("/embed", "/health"))
['/embed', '/health']
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from planformer import __version__
from planformer.deploy.index import Index
from planformer.deploy.page import build_page
from planformer.deploy.service_batching import Batcher
from planformer.deploy.service_limits import BodyLimit, Limits
from planformer.deploy.service_reader import ReaderPool, Reading, TooLongError
from planformer.deploy.service_routes import build_router
from planformer.errors import InputError, MissingExtraError, PlanFormerError, WeightsError
from planformer.models.batching import Embedded
from planformer.models.planformer import PlanFormer

T = TypeVar("T")


class Service:
    """What the endpoints share: model, readers, queue, index, and the count of requests under way."""

    def __init__(self, model: PlanFormer, index: Index | None, probe: Any, limits: Limits) -> None:
        self.model, self.index, self.probe, self.limits = model, index, probe, limits
        self.pending = self.served = 0
        self.started = time.time()
        self._width = len(model.feature_names())
        self._settings = model.preprocess.model_dump(mode="json")

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Start the threads and processes with the application, stop them with it."""
        limits = self.limits
        self.readers = ReaderPool(limits.readers, seconds=limits.read_seconds, memory=limits.read_memory)
        self.batcher = Batcher(self.model, max_batch=limits.max_batch, threads=limits.threads)
        self._threads = ThreadPoolExecutor(limits.readers, "planformer-reader")
        try:
            yield
        finally:
            self.readers.close()
            self._threads.shutdown(cancel_futures=True)
            self.batcher.close()

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """A place among the pending requests, or 429; 503 when it is held too long, be it by a slow upload."""
        if self.pending >= self.limits.max_pending:
            raise HTTPException(429, "too many requests are waiting; try again", headers={"Retry-After": "1"})
        self.pending += 1
        try:
            async with asyncio.timeout(self.limits.max_wait):
                yield
            self.served += 1
        except TimeoutError as error:
            raise HTTPException(503, f"not done within {self.limits.max_wait:g} s; try again later") from error
        finally:
            self.pending -= 1

    async def read(self, path: Path, **request: Any) -> Reading:
        """The upload's samples, from a reading process."""
        request = {"config": self._settings, "max_samples": self.limits.max_samples, **request}
        return await asyncio.wrap_future(self._threads.submit(lambda: self.readers.read(path, **request)))

    async def embed(self, segments: npt.NDArray[np.complex64]) -> Embedded:
        return await asyncio.wrap_future(self.batcher.embed(segments))

    async def call(self, function: Callable[[], T]) -> T:
        """Run something else that needs the network."""
        return await asyncio.wrap_future(self.batcher.call(function))

    def scores(self, embedding: npt.NDArray[np.float32]) -> dict[str, float] | None:
        """Class probabilities of the loaded probe, if it takes vectors of this length."""
        if self.probe is None or getattr(self.probe, "n_features_in_", embedding.size) != embedding.size:
            return None
        values = self.probe.predict_proba(embedding[None])[0]
        return {str(name): float(value) for name, value in zip(self.probe.classes_, values, strict=True)}

    def summary(self) -> dict[str, Any]:
        """What the page says before the first file."""
        weights = self.model.provenance.get("weights", "trained")
        return {"version": __version__, "weights": weights, "index": self.index is not None}


def create_app(
    model: PlanFormer,
    *,
    index: str | Path | Index | None = None,
    probe: Any = None,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Sequence[str] = ("*",),
) -> FastAPI:
    """The service as an ASGI application.

    ``index`` is a folder made by ``planformer index add``, ``probe`` a fitted scikit-learn classifier on embeddings,
    ``token`` what clients must send as ``Authorization: Bearer ...``, ``hosts`` the names it answers to.
    """
    limits = limits or Limits()
    opened = index if isinstance(index, Index) or index is None else Index(index)
    if opened is not None:
        opened.check(model.fingerprint)
    if probe is not None and not (hasattr(probe, "predict_proba") and hasattr(probe, "classes_")):
        raise InputError("a probe needs predict_proba and classes_: a fitted scikit-learn classifier")
    service = Service(model, opened, probe, limits)
    app = FastAPI(
        title="PlanFormer",
        version=__version__,
        description="Any signal to a 256-number embedding.",
        lifespan=service.running,
        docs_url=None,  # FastAPI's own pages load their viewers from a public server
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(build_router(service, [Depends(_bearer(token))] if token else []))
    app.include_router(build_page(lambda: {**service.summary(), "token": bool(token)}, app.openapi))
    app.add_exception_handler(PlanFormerError, _explain)
    app.add_middleware(BodyLimit, max_bytes=limits.max_bytes)
    if "*" not in hosts:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    return app


def _bearer(token: str) -> Callable[[Request], Awaitable[None]]:
    expected = f"Bearer {token}".encode()

    async def check(request: Request) -> None:
        given = request.headers.get("authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, expected):
            raise HTTPException(
                401, "send the token: Authorization: Bearer ...", headers={"WWW-Authenticate": "Bearer"}
            )

    return check


async def _explain(request: Request, error: Exception) -> Response:
    """A :class:`PlanFormerError` in one line, with the status that says whose fault it is."""
    status = 422
    if isinstance(error, TooLongError):
        status = 413
    elif isinstance(error, WeightsError | MissingExtraError):
        status = 501  # this installation can't do it, for any file
    return JSONResponse({"detail": str(error)}, status)
