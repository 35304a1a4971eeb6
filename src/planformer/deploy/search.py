"""Nearest neighbours of embeddings: exact with one matrix product, approximate (usearch) for very many.

>>> rows = prepare_vectors(np.eye(3, dtype=np.float32))
>>> exact_search(rows, rows[1], k=1)[0].tolist()
[1]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError, MissingExtraError
from planformer.files import replace_file

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
EXACT_LIMIT = 100_000  # 100 MB of vectors; one matrix-vector product takes about as long as reading them
WANTED_RECALL = 0.95
_OVERSAMPLE = 4  # candidates for each answer, rescored exactly
_FEWEST, _MOST = 64, 4096  # candidates of one search, whatever k is; more would cost as much as an exact search
_RECALL_QUERIES = 100


def prepare_vectors(vectors: Vectors) -> Vectors:
    """Bring rows to length one, so that a product is a cosine; a row of zeros stays one."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors, np.float32), where=length > 0)


def exact_search(rows: Vectors, query: Vectors, k: int) -> tuple[Places, Vectors]:
    """Places and scores of the ``k`` largest products, best first; equal scores in the order of the rows."""
    scores = rows @ query  # [n]
    k = min(k, len(rows))
    bound = np.partition(scores, len(rows) - k)[len(rows) - k]
    candidates = np.flatnonzero(scores >= bound)
    order = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return order, scores[order]


class Approximate:
    """A graph index over prepared rows, and its recall at ten measured against the exact answer.

    How many candidates a search looks at is found by doubling until the recall reaches ``WANTED_RECALL`` (vectors in
    tight clusters need many), then the recall is measured on other queries. Queries are rows of the index moved
    half-way to another row: not members, but like them.
    """

    def __init__(self, rows: Vectors, *, seed: int = 0) -> None:
        self._rows = rows
        self._graph = _graph_class(rows)(ndim=rows.shape[1], metric="ip", dtype="f32")
        self._graph.add(np.arange(len(rows)), rows)
        self.candidates = _FEWEST
        rng = np.random.default_rng(seed)
        while self._measure(rng) < WANTED_RECALL and self.candidates < min(_MOST, len(rows)):
            self.candidates *= 2
        self.recall = self._measure(rng)

    @classmethod
    def stored(cls, rows: Vectors, folder: Path, name: str) -> Approximate:
        """The graph of these rows from ``folder``, or made and kept there, in place of graphs of other names.

        Nothing depends on the file: one that is missing, damaged or of other rows is made again, and a folder that
        can't be written only costs the time.
        """
        found = cls._open(rows, graph_file(folder, name))
        if found is None:
            found = cls(rows)
            found._keep(folder, name)
        return found

    @classmethod
    def _open(cls, rows: Vectors, path: Path) -> Approximate | None:
        graph_class = _graph_class(rows)
        try:
            notes = json.loads(path.with_suffix(".json").read_text("utf-8"))
            graph = graph_class.restore(str(path), view=True)  # mapped, not read
            some = np.linspace(0, len(rows) - 1, 16).astype(np.int64)
            if graph is None or len(graph) != len(rows) or not np.array_equal(np.asarray(graph[some]), rows[some]):
                return None
            found = cls.__new__(cls)
            found._rows, found._graph = rows, graph
            found.candidates, found.recall = int(notes["candidates"]), float(notes["recall"])
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            return None
        return found

    def _keep(self, folder: Path, name: str) -> None:
        notes = json.dumps({"candidates": self.candidates, "recall": self.recall})
        path = graph_file(folder, name)
        try:
            replace_file(path, lambda part: self._graph.save(str(part)))
            replace_file(path.with_suffix(".json"), lambda part: _write_text(part, notes))
            for old in folder.glob("graph-*"):
                if old.stem != path.stem:
                    old.unlink(missing_ok=True)
        except (OSError, InputError):
            return

    def search(self, query: Vectors, k: int) -> tuple[Places, Vectors]:
        """As :func:`exact_search`, on the graph's candidates only."""
        count = min(len(self._rows), max(_OVERSAMPLE * k, self.candidates))
        candidates = np.sort(self._graph.search(query, count).keys.astype(np.int64))
        order, scores = exact_search(self._rows[candidates], query, k)
        return candidates[order], scores

    def _measure(self, rng: np.random.Generator, k: int = 10) -> float:
        pairs = rng.integers(len(self._rows), size=(_RECALL_QUERIES, 2))
        queries = prepare_vectors(self._rows[pairs].mean(axis=1))  # [queries, 2, width] -> [queries, width]
        found = 0
        for query in queries:
            exact, _ = exact_search(self._rows, query, k)
            near, _ = self.search(query, k)
            found += len(np.intersect1d(exact, near))
        return found / (len(queries) * min(k, len(self._rows)))


def graph_file(folder: Path, name: str) -> Path:
    """Where the graph of that name is kept."""
    return folder / f"graph-{name}.usearch"


def _graph_class(rows: Vectors) -> Any:
    try:
        from usearch.index import Index
    except ImportError as error:
        raise MissingExtraError("usearch", "serve", f"searching {len(rows):,} items") from error
    return Index


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
