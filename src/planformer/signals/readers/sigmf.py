"""SigMF recordings: metadata and data pairs, single or multi-channel, and `.sigmf` archives (tar)."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.signals.reading import Request
from planformer.signals.sigmf_files import Datatype, raw_blocks, sigmf_paths
from planformer.signals.signal import check_rate
from planformer.signals.source import BLOCK_SAMPLES, Source

MAX_METADATA_BYTES = 64 << 20
VERIFY_BYTES = 64 << 20  # recordings up to this size are checked against core:sha512 when they are opened


@dataclass(frozen=True)
class _Extent:
    """Where the samples are: a file and its first and last byte."""

    path: Path
    start: int
    stop: int


def open_file(request: Request) -> Source:
    if tarfile.is_tarfile(request.path):
        document, extent = _from_archive(request)
    else:
        document, extent = _from_pair(request)
    header = document["global"]
    kind = Datatype.parse(header.get("core:datatype"), request.name)
    channels = header.get("core:num_channels", 1)
    if not isinstance(channels, int) or isinstance(channels, bool) or not 1 <= channels <= 4096:
        raise InputError(f"{request.name}: core:num_channels is {channels!r}; expected a number from 1 on")
    extent = _without_headers(request.name, header, document["captures"], extent)
    _check_size(request.name, kind, channels, extent, document["captures"])
    _verify(request.name, header, extent)
    scale = _scale(request.name, header)

    def blocks() -> Iterator[npt.NDArray[Any]]:
        for block in raw_blocks(
            extent.path, kind, channels, start=extent.start, stop=extent.stop, block_samples=BLOCK_SAMPLES
        ):
            yield block if scale == 1 else block / np.float32(scale)

    provenance = {
        "format": "sigmf",
        "datatype": kind.name,
        "global": header,
        "captures": document["captures"],
        "annotations": document["annotations"],
    }
    return Source(request.name, "iq", _rate(request, header), channels, not kind.is_complex, blocks, provenance)


def _rate(request: Request, header: dict[str, Any]) -> float:
    rate = header.get("core:sample_rate")
    if rate is None:
        if request.rate is None:
            raise InputError(
                f"{request.name}: the metadata states no core:sample_rate; give it with rate (--rate), in Hz"
            )
        return request.rate
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        raise InputError(f"{request.name}: core:sample_rate is {rate!r}, not a number")
    return check_rate(float(rate), request.name)


def _scale(name: str, header: dict[str, Any]) -> float:
    scale = header.get("planformer:scale", 1.0)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 1e-30 < scale < 1e30:
        raise InputError(f"{name}: planformer:scale is {scale!r}; expected a positive number")
    return float(scale)


def _from_pair(request: Request) -> tuple[dict[str, Any], _Extent]:
    meta, data = sigmf_paths(request.path)
    if request.path.suffix not in (".sigmf-data", ".sigmf"):
        meta = request.path
    if not meta.is_file():
        raise InputError(f"{request.name}: no metadata beside it; expected {meta.name}")
    with meta.open("rb") as file:
        document = parse_metadata(file.read(MAX_METADATA_BYTES + 1), request.name)
    dataset = document["global"].get("core:dataset")
    if dataset is not None:
        if not isinstance(dataset, str) or Path(dataset).name != dataset:
            raise InputError(f"{request.name}: core:dataset {dataset!r} is not the name of a file beside the metadata")
        data = meta.parent / dataset
    if document["global"].get("core:metadata_only") or not data.is_file():
        raise InputError(f"{request.name}: the recording has no data; expected {data.name} beside the metadata")
    size = data.stat().st_size
    if not size:
        raise InputError(f"{request.name}: its data file {data.name} is empty")
    return document, _Extent(data, 0, size)


def _from_archive(request: Request) -> tuple[dict[str, Any], _Extent]:
    """The first recording of an archive. tar does not compress, so its samples can be read in place."""
    with tarfile.open(request.path, "r:") as archive:
        members = {m.name: m for m in archive if m.isfile()}
        meta_name = next((n for n in members if n.endswith(".sigmf-meta")), None)
        if meta_name is None:
            raise InputError(f"{request.name}: no .sigmf-meta in this archive")
        data = members.get(meta_name.removesuffix("-meta") + "-data")
        if data is None or not data.size:
            raise InputError(f"{request.name}: the recording {meta_name} has no data in this archive")
        file = archive.extractfile(members[meta_name])
        document = parse_metadata(file.read(MAX_METADATA_BYTES + 1) if file else b"", request.name)
    stop = data.offset_data + data.size
    if stop > request.path.stat().st_size:
        raise InputError(f"{request.name}: the archive is truncated")
    return document, _Extent(request.path, data.offset_data, stop)


def parse_metadata(raw: bytes, name: str) -> dict[str, Any]:
    """JSON -> ``{"global", "captures", "annotations"}``; the wrapping of SigMF 0.02 (``_metadata``) is taken off."""
    if len(raw) > MAX_METADATA_BYTES:
        raise InputError(f"{name}: metadata of more than {MAX_METADATA_BYTES >> 20} MB is not read")
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: the metadata is not valid JSON ({' '.join(str(error).split())[:80]})") from error
    if isinstance(document, dict) and isinstance(document.get("_metadata"), dict):
        document = document["_metadata"]
    if not isinstance(document, dict) or not isinstance(document.get("global"), dict):
        raise InputError(f"{name}: not SigMF metadata: it has no 'global' object")
    captures, annotations = document.get("captures") or [], document.get("annotations") or []
    if not isinstance(captures, list) or not all(isinstance(c, dict) for c in captures):
        raise InputError(f"{name}: 'captures' is not a list of objects")
    return {"global": document["global"], "captures": captures, "annotations": annotations}


def _without_headers(name: str, header: dict[str, Any], captures: list[dict[str, Any]], extent: _Extent) -> _Extent:
    """Non-conforming data sets keep bytes of their own before and after the samples."""
    lead = captures[0].get("core:header_bytes", 0) if captures else 0
    trail = header.get("core:trailing_bytes", 0)
    if any(c.get("core:header_bytes") for c in captures[1:]):
        raise InputError(
            f"{name}: header bytes between captures are not supported; convert it to a conforming data set"
        )
    for value in (lead, trail):
        if not isinstance(value, int) or value < 0:
            raise InputError(f"{name}: a count of header or trailing bytes is {value!r}")
    return _Extent(extent.path, extent.start + lead, extent.stop - trail)


def _check_size(name: str, kind: Datatype, channels: int, extent: _Extent, captures: list[dict[str, Any]]) -> None:
    size, frame = extent.stop - extent.start, kind.sample_bytes * channels
    if size <= 0:
        raise InputError(f"{name}: there are no samples in its data")
    if size % frame:
        raise InputError(
            f"{name}: {size} bytes of data are no whole number of samples ({frame} bytes each for "
            f"{channels} channel(s) of {kind.name}); the data is truncated or has another datatype"
        )
    for capture in captures:
        start = capture.get("core:sample_start", 0)
        if not isinstance(start, int) or not 0 <= start < max(size // frame, 1):
            raise InputError(f"{name}: a capture starts at sample {start!r} of {size // frame}; the data is truncated")


def _verify(name: str, header: dict[str, Any], extent: _Extent) -> None:
    stated = header.get("core:sha512")
    if not isinstance(stated, str) or extent.stop - extent.start > VERIFY_BYTES:
        return
    with extent.path.open("rb") as file:
        file.seek(extent.start)
        digest = hashlib.sha512(file.read(extent.stop - extent.start)).hexdigest()
    if digest != stated.lower():
        raise InputError(f"{name}: the data does not match its core:sha512; it is truncated or damaged")
