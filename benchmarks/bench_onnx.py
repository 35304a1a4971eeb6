"""onnxruntime beside torch on the same encoder: segments a second at 1 and 2 threads.

Each engine runs in a process of its own, in turns: in one process their pools of waiting threads slow each other down.
Torch runs as the commands run it, with freed memory kept. One thread is measured in CPU time, which other load on the
machine hardly changes; two threads can only be compared by the wall clock, so their rows mean something on an idle
machine only. Most of the run is the export.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCHES = (1, 4, 16)
ROUNDS = 3
# Run as `python -c ENGINE torch|onnx THREADS BATCH FILE`: prints the best seconds of several calls.
ENGINE = """
import sys, time
import numpy as np
engine, threads, batch, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
x = np.random.default_rng(0).standard_normal((batch, 10240), dtype=np.float32)
if engine == "torch":
    from planformer.memory import keep_freed_memory
    keep_freed_memory()
    import torch
    from planformer import PlanFormer
    from planformer.deploy.onnx import SegmentNetwork
    torch.set_num_threads(threads)
    network = SegmentNetwork(PlanFormer.random(seed=0)).eval()
    def call():
        with torch.inference_mode():
            network(torch.from_numpy(x))
else:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    def call():
        session.run(None, {"iq": x})
clock = time.process_time if threads == 1 else time.perf_counter
times = []
for repeat in range(12):
    start = clock()
    call()
    times.append(clock() - start)
print(min(times[2:]))
"""


def run() -> list[dict[str, object]]:
    """Rows for ``python -m benchmarks onnx``."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return [{"name": "onnx", "value": None, "unit": "", "note": "skipped: pip install 'planformer[export]'"}]
    from planformer import PlanFormer
    from planformer.deploy.onnx import export_onnx

    model = PlanFormer.random(seed=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.onnx"
        start = time.perf_counter()
        worst = max(export_onnx(model, path).values())
        seconds = time.perf_counter() - start
        rows = [{"name": "onnx export", "value": seconds, "unit": "s", "note": f"largest difference {worst:.1e}"}]
        return rows + [_compare(path, threads, batch) for threads in (1, 2) for batch in BATCHES]


def _compare(path: Path, threads: int, batch: int) -> dict[str, object]:
    by_torch, by_onnx = float("inf"), float("inf")
    for _ in range(ROUNDS):
        by_torch = min(by_torch, _seconds("torch", threads, batch, path))
        by_onnx = min(by_onnx, _seconds("onnx", threads, batch, path))
    return {
        "name": f"onnxruntime, batch {batch}, {threads} threads",
        "value": batch / by_onnx,
        "unit": "segments/s",
        "ratio": by_torch / by_onnx,
        "note": f"torch {batch / by_torch:.1f} segments/s, {'CPU' if threads == 1 else 'wall'} time",
    }


def _seconds(engine: str, threads: int, batch: int, path: Path) -> float:
    command = [sys.executable, "-c", ENGINE, engine, str(threads), str(batch), str(path)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
