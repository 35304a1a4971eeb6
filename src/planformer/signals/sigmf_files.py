"""SigMF recordings and raw IQ files: datatypes, metadata, and the writer (the field's recording format, sigmf.org).

Integers are scaled as the SigMF reference implementation does: full scale is 1, unsigned types are centred first.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.signals.replacing import replacing
from planformer.signals.signal import check_rate

_PATTERN = re.compile(r"([cr])([fiu])(8|16|32|64)(?:_(le|be))?")
_WIDTHS = {"f": (32, 64), "i": (8, 16, 32), "u": (8, 16, 32)}
WRITE_BLOCK = 1 << 18
EXAMPLES = "cf32_le, ci16_le, ci8, cu8, rf32_le"


@dataclass(frozen=True)
class Datatype:
    """One of SigMF's sample formats, e.g. ``ci16_le``: complex, signed 16-bit, little-endian."""

    name: str
    dtype: np.dtype[Any]
    is_complex: bool

    @classmethod
    def parse(cls, name: object, where: str) -> Datatype:
        """From its SigMF name; an unknown one is an :class:`InputError` that names ``where`` it stood.

        >>> Datatype.parse("ci16_le", "example").sample_bytes
        4
        """
        match = _PATTERN.fullmatch(name) if isinstance(name, str) else None
        if not match or int(match[3]) not in _WIDTHS[match[2]]:
            raise InputError(f"{where}: unknown datatype {name!r}; SigMF allows e.g. {EXAMPLES}")
        domain, number, bits, order = match.groups()
        code = f"{number}{int(bits) // 8}"
        return cls(match[0], np.dtype((">" if order == "be" else "<") + code), domain == "c")

    @property
    def sample_bytes(self) -> int:
        return self.dtype.itemsize * (2 if self.is_complex else 1)

    @property
    def full_scale(self) -> float:
        return 1.0 if self.dtype.kind == "f" else 2.0 ** (8 * self.dtype.itemsize - 1)

    def decode(self, raw: npt.NDArray[Any], channels: int) -> npt.NDArray[Any]:
        """File order (channels interleaved) -> ``[channels, k]``, float32 or complex64 (64-bit: as stored)."""
        wide = raw.dtype.itemsize > 4 or (raw.dtype.kind != "f" and raw.dtype.itemsize == 4)
        values: npt.NDArray[Any] = raw.astype(np.float64 if wide else np.float32)
        if self.dtype.kind == "u":
            values -= self.full_scale
        if self.dtype.kind != "f":
            values /= self.full_scale
        if self.is_complex:
            values = values.view(np.complex128 if wide else np.complex64)
        out = values.reshape(-1, channels).T  # (channels, k)
        return (
            out if self.dtype.kind == "f" else out.astype(np.complex64 if self.is_complex else np.float32, copy=False)
        )

    def encode(self, samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """``[channels, k]`` with full scale 1 -> the file's numbers, flat. Inverse of :meth:`decode` up to rounding."""
        values = np.ascontiguousarray(samples.T)  # (k, channels)
        if self.is_complex:
            values = values.astype(np.complex128).view(np.float64)
        values = np.asarray(values.real, np.float64).ravel()
        if self.dtype.kind == "f":
            return values.astype(self.dtype)
        info = np.iinfo(self.dtype)
        offset = self.full_scale if self.dtype.kind == "u" else 0.0
        return np.clip(np.rint(values * self.full_scale + offset), info.min, info.max).astype(self.dtype)


def sigmf_paths(path: Path) -> tuple[Path, Path]:
    """The two files of a recording, from either of them or from their common stem."""
    text = str(path)
    for suffix in (".sigmf-meta", ".sigmf-data", ".sigmf"):
        if text.endswith(suffix):
            text = text[: -len(suffix)]
            break
    return Path(text + ".sigmf-meta"), Path(text + ".sigmf-data")


def write_sigmf(
    path: str | Path,
    samples: npt.ArrayLike,
    rate: float,
    datatype: str = "ci16_le",
    metadata: Mapping[str, Any] | None = None,
    *,
    scale: float | None = None,
) -> Path:
    """Write ``[n]`` or ``[channels, n]`` as ``path.sigmf-data`` and ``path.sigmf-meta``; returns the latter's path.

    ``metadata`` may hold ``"global"``, ``"captures"`` and ``"annotations"``; other keys (``"core:author"``) are global.
    Integer types clip at 1, so samples with a larger peak are scaled down first; the factor is stored as
    ``planformer:scale`` and undone by :func:`planformer.read`. Both files appear complete or not at all.

    >>> import numpy as np, tempfile
    >>> tone = np.exp(2j * np.pi * 0.1 * np.arange(64))
    >>> meta = write_sigmf(tempfile.mkdtemp() + "/tone", tone, rate=1e6, metadata={"core:author": "me"})
    >>> from planformer import read
    >>> bool(abs(read(meta).samples[0] - tone).max() < 1e-4)
    True
    """
    meta_path, _ = sigmf_paths(Path(path))
    kind = Datatype.parse(datatype, str(meta_path))
    x = np.atleast_2d(np.asarray(samples))
    if x.ndim != 2 or not x.shape[-1] or x.dtype.kind not in "iufc":
        raise InputError(f"{meta_path}: expected samples [n] or [channels, n], got {x.dtype} {list(x.shape)}")
    if scale is None:
        scale = _scale_for(x, kind)
    blocks = (x[:, start : start + WRITE_BLOCK] for start in range(0, x.shape[1], WRITE_BLOCK))
    return write_sigmf_blocks(path, blocks, rate, datatype, metadata, channels=x.shape[0], scale=scale)


def write_sigmf_blocks(
    path: str | Path,
    blocks: Iterable[npt.NDArray[Any]],
    rate: float,
    datatype: str,
    metadata: Mapping[str, Any] | None = None,
    *,
    channels: int,
    scale: float = 1.0,
) -> Path:
    """:func:`write_sigmf` for samples that arrive as blocks ``[channels, k]``: memory for one block."""
    meta_path, data_path = sigmf_paths(Path(path))
    kind = Datatype.parse(datatype, str(meta_path))
    document = _document(metadata, kind, check_rate(rate, str(meta_path)), channels, scale)
    digest = hashlib.sha512()
    with replacing(data_path) as data_temporary, replacing(meta_path) as meta_temporary:
        with data_temporary.open("wb") as data_file:
            for block in blocks:
                if not np.isfinite(block).all():
                    raise InputError(f"{meta_path}: NaN or infinite samples are not written")
                raw = kind.encode(block * scale).tobytes()
                digest.update(raw)
                data_file.write(raw)
        document["global"]["core:sha512"] = digest.hexdigest()
        try:
            meta_temporary.write_text(json.dumps(document, indent=2) + "\n")
        except (TypeError, ValueError) as error:
            raise InputError(f"{meta_path}: metadata that is no JSON ({error})") from error
    return meta_path


def _scale_for(x: npt.NDArray[Any], kind: Datatype) -> float:
    if kind.dtype.kind == "f":
        return 1.0
    peak = max(float(np.abs(x.real).max()), float(np.abs(x.imag).max()))
    return 1.0 if peak <= 1 else 1 / peak


def _document(
    metadata: Mapping[str, Any] | None, kind: Datatype, rate: float, channels: int, scale: float
) -> dict[str, Any]:
    extra = dict(metadata or {})
    header = dict(extra.pop("global", {}))
    captures = list(extra.pop("captures", [])) or [{"core:sample_start": 0}]
    annotations = list(extra.pop("annotations", []))
    header.update(extra)
    header.update({"core:datatype": kind.name, "core:sample_rate": rate, "core:num_channels": channels})
    header.setdefault("core:version", "1.2.0")
    if scale != 1:
        header["planformer:scale"] = scale
        known = [e for e in header.get("core:extensions", []) if e.get("name") != "planformer"]
        header["core:extensions"] = [*known, {"name": "planformer", "version": "1.0.0", "optional": True}]
    return {"global": header, "captures": captures, "annotations": annotations}


def raw_blocks(
    path: Path, kind: Datatype, channels: int, *, start: int, stop: int, block_samples: int
) -> Iterator[npt.NDArray[Any]]:
    """Bytes ``start`` to ``stop`` of a file as ``[channels, k]`` blocks; read, not mapped, so memory stays bounded."""
    frame = kind.sample_bytes * channels
    with path.open("rb") as file:
        file.seek(start)
        remaining = stop - start
        while remaining > 0:
            chunk = file.read(min(remaining, block_samples // channels * frame or frame))
            if len(chunk) % frame or not chunk:
                raise InputError(f"{path}: the file ended while it was read; is it still being written?")
            remaining -= len(chunk)
            yield kind.decode(np.frombuffer(chunk, kind.dtype), channels)
