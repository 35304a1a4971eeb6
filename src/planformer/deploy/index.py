"""A similarity index on disk: embeddings and their metadata in a folder of Parquet files.

A file is added by its content: the same bytes under a second name are a duplicate, other bytes under a known name
replace the old row. Parts are written beside each other and renamed into place, never changed, so that a crash leaves
the rows before it, and a reader never sees half a part.

>>> import tempfile, pathlib
>>> folder = pathlib.Path(tempfile.mkdtemp()) / "idx"
>>> index = Index.create(folder, fingerprint="weights of a model", width=2)
>>> with index.writer() as writer:
...     writer.add(Item("a.wav", "sha of a", "audio"), np.array([1, 0]))
...     writer.add(Item("b.wav", "sha of b", "audio"), np.array([0, 1]))
>>> index.search(np.array([0.9, 0.1]), k=1).hits[0].item.path
'a.wav'
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.deploy.search import EXACT_LIMIT, Approximate, Vectors, exact_search, graph_file, prepare_vectors
from planformer.errors import InputError
from planformer.files import replace_file

FORMAT = 1
MANIFEST = "index.json"
_PART_ROWS = 256  # rows that a crash can cost
_MAX_PARTS = 32  # more are merged into one


@dataclass(frozen=True)
class Item:
    """One indexed file: the name it was added under, the hash of its bytes, and what the reader said."""

    path: str
    sha256: str
    kind: str = ""
    channels: int = 1
    segments: int = 0


@dataclass(frozen=True)
class Hit:
    """A neighbour; ``score`` is the cosine of the embeddings, 1 for the same content."""

    item: Item
    score: float


@dataclass(frozen=True)
class Answer:
    """Neighbours, best first; ``recall`` is None for an exact search, else measured against one."""

    hits: list[Hit]
    searched: int
    recall: float | None = None


class Index:
    """An index folder, read into memory: 1 KB an item."""

    def __init__(self, folder: str | Path, *, exact_limit: int = EXACT_LIMIT) -> None:
        self.folder = Path(folder)
        self.exact_limit = exact_limit
        self.settings = _read_manifest(self.folder)
        self.items: list[Item] = []
        self.vectors: Vectors = np.zeros((0, self.width), np.float32)
        self._state: tuple[str, ...] | None = None
        self._prepared: Vectors | None = None
        self._approximate: Approximate | None = None
        self.refresh()

    @classmethod
    def create(cls, folder: str | Path, *, fingerprint: str, width: int, exact_limit: int = EXACT_LIMIT) -> Index:
        """Open the index, or start an empty one for a model's embeddings."""
        folder = Path(folder)
        if not (folder / MANIFEST).exists():
            if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
                raise InputError(f"{folder}: is not an index and not an empty folder; choose another name")
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: can't be made ({error.strerror})") from error
            settings = {"format": FORMAT, "fingerprint": fingerprint, "width": width}
            _write_manifest(folder, settings)
        index = cls(folder, exact_limit=exact_limit)
        index.check(fingerprint)
        return index

    @property
    def width(self) -> int:
        return int(self.settings["width"])

    def __len__(self) -> int:
        return len(self.items)

    def check(self, fingerprint: str) -> None:
        """Embeddings of two models can't be compared: refuse those of another one."""
        if self.settings["fingerprint"] != fingerprint:
            raise InputError(
                f"{self.folder}: was made with other weights ({str(self.settings['fingerprint'])[:12]}, now "
                f"{fingerprint[:12]}); pass those with --weights, or make a new index"
            )

    def parts(self) -> list[Path]:
        """The data files, oldest first."""
        return sorted(self.folder.glob("part-*.parquet"))

    def refresh(self) -> bool:
        """Read the folder again if another process changed it. True when it did."""
        state = tuple(part.name for part in self.parts())
        if state == self._state:
            return False
        try:
            rows = self._read(state)
        except FileNotFoundError:  # merged by another process between the listing and the reading
            return self.refresh()
        self.items = [item for item, _ in rows.values()]
        vectors = [vector for _, vector in rows.values()]
        self.vectors = np.stack(vectors) if vectors else np.zeros((0, self.width), np.float32)
        self._state, self._prepared, self._approximate = state, None, None
        return True

    def _read(self, state: tuple[str, ...]) -> dict[str, tuple[Item, Vectors]]:
        """The live rows by path: the last one of a path counts, the first path of a content."""
        rows: dict[str, tuple[Item, Vectors]] = {}
        hashes: set[str] = set()
        for name in state:
            for item, vector in _read_part(self.folder / name, self.width):
                if item.path not in rows and item.sha256 in hashes:
                    continue  # a merge was interrupted, or two names of one content met
                if item.path in rows:
                    hashes.discard(rows.pop(item.path)[0].sha256)
                rows[item.path] = (item, vector)
                hashes.add(item.sha256)
        return rows

    def search(self, query: npt.NDArray[Any], k: int = 10) -> Answer:
        """The ``k`` nearest items: exact up to ``exact_limit`` items, approximate and then rescored beyond."""
        query = np.asarray(query, np.float32).reshape(-1)
        if query.size != self.width:
            raise InputError(f"a query has {self.width} numbers, not {query.size}")
        if k < 1:
            raise InputError(f"k is at least 1, not {k}")
        if not self.items:
            return Answer([], 0)
        if self._prepared is None:
            self._prepared = prepare_vectors(self.vectors)
        prepared = prepare_vectors(query)
        if len(self.items) <= self.exact_limit:
            places, scores = exact_search(self._prepared, prepared, k)
            recall = None
        else:
            if self._approximate is None:
                self._approximate = Approximate.stored(self._prepared, self.folder, self._digest())
            places, scores = self._approximate.search(prepared, k)
            recall = self._approximate.recall
        hits = [Hit(self.items[place], float(score)) for place, score in zip(places, scores, strict=True)]
        return Answer(hits, len(self.items), recall)

    @property
    def must_build(self) -> bool:
        """Whether the next search begins with building a graph, which takes a minute for 100,000 items."""
        few = len(self.items) <= self.exact_limit
        return not few and self._approximate is None and not graph_file(self.folder, self._digest()).exists()

    def _digest(self) -> str:
        """A name for the rows in memory: data files never change."""
        return hashlib.sha256("\n".join(self._state or ()).encode()).hexdigest()[:16]

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Add rows; one process at a time. What was flushed before an error stays."""
        with _locked(self.folder):
            self.refresh()
            writer = Writer(self)
            try:
                yield writer
            finally:
                writer.flush()
                self.refresh()
                if len(self.parts()) > _MAX_PARTS:
                    self._merge()

    def _merge(self) -> None:
        """One part instead of many. A crash after the rename leaves rows twice, which :meth:`refresh` drops."""
        old = self.parts()
        _write_part(self.folder, self.items, list(self.vectors))
        for part in old:
            part.unlink()
        self.refresh()


class Writer:
    """Rows on their way into an index."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._paths = {item.path: item.sha256 for item in index.items}
        self._by_hash = {item.sha256: item.path for item in index.items}
        self._waiting: list[tuple[Item, Vectors]] = []

    def duplicate_of(self, sha256: str) -> str | None:
        """The path under which these bytes are indexed already, if they are."""
        return self._by_hash.get(sha256)

    def add(self, item: Item, vector: npt.NDArray[Any]) -> None:
        """Add or replace one row; known content is left out. Rows reach the disk 256 at a time and at the end."""
        if self.duplicate_of(item.sha256) is not None:
            return
        vector = np.asarray(vector, np.float32).reshape(-1)
        if vector.size != self._index.width or not np.isfinite(vector).all():
            raise InputError(f"{item.path}: an embedding has {self._index.width} finite numbers")
        before = self._paths.get(item.path)
        if before is not None:
            del self._by_hash[before]
        self._paths[item.path] = item.sha256
        self._by_hash[item.sha256] = item.path
        self._waiting.append((item, vector))
        if len(self._waiting) >= _PART_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            _write_part(self._index.folder, [item for item, _ in self._waiting], [row for _, row in self._waiting])
            self._waiting.clear()


def content_hash(path: str | Path) -> str:
    """SHA-256 of a file's bytes; a SigMF recording's is that of metadata and samples."""
    path = Path(path)
    digest = hashlib.sha256()
    files = [path]
    if path.suffix == ".sigmf-meta" and path.with_suffix(".sigmf-data").exists():
        files.append(path.with_suffix(".sigmf-data"))
    try:
        for file in files:
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror})") from error
    return digest.hexdigest()


def item_vector(embedding: npt.NDArray[np.float32], channels: int) -> npt.NDArray[np.float32]:
    """One vector a file: the mean over its channels, so that a picture and a mono recording can be compared."""
    return embedding.reshape(channels, -1).mean(axis=0)  # [channels * width] -> [width]


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        settings = json.loads((folder / MANIFEST).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{folder}: no index there; make one with planformer index add FILES --to {folder}") from error
    except ValueError as error:
        raise InputError(f"{folder / MANIFEST}: damaged; make the index again") from error
    if not isinstance(settings, dict) or not {"format", "fingerprint", "width"} <= settings.keys():
        raise InputError(f"{folder / MANIFEST}: damaged; make the index again")
    if settings["format"] != FORMAT:
        raise InputError(f"{folder}: index of format {settings['format']}, this version reads {FORMAT}; update")
    return settings


def _write_manifest(folder: Path, settings: dict[str, Any]) -> None:
    def write(path: Path) -> None:
        path.write_text(json.dumps(settings), "utf-8")

    replace_file(folder / MANIFEST, write)


def _read_part(path: Path, width: int) -> Iterator[tuple[Item, Vectors]]:
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        values = table["embedding"].combine_chunks().values.to_numpy().reshape(-1, width)
        names = [name for name in Item.__dataclass_fields__ if name in table.column_names]
        columns = [table[name].to_pylist() for name in names]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors are of these kinds
        raise InputError(f"{path}: damaged part of an index; delete it and add its files again") from error
    for row, vector in zip(zip(*columns, strict=True), values, strict=True):
        yield Item(**dict(zip(names, row, strict=True))), vector


def _write_part(folder: Path, items: Sequence[Item], vectors: Sequence[Vectors]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(Item.__dataclass_fields__)
    columns: dict[str, Any] = {name: [getattr(item, name) for item in items] for name in names}
    flat = pa.array(np.concatenate(vectors), pa.float32())
    columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, len(vectors[0]))
    last = max((int(part.stem.split("-")[1]) for part in folder.glob("part-*.parquet")), default=0)

    def write(path: Path) -> None:
        pq.write_table(pa.table(columns), path)
        _sync(path)  # the content first, the name after it

    replace_file(folder / f"part-{last + 1:08d}.parquet", write)
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The system drops the lock when its process dies, so a crash leaves nothing to clean up."""
    with (folder / ".lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{folder}: another process is adding to it; wait until it is done") from error
        yield
