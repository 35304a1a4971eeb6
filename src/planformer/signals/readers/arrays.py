"""Arrays: npy, npz, CSV and HDF5 (with a key). Nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.signals.reading import Request
from planformer.signals.signal import Kind, Signal, check_rate, from_array
from planformer.signals.source import BLOCK_SAMPLES, Source

MAX_CHANNELS = 4096
MAX_ARRAY_BYTES = 4 << 30  # of a compressed array: a small archive can claim any size


def open_file(request: Request) -> Source:
    load = {"npy": _load_npy, "npz": _load_npz, "csv": _load_csv, "hdf5": _load_hdf5}[request.format]
    data, provenance = load(request)
    kind: Kind = request.kind or "array"
    rate = request.rate if request.rate is not None else provenance.pop("rate", None)
    provenance.update(format=request.format, shape=list(data.shape), dtype=str(data.dtype))
    if kind in ("image", "video"):
        return _held(from_array(data, rate, kind, name=request.name), provenance)
    data = _channels_first(data, request, provenance)

    def blocks() -> Iterator[npt.NDArray[Any]]:
        step = max(1, BLOCK_SAMPLES // data.shape[0])
        for start in range(0, data.shape[1], step):
            yield np.asarray(data[:, start : start + step])

    return Source(
        request.name, kind, check_rate(rate, request.name), data.shape[0], data.dtype.kind != "c", blocks, provenance
    )


def _held(signal: Signal, provenance: dict[str, Any]) -> Source:
    """An image or video that is in memory already, handed out a frame at a time."""
    frames = int(signal.provenance.get("frames", 1))
    is_image = signal.kind == "image"  # an image still has to become analytic, a video's frames are
    path = signal.samples.real if is_image else signal.samples
    length = signal.n // frames

    def blocks() -> Iterator[npt.NDArray[Any]]:
        for index in range(frames):
            yield path[:, index * length : (index + 1) * length]

    merged = {**provenance, **signal.provenance}
    return Source(str(merged["source"]), signal.kind, signal.rate, signal.channels, is_image, blocks, merged)


def _channels_first(data: npt.NDArray[Any], request: Request, provenance: dict[str, Any]) -> npt.NDArray[Any]:
    """``[n]`` -> ``[1, n]``; of two axes the longer one is time. Booleans and other non-numbers are refused."""
    if data.dtype == bool:
        data = data.astype(np.uint8)
    if data.dtype.kind not in "iufc":
        raise InputError(f"{request.name}: an array of {data.dtype} holds no numbers that could be samples")
    if not data.size:
        raise InputError(f"{request.name}: the array is empty (shape {list(data.shape)})")
    if data.ndim == 0 or data.ndim > 2:
        raise InputError(
            f"{request.name}: an array of shape {list(data.shape)} is neither [n] nor [channels, n]; "
            "pass kind image or video (--kind) for pictures, or a key for a part of it"
        )
    if data.ndim == 1:
        data = data[None]
    elif data.shape[0] > data.shape[1]:
        data = data.T
        provenance["transposed"] = True
    if data.shape[0] > MAX_CHANNELS:
        raise InputError(f"{request.name}: {data.shape[0]} channels; more than {MAX_CHANNELS} are not read")
    return data


def _load_npy(request: Request) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    array = np.load(request.path, mmap_mode="r", allow_pickle=False)
    return array, {}


def _load_npz(request: Request) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    import zipfile

    with zipfile.ZipFile(request.path) as archive:
        if sum(info.file_size for info in archive.infolist()) > MAX_ARRAY_BYTES:
            raise InputError(
                f"{request.name}: unpacks to more than {MAX_ARRAY_BYTES >> 30} GB; extract the array as .npy"
            )
    with np.load(request.path, allow_pickle=False) as archive:
        key = _pick(request, list(archive.files), "array")
        provenance: dict[str, Any] = {"key": key}
        if "rate" in archive.files and key != "rate" and archive["rate"].size == 1:
            provenance["rate"] = float(archive["rate"].item())
        return archive[key], provenance


def _load_hdf5(request: Request) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    import h5py

    with h5py.File(request.path, "r") as file:
        found: list[str] = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        key = _pick(request, found, "dataset")
        dataset = file[key]
        if dataset.dtype.kind not in "biufc":
            raise InputError(f"{request.name}: the dataset {key} holds {dataset.dtype}, not numbers")
        if dataset.size * dataset.dtype.itemsize > MAX_ARRAY_BYTES:
            raise InputError(
                f"{request.name}: the dataset {key} has more than {MAX_ARRAY_BYTES >> 30} GB; save a part of it"
            )
        provenance: dict[str, Any] = {"key": key}
        for name in ("rate", "sample_rate", "sampling_rate"):
            if name in dataset.attrs:
                provenance["rate"] = float(dataset.attrs[name])
        return np.asarray(dataset[()]), provenance


def _pick(request: Request, names: list[str], called: str) -> str:
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    if not names:
        raise InputError(f"{request.name}: there is no {called} in it")
    if request.key is None:
        if len(names) > 1:
            raise InputError(f"{request.name}: which {called}? Give one with key (--key): {shown}")
        return names[0]
    if request.key.strip("/") not in names:
        raise InputError(f"{request.name}: no {called} {request.key!r} in it; there are: {shown}")
    return request.key.strip("/")


def _load_csv(request: Request) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Columns are channels, rows are time; a header names the columns for ``key``; comma, semicolon, tab or blanks."""
    text = request.path.read_text(encoding="utf-8-sig", errors="strict")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError(f"{request.name}: there are no rows in it")
    delimiter = next((d for d in (",", ";", "\t") if d in lines[0]), None)
    header = _header(lines[0], delimiter)
    rows = lines[1:] if header else lines
    if not rows:
        raise InputError(f"{request.name}: a header but no rows of numbers")
    try:
        table = np.loadtxt(rows, dtype=np.float64, delimiter=delimiter, ndmin=2, comments=None)
    except ValueError as error:
        reason = " ".join(str(error).split())[:100]
        raise InputError(
            f"{request.name}: not a table of numbers ({reason}); for text pass kind text (--kind text)"
        ) from error
    columns = header or [str(i) for i in range(table.shape[1])]
    provenance: dict[str, Any] = {"columns": columns}
    if request.key is not None:
        key = _pick(request, columns, "column")
        table, provenance["key"] = table[:, [columns.index(key)]], key
    return table.T, provenance


def _header(line: str, delimiter: str | None) -> list[str] | None:
    fields = [field.strip().strip('"') for field in line.split(delimiter)]
    try:
        [float(field) for field in fields]
    except ValueError:
        return fields
    return None
