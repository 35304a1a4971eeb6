"""Big corpora: :func:`planformer.deploy.corpus.embed_rows` mapped over Ray Data, on this machine or on a cluster.

Files are dealt out in small groups to worker processes that hold the network. A worker that dies is replaced and its
group is done again, file by file; a file that brings its worker down every time becomes a bad file. Workers see the
driver's paths, so on a cluster the files lie on a file system that all machines share.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planformer.deploy.corpus import Row, RowOptions, embed_rows
from planformer.errors import InputError, MissingExtraError, PlanFormerError
from planformer.memory import keep_freed_memory

if TYPE_CHECKING:
    import pyarrow as pa

    from planformer.models.planformer import PlanFormer

GROUP = 16  # files of one task: what a dying worker costs, and enough to fill batches
MAX_TASKS = 8192  # beyond that, groups grow with the corpus
ATTEMPTS = 3  # at a file on its own, before it is called bad: a decoder that crashes takes the worker with it


class WorkersLostError(PlanFormerError):
    """The cluster did not start, or went away."""


def import_ray() -> Any:
    """Ray, or the line that says how to install it.

    Ray reads its settings when it is imported: it does not report usage, and a cluster of our own, whose ports are open
    to the network, answers only to who knows a token made here.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "RAY_ADDRESS" not in os.environ and "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError("ray", "scale", "--engine ray") from error
    return ray


def ray_rows(
    model: PlanFormer, paths: Sequence[str | Path], options: RowOptions, *, workers: int | None = None
) -> Generator[Row, None, None]:
    """The rows of :func:`~planformer.deploy.corpus.embed_rows`, from worker processes, in the order they get done.

    ``workers`` is their number, each with one core; by default as many as there are cores. Where ``RAY_ADDRESS`` is
    set, that cluster does the work, else one that lives on this machine for as long as the rows take. A bad file is a
    row with its error, behind the good rows of its group.
    """
    ray = import_ray()
    if not paths:
        return
    with _cluster(ray, workers):
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        # The driver's references keep both alive for workers that start late.
        shared, ledger = ray.put(model), ray.remote(Ledger).options(num_cpus=0, max_restarts=-1).remote()
        rows = _dataset(ray, paths, count).map_batches(
            Worker,
            fn_constructor_args=([shared], ledger, options),
            batch_format="pyarrow",
            batch_size=GROUP,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, initial_size=count, max_size=count),
        )
        try:
            for table in rows.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
                yield from sorted(_unpack(table), key=lambda row: row.error is not None)
        except ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())[-160:]
            raise WorkersLostError(
                f"--engine ray: {reason}; run the command again to go on where it stopped"
            ) from error


class Ledger:
    """Counts how often something was begun and not ended, in a process that outlives the workers."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def begin(self, key: str) -> int:
        """The number of times, this one included.

        >>> ledger = Ledger()
        >>> ledger.begin("a"), ledger.begin("a"), ledger.end("a"), ledger.begin("a")
        (1, 2, None, 1)
        """
        self._counts[key] += 1
        return self._counts[key]

    def end(self, key: str) -> None:
        del self._counts[key]


class Worker:
    """The network in a worker process."""

    def __init__(self, shared: list[Any], ledger: Any, options: RowOptions) -> None:
        import ray

        keep_freed_memory()
        self._model: PlanFormer = ray.get(shared[0])
        self._begin = lambda key: int(ray.get(ledger.begin.remote(key)))
        self._end = lambda key: ray.get(ledger.end.remote(key))
        self._options = options

    def __call__(self, table: pa.Table) -> pa.Table:
        """Names and absolute paths of files -> a row for every name."""
        names: dict[str, list[str]] = {}  # a file may have several
        for file, name in zip(table["file"].to_pylist(), table["name"].to_pylist(), strict=True):
            names.setdefault(file, []).append(name)
        files = list(names)
        group = f"group of {files[0]}"
        again = self._begin(group) > 1  # a worker died in it
        parts = map(self._alone, files) if again else [self._rows(files)]
        answer = _pack([_renamed(row, name) for rows in parts for row in rows for name in names[row.path]])
        self._end(group)
        return answer

    def _rows(self, files: list[str]) -> list[Row]:
        return list(embed_rows(self._model, files, self._options, keep_going=True))

    def _alone(self, file: str) -> list[Row]:
        if self._begin(file) > ATTEMPTS:
            return [Row(file, error=InputError(f"{file}: brought its worker down {ATTEMPTS} times; check the file"))]
        rows = self._rows([file])
        self._end(file)
        return rows


def _dataset(ray: Any, paths: Sequence[str | Path], workers: int) -> Any:
    """Paths in blocks of one task each, small enough that every worker gets several."""
    items = [{"name": str(path), "file": str(Path(path).absolute())} for path in paths]
    tasks = max(-(-len(items) // GROUP), min(len(items), 4 * workers))
    return ray.data.from_items(items, override_num_blocks=min(tasks, MAX_TASKS))


def _renamed(row: Row, name: str) -> Row:
    """The row under the name that the user gave the file, in its message as well."""
    error = row.error
    if error is not None:
        error = InputError(str(error).replace(row.path, name))
    return replace(row, path=name, error=error)


def _pack(rows: list[Row]) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, Any] = {
        "path": pa.array([row.path for row in rows], pa.string()),
        "kind": pa.array([row.kind for row in rows], pa.string()),
        "channels": pa.array([row.channels for row in rows], pa.int64()),
        "segments": pa.array([row.segments for row in rows], pa.int64()),
        # bytes, as rows of one table differ in width where files differ in channels
        "embedding": pa.array([row.embedding.astype("<f4").tobytes() for row in rows], pa.binary()),
        "error": pa.array([None if row.error is None else str(row.error) for row in rows], pa.string()),
    }
    return pa.table(columns)


def _unpack(table: pa.Table) -> Iterator[Row]:
    for record in table.to_pylist():
        error = record.pop("error")
        values = np.frombuffer(record.pop("embedding"), "<f4")
        yield Row(**record, embedding=values, error=None if error is None else InputError(error))


@contextmanager
def _cluster(ray: Any, workers: int | None) -> Iterator[None]:
    """A cluster for the time of the work: the caller's own, the one that RAY_ADDRESS names, or one of our own."""
    own = not ray.is_initialized()
    if own:
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if not os.environ.get("RAY_ADDRESS"):
            options |= {"num_cpus": workers, "include_dashboard": False}
        try:
            ray.init(**options)
        except Exception as error:  # Ray says Exception itself where its processes take longer than 30 s to start
            reason = " ".join(str(error).split())[:160]
            raise WorkersLostError(
                f"--engine ray: Ray did not start ({reason}); try again, or --engine torch"
            ) from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # the command line has its own
    try:
        yield
    finally:
        if own:
            ray.shutdown()
