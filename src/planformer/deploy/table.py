"""Embeddings on disk: an append-only journal while files are being embedded, then one Parquet, CSV or NumPy file.

The journal (``<output>.partial``) is JSON lines: a header with what the rows depend on, then one row per file, flushed
as it is made. A run that stops half-way leaves it; the next run with the same settings takes the rows of unchanged
files from it. Memory is that of one group of rows, whatever the number of files.

>>> import tempfile, pathlib
>>> target = pathlib.Path(tempfile.mkdtemp()) / "out.csv"
>>> with Journal(target, {"weights": "random"}) as journal:
...     journal.append("a.wav", {"channels": 1}, np.zeros(2, np.float32))
...     rows = journal.finish(["a.wav"])
>>> print(target.read_text().splitlines()[0])
path,kind,channels,segments,e0,e1
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.files import replace_file

FORMATS = (".parquet", ".csv", ".npy")
_GROUP = 1024  # rows written at once: 1,024 rows of 256 numbers are 1 MB
_FIELDS = ("path", "kind", "channels", "segments")


def check_target(path: str | Path) -> Path:
    """The output path, if its name says a format we write and its folder exists."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: output must end in .parquet, .csv or .npy")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: folder {path.parent} does not exist")
    if path.is_dir():
        raise InputError(f"{path}: is a folder")
    return path


class Journal:
    """Rows of one output file, kept beside it until :meth:`finish` turns them into the file."""

    def __init__(self, target: str | Path, settings: Mapping[str, Any], *, restart: bool = False) -> None:
        self.target = check_target(target)
        self.path = self.target.with_name(self.target.name + ".partial")
        self.settings = json.loads(json.dumps(dict(settings), sort_keys=True, default=str))
        self._rows: dict[str, tuple[int, str]] = {}  # key -> (byte offset, stamp)
        end = 0 if restart else self._scan()
        try:
            self._stream = self.path.open("r+b" if end else "wb")
        except OSError as error:
            raise InputError(f"{self.path}: can't write ({error.strerror})") from error
        if end:
            self._stream.seek(end)
            self._stream.truncate()  # a line cut short by the interruption
        else:
            self._rows.clear()
            self._write_line({"settings": self.settings})

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        if not self._rows:  # nothing to resume: leave nothing behind
            self.path.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._rows)

    def has(self, key: str, stamp: str = "") -> bool:
        """True when a row for this file, unchanged since, is already there."""
        return key in self._rows and self._rows[key][1] == stamp

    def append(
        self, key: str, fields: Mapping[str, Any], embedding: npt.NDArray[np.float32], *, stamp: str = ""
    ) -> None:
        """Add one row and flush it. ``stamp`` says which version of the file it is (size and time)."""
        values = np.ascontiguousarray(embedding, dtype="<f4")
        row = {
            "path": key,
            "stamp": stamp,
            **fields,
            "embedding": base64.b64encode(values.tobytes()).decode("ascii"),
        }
        self._rows[key] = (self._stream.tell(), stamp)
        self._write_line(row)

    def finish(self, keys: Sequence[str], metadata: Mapping[str, str] | None = None) -> int:
        """Write the rows of ``keys``, in that order, to the target; remove the journal. Returns the row count."""
        order = [key for key in keys if key in self._rows]
        write = {".parquet": _write_parquet, ".csv": _write_csv, ".npy": _write_npy}[self.target.suffix.lower()]
        settings = json.dumps(self.settings, sort_keys=True)
        info = {"planformer": settings, **(metadata or {})}
        self._stream.flush()
        with self.path.open("rb") as stream:

            def rows() -> Iterator[dict[str, Any]]:
                for key in order:
                    stream.seek(self._rows[key][0])
                    yield _decode(json.loads(stream.readline()))

            replace_file(self.target, lambda path: write(path, rows, len(order), info))
        if self.target.suffix.lower() == ".npy":
            names = self.target.with_suffix(".paths.txt")
            replace_file(names, lambda path: _write_lines(path, order))
        self._stream.close()
        self.path.unlink()
        return len(order)

    def _write_line(self, record: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(record).encode("utf-8") + b"\n")
        self._stream.flush()

    def _scan(self) -> int:
        """Index an existing journal. Returns the offset behind its last whole line, 0 when it can't be used."""
        if not self.path.is_file():
            return 0
        offset = 0
        with self.path.open("rb") as stream:
            for line in stream:
                record = _parse(line)
                if record is None:
                    break
                if offset == 0:
                    if record.get("settings") != self.settings:
                        raise InputError(
                            f"{self.path}: half-done output of other weights or options; finish that run with its own "
                            "options, or pass --restart to drop it"
                        )
                else:
                    self._rows[record["path"]] = (offset, record["stamp"])
                offset += len(line)
        return offset


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    usable = isinstance(record, dict) and ("settings" in record or {"path", "stamp", "embedding"} <= record.keys())
    return record if usable else None


def _decode(row: dict[str, Any]) -> dict[str, Any]:
    row["embedding"] = np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4")
    return row


Rows = Callable[[], Iterator[dict[str, Any]]]


def _write_parquet(path: Path, rows: Rows, count: int, metadata: Mapping[str, str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("path", pa.string()),
            ("kind", pa.string()),
            ("channels", pa.int32()),
            ("segments", pa.int64()),
            ("embedding", pa.list_(pa.float32())),
        ],
        metadata=dict(metadata),
    )
    with pq.ParquetWriter(path, schema) as writer:
        for group in _groups(rows()):
            columns: dict[str, Any] = {name: [row.get(name) for row in group] for name in _FIELDS}
            columns["embedding"] = [row["embedding"] for row in group]
            writer.write_table(pa.table(columns, schema=schema))


def _write_csv(path: Path, rows: Rows, count: int, metadata: Mapping[str, str]) -> None:
    """One column per number. A file with fewer channels than the widest leaves its last columns empty."""
    width = max((row["embedding"].size for row in rows()), default=0)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*_FIELDS, *(f"e{i}" for i in range(width))])
        for row in rows():
            values = [f"{value:.9g}" for value in row["embedding"]]  # 9 digits give the float32 back exactly
            writer.writerow([*(row.get(name, "") for name in _FIELDS), *values, *[""] * (width - len(values))])


def _write_npy(path: Path, rows: Rows, count: int, metadata: Mapping[str, str]) -> None:
    first = next(rows(), None)
    width = 256 if first is None else first["embedding"].size
    header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_2_0(stream, header)
        for row in rows():
            if row["embedding"].size != width:
                raise InputError(
                    f"{row['path']}: {row['embedding'].size} numbers, but {first and first['path']} has {width} (other "
                    "channel count); write .parquet or .csv, or pass --channels 0 or --channels mix"
                )
            stream.write(row["embedding"].tobytes())


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for row in rows:
        group.append(row)
        if len(group) == _GROUP:
            yield group
            group = []
    if group:
        yield group
