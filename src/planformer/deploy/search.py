"""Nearest neighbours of embeddings: exact with one matrix product, approximate (usearch) for very many.

>>> rows = prepare_vectors(np.eye(3, dtype=np.float32))
>>> exact_search(rows, rows[1], k=1)[0].tolist()
[1]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planformer.errors import MissingExtraError

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
EXACT_LIMIT = 100_000  # 100 MB of vectors; one matrix-vector product takes about as long as reading them
_OVERSAMPLE = 4  # candidates for each answer, rescored exactly
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

    The recall's queries are rows of the index moved half-way to another row: not members, but like them.
    """

    def __init__(self, rows: Vectors, *, seed: int = 0) -> None:
        try:
            from usearch.index import Index
        except ImportError as error:
            raise MissingExtraError("usearch", "serve", f"searching {len(rows):,} items") from error
        self._rows = rows
        self._graph = Index(ndim=rows.shape[1], metric="ip", dtype="f32")
        self._graph.add(np.arange(len(rows)), rows)
        self.recall = self._measure(np.random.default_rng(seed))

    def search(self, query: Vectors, k: int) -> tuple[Places, Vectors]:
        """As :func:`exact_search`, on the graph's candidates only."""
        count = min(len(self._rows), max(_OVERSAMPLE * k, 64))
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
