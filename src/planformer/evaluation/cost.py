"""What each method costs, measured in the same run on the same items: time, peak memory, parameters, MACs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planformer.evaluation.featurisers import Featuriser
from planformer.evaluation.tasks import TaskData

ITEMS = 32
BUDGET_SECONDS = 8.0  # of the first method; long recordings get fewer items


@dataclass(frozen=True)
class Cost:
    """``macs`` by convention for one 5,120-sample segment; ``peak_mb``: growth of resident memory while running."""

    method: str
    parameters: int
    macs: dict[str, int] | None
    milliseconds: float | None  # per item
    peak_mb: float | None
    why_not: str = ""


def measure_costs(methods: Iterable[Featuriser], data: TaskData, *, items: int = ITEMS) -> list[Cost]:
    """Time each method on the same ``items`` rows of ``data``, after one unmeasured pass over two of them."""
    rows = np.random.default_rng(0).permutation(len(data))[:items]
    sample, first = data.subset(np.sort(rows)), True
    costs = []
    for method in methods:
        reason = method.not_applicable(sample)
        if reason is not None:
            costs.append(Cost(method.name, method.parameters(), method.macs(), None, None, reason))
            continue
        warm = sample.subset(np.arange(min(2, len(sample))))
        method.features(warm)
        if first:
            began = time.perf_counter()
            method.features(warm)
            each = (time.perf_counter() - began) / len(warm)
            sample = sample.subset(np.arange(min(len(sample), max(2, int(BUDGET_SECONDS / max(each, 1e-9))))))
            first = False
        with PeakMemory() as memory:
            began = time.perf_counter()
            method.features(sample)
            seconds = time.perf_counter() - began
        each = 1000 * seconds / len(sample)
        costs.append(Cost(method.name, method.parameters(), method.macs(), each, memory.growth_mb))
    return costs


class PeakMemory:
    """Largest growth of resident memory inside the block, sampled every 2 ms (Linux; None elsewhere)."""

    def __init__(self) -> None:
        self.growth_mb: float | None = None
        self._stop = threading.Event()

    def __enter__(self) -> PeakMemory:
        self._start = resident_mb()
        if self._start is not None:
            self.growth_mb = 0.0
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._start is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.002):
            now = resident_mb()
            if now is not None and self._start is not None:
                self.growth_mb = max(self.growth_mb or 0.0, now - self._start)


def resident_mb() -> float | None:
    """This process's resident memory in MB, or None where /proc is not there."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * 4096 / 1e6
