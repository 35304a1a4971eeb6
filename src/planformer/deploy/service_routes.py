"""The service's endpoints."""

from __future__ import annotations

import io
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field

from planformer import __version__
from planformer.deploy.index import item_vector
from planformer.deploy.service_reader import Reading
from planformer.deploy.service_uploads import BODY, uploaded
from planformer.models.batching import Embedded
from planformer.signals import Kind, Signal, write

if TYPE_CHECKING:
    from planformer.deploy.service import Service

MEDIA = {".wav": "audio/wav", ".png": "image/png", ".txt": "text/plain; charset=utf-8", ".npy": "application/x-npy"}
_SUFFIX = {"audio": ".wav", "image": ".png", "text": ".txt"}  # every other kind comes back as .npy


class Embedding(BaseModel):
    """256 numbers for each channel, and what they were made of."""

    embedding: list[float]
    kind: str
    rate: float
    channels: int
    samples: int = Field(description="of each channel")
    segments: int
    fingerprint: str = Field(description="of the weights: embeddings of two of them can't be compared")
    scores: dict[str, float] | None = Field(None, description="class probabilities, where a probe is loaded")
    preview: dict[str, Any] | None = None


class Neighbour(BaseModel):
    path: str
    kind: str
    score: float


class Neighbours(BaseModel):
    neighbours: list[Neighbour]
    items: int = Field(description="how many were searched")
    recall: float | None = Field(None, description="None: the search was exact")


class Asked(NamedTuple):
    """What the address says about an upload: the ending of its format, and options of the reader."""

    suffix: str | None
    read: dict[str, Any]


def options_of_upload(
    kind: Kind | None = Query(None, description="What the content is, where it does not say itself."),
    rate: float | None = Query(None, gt=0, description="Samples per second, where the file does not say."),
    channels: str | None = Query(None, description="each, mix or a number; default: sound is mixed, others each."),
    datatype: str | None = Query(None, description="Raw IQ bytes: their SigMF datatype, e.g. cf32_le."),
    suffix: str | None = Query(None, description="Raw bytes: the ending that names their format, e.g. .csv."),
) -> Asked:
    """The options that every upload takes."""
    return Asked(suffix, {"kind": kind, "rate": rate, "channels": channels, "datatype": datatype})


def build_router(service: Service, protected: list[Any]) -> APIRouter:
    """All endpoints; ``protected`` are the dependencies of those that need a token."""
    router = APIRouter()
    problems: dict[int | str, dict[str, Any]] = {
        413: {"description": "larger or longer than the limit"},
        422: {"description": "the file can't be read; the message says why"},
        429: {"description": "too many requests are waiting"},
        503: {"description": "not done in time"},
    }
    options: dict[str, Any] = {"dependencies": protected, "openapi_extra": BODY, "responses": problems}
    _add_embedding(router, service, options)
    _add_restoration(router, service, options)
    _add_status(router, service, protected)
    return router


def _add_embedding(router: APIRouter, service: Service, options: dict[str, Any]) -> None:
    async def embedded(request: Request, asked: Asked, **extra: Any) -> tuple[Reading, Embedded]:
        async with uploaded(request, asked.suffix) as path:
            reading = await service.read(path, mode="segments", **asked.read, **extra)
        return reading, await service.embed(reading.samples)

    @router.post("/embed", **options)
    async def embed(
        request: Request,
        asked: Asked = Depends(options_of_upload),
        preview: bool = Query(False, description="Add an envelope and a spectrogram to draw."),
    ) -> Embedding:
        """The embedding of one signal: a file (multipart or raw bytes) or JSON numbers."""
        async with service.admitted():
            reading, found = await embedded(request, asked, preview=preview)
        return Embedding(
            embedding=found.embedding.tolist(),
            segments=found.segments,
            fingerprint=service.model.fingerprint,
            scores=service.scores(found.embedding),
            **reading.facts,
        )

    @router.post("/similar", **options)
    async def similar(
        request: Request,
        asked: Asked = Depends(options_of_upload),
        k: int = Query(10, ge=1, le=1000, description="How many."),
    ) -> Neighbours:
        """The nearest items of the index that the service was started with."""
        index = service.index
        if index is None:
            raise HTTPException(404, "no index is loaded; start with planformer serve --index FOLDER")
        async with service.admitted():
            _, found = await embedded(request, asked)
            vector = item_vector(found.embedding, found.channels)
            answer = await service.call(lambda: (index.refresh(), index.search(vector, k))[1])
        near = [Neighbour(path=hit.item.path, kind=hit.item.kind, score=hit.score) for hit in answer.hits]
        return Neighbours(neighbours=near, items=answer.searched, recall=answer.recall)


def _add_restoration(router: APIRouter, service: Service, options: dict[str, Any]) -> None:
    async def restored(request: Request, task: Literal["denoise", "separate"], asked: Asked) -> list[tuple[str, bytes]]:
        async with service.admitted():
            async with uploaded(request, asked.suffix) as path:
                signal = _signal(await service.read(path, mode="signal", **asked.read))
            outputs = await service.call(lambda: service.model.restorer.run(signal, task))
        return [_encoded(output, signal) for output in outputs]

    @router.post("/denoise", response_class=Response, **options)
    async def denoise(request: Request, asked: Asked = Depends(options_of_upload)) -> Response:
        """The signal without its noise: WAV for sound, PNG for an image, text for text, else .npy."""
        [(ending, data)] = await restored(request, "denoise", asked)
        return Response(data, media_type=MEDIA[ending], headers=_attachment(f"denoised{ending}"))

    @router.post("/separate", response_class=Response, **options)
    async def separate(request: Request, asked: Asked = Depends(options_of_upload)) -> Response:
        """Two sources of a mixture in a ZIP archive: source-a is the dominant one."""
        outputs = await restored(request, "separate", asked)
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for name, (ending, data) in zip(("source-a", "source-b"), outputs, strict=True):
                file.writestr(name + ending, data)
        return Response(archive.getvalue(), media_type="application/zip", headers=_attachment("separated.zip"))


def _add_status(router: APIRouter, service: Service, protected: list[Any]) -> None:
    @router.get("/health")
    async def health() -> dict[str, Any]:
        """Alive, and how busy."""
        return {
            "status": "ok",
            "pending": service.pending,
            "served": service.served,
            "batches": service.batcher.groups,
            "embedded": service.batcher.embedded,
            "uptime_seconds": round(time.time() - service.started, 1),
        }

    @router.get("/info", dependencies=protected)
    async def info() -> dict[str, Any]:
        """Version, weights, limits, and what is loaded."""
        return {
            "planformer": __version__,
            "fingerprint": service.model.fingerprint,
            "weights": service.model.provenance.get("weights", "trained"),
            "width": len(service.model.feature_names()),
            "segment": service.model.config.segment,
            "index_items": None if service.index is None else len(service.index),
            "classes": None if service.probe is None else [str(name) for name in service.probe.classes_],
            "limits": vars(service.limits),
        }


def _signal(reading: Reading) -> Signal:
    facts = reading.facts
    return Signal(reading.samples, facts["rate"], facts["kind"], facts["provenance"])


def _encoded(output: Signal, template: Signal) -> tuple[str, bytes]:
    """A restored signal as the bytes of a file that a browser can play or show."""
    ending = _SUFFIX.get(template.kind, ".npy")
    with tempfile.TemporaryDirectory(prefix="planformer-") as folder:
        return ending, write(Path(folder) / f"output{ending}", output, template=template).read_bytes()


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
