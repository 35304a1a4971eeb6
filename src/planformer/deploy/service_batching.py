"""One thread owns the network; segments of requests that wait at the same time share a batch."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from planformer.models.batching import Embedded, embed_sources
from planformer.models.planformer import PlanFormer
from planformer.models.readout import SegmentPool


@dataclass
class _Job:
    """Segments ``[channels, k, segment]`` to embed, or a function to call."""

    segments: npt.NDArray[np.complex64] | None = None
    call: Callable[[], Any] | None = None
    future: Future[Any] = field(default_factory=Future)

    @property
    def size(self) -> int:
        return 0 if self.segments is None else self.segments.shape[0] * self.segments.shape[1]


class Batcher:
    """Gathers what is waiting, up to ``max_batch`` segments, after at most ``patience`` seconds.

    ``threads`` is the network thread's share of the processor. OpenMP keeps a team of workers for every thread that
    computes, and once all teams together outnumber the cores each of them sleeps between two operations instead of
    spinning: half the speed. So whoever sets it keeps the other threads at one (``torch.set_num_threads(1)``).

    >>> batcher = Batcher(PlanFormer.random())
    >>> batcher.embed(np.ones((1, 1, 5120), np.complex64)).result().embedding.shape
    (256,)
    >>> batcher.close()
    """

    def __init__(
        self, model: PlanFormer, *, max_batch: int = 64, patience: float = 0.004, threads: int | None = None
    ) -> None:
        self.model, self.max_batch, self.patience, self.threads = model, max_batch, patience, threads
        self.groups = self.embedded = 0
        self._queue: queue.Queue[_Job | None] = queue.Queue()
        self._thread = threading.Thread(target=self._loop, name="planformer-network", daemon=True)
        self._thread.start()

    def embed(self, segments: npt.NDArray[np.complex64]) -> Future[Embedded]:
        """The embedding of prepared segments, when its batch has run."""
        return self._submit(_Job(segments=segments))

    def call(self, function: Callable[[], Any]) -> Future[Any]:
        """Anything else that needs the network, in turn."""
        return self._submit(_Job(call=function))

    def close(self) -> None:
        """Finish what waits, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _submit(self, job: _Job) -> Future[Any]:
        self._queue.put(job)
        return job.future

    def _loop(self) -> None:
        if self.threads is not None:
            torch.set_num_threads(self.threads)  # of this thread only
        while True:
            group, rest, go_on = self._gather()
            self._run(group)
            if rest is not None and rest.future.set_running_or_notify_cancel():
                _settle(rest)
            if not go_on:
                return

    def _gather(self) -> tuple[list[_Job], _Job | None, bool]:
        """Jobs for one batch, the job that ended it if it was a call, and whether to go on."""
        group: list[_Job] = []
        size, deadline = 0, float("inf")
        while size < self.max_batch:
            try:
                wait = None if not group else max(0.0, deadline - time.monotonic())
                job = self._queue.get(timeout=wait)
            except queue.Empty:
                break
            if job is None or job.call is not None:
                return group, job, job is not None
            if job.future.set_running_or_notify_cancel():  # not given up while it waited
                group.append(job)
                size += job.size
            deadline = min(deadline, time.monotonic() + self.patience)
        return group, None, True

    def _run(self, group: list[_Job]) -> None:
        if not group:
            return
        self.groups += 1
        self.embedded += len(group)
        sources = (iter([job.segments]) for job in group if job.segments is not None)
        try:
            pool = SegmentPool(self.model.encoder)
            for found in embed_sources(pool, sources, batch_size=self.max_batch, readout="latent"):
                group[found.index].future.set_result(found)
        except BaseException as error:
            for job in group:
                if not job.future.done():
                    job.future.set_exception(error)


def _settle(job: _Job) -> None:
    assert job.call is not None
    try:
        job.future.set_result(job.call())
    except BaseException as error:
        job.future.set_exception(error)
