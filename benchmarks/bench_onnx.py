"""onnxruntime beside torch on the same encoder: segments a second at 1 and 2 threads, in turns in one run.

Best of several. One thread is measured in CPU time, which other load on the machine hardly changes; two threads can
only be compared by the wall clock, so their row means something on an idle machine only. Most of the run is the export.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import nn

BATCHES = (1, 16)
REPEATS = 5


def run() -> list[dict[str, object]]:
    """Rows for ``python -m benchmarks onnx``."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return [{"name": "onnx", "value": None, "unit": "", "note": "skipped: pip install 'planformer[export]'"}]
    import torch

    from planformer import PlanFormer
    from planformer.deploy.onnx import SegmentNetwork, export_onnx

    model = PlanFormer.random(seed=0)
    threads_before = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.onnx"
        start = time.perf_counter()
        worst = max(export_onnx(model, path).values())
        seconds = time.perf_counter() - start
        rows = [{"name": "onnx export", "value": seconds, "unit": "s", "note": f"largest difference {worst:.1e}"}]
        network = SegmentNetwork(model).eval()
        rows += [_compare(network, path, threads, batch) for threads in (1, 2) for batch in BATCHES]
    torch.set_num_threads(threads_before)
    return rows


def _compare(network: nn.Module, path: Path, threads: int, batch: int) -> dict[str, object]:
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    torch.set_num_threads(threads)
    x = np.random.default_rng(0).standard_normal((batch, 10240), dtype=np.float32)

    def by_torch() -> object:
        with torch.inference_mode():
            return network(torch.from_numpy(x))

    clock = time.process_time if threads == 1 else time.perf_counter
    torch_seconds, onnx_seconds = _best(clock, by_torch, lambda: session.run(None, {"iq": x}))
    return {
        "name": f"onnxruntime, batch {batch}, {threads} threads",
        "value": batch / onnx_seconds,
        "unit": "segments/s",
        "ratio": torch_seconds / onnx_seconds,
        "note": f"torch {batch / torch_seconds:.1f} segments/s, {'CPU' if threads == 1 else 'wall'} time",
    }


def _best(clock: Callable[[], float], *works: Callable[[], object]) -> list[float]:
    """Best time of each, run in turns so that other load hits all alike; the first round warms up."""
    best = [float("inf")] * len(works)
    for repeat in range(REPEATS + 1):
        for i, work in enumerate(works):
            start = clock()
            work()
            if repeat:
                best[i] = min(best[i], clock() - start)
    return best
