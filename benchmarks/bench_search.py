"""The similarity search: an exact answer among 100,000 items, and the graph that takes over beyond them.

``python -m benchmarks search`` builds a graph of 5,000 items; ``python -m benchmarks.bench_search 120000`` one of that
many (minutes).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from planformer.deploy.search import Approximate, Vectors, exact_search, prepare_vectors

WIDTH = 256
QUERIES = 50


def run(items: int = 100_000, graph_items: int = 5_000) -> list[dict[str, object]]:
    """Rows for ``python -m benchmarks search``."""
    rows = clustered(max(items, graph_items))
    rng = np.random.default_rng(1)
    queries = prepare_vectors(rows[rng.integers(graph_items, size=(QUERIES, 2))].mean(axis=1))
    started = time.process_time()
    graph = Approximate(rows[:graph_items])
    built = time.process_time() - started
    exact = _seconds(lambda query: exact_search(rows[:items], query, 10), queries)
    same = _seconds(lambda query: exact_search(rows[:graph_items], query, 10), queries)
    near = _seconds(lambda query: graph.search(query, 10), queries)
    return [
        {"name": f"exact search, {items:,} items", "value": 1000 * exact, "unit": "ms CPU"},
        {
            "name": f"graph search, {graph_items:,} items",
            "value": 1000 * near,
            "unit": "ms CPU",
            "ratio": same / near,
            "note": f"exact among the same: {1000 * same:.2f} ms",
        },
        {
            "name": f"graph of {graph_items:,} items: recall at 10",
            "value": graph.recall,
            "unit": "",
            "note": "vs exact",
        },
        {"name": f"graph of {graph_items:,} items: building and measuring", "value": built, "unit": "s CPU"},
    ]


def clustered(count: int) -> Vectors:
    """Vectors around 300 centres, as embeddings of a few hundred kinds of things are."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((300, WIDTH), np.float32)
    return prepare_vectors(centres[rng.integers(300, size=count)] + rng.standard_normal((count, WIDTH), np.float32))


def _seconds(search: Callable[[Vectors], object], queries: Vectors) -> float:
    started = time.process_time()
    for query in queries:
        search(query)
    return (time.process_time() - started) / len(queries)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    for row in run(graph_items=count):
        print(row)
