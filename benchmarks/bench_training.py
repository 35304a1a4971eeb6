"""The training step: samples a second, where its time goes, memory, two processes against one, hours for a recipe.

Everything runs on radio-like sequences made on the spot (filtered noise), because the cost does not depend on them.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BATCH = 4
STEPS = 3
SETTINGS = [
    f"data.batch_size={BATCH}",
    "data.emitters_per_batch=2",
    "schedule.milestones=1",
    "schedule.steps_per_milestone=1000",
    "schedule.warmup_steps=0",
    "probe.every_milestones=0",
    "probe.compass_every_milestones=0",
    "monitor.tensorboard=false",
    # What a run does once at its start is not a part of the step.
    "extra.descriptors_components=16",
    "extra.descriptors_calibration=32",
]
# Run as `python -c CHILD out max_steps`; under torchrun each process gets its rank from the environment.
CHILD = """
import sys
from pathlib import Path
from benchmarks.bench_training import recipe, sequences
from planformer.training.distributed import process_group
from planformer.training.trainer import Trainer
import torch
torch.set_num_threads(1)
with process_group() as processes:
    trainer = Trainer(recipe(), sequences(), None, Path(sys.argv[1]), processes=processes, show=False)
    trainer.run(max_steps=int(sys.argv[2]))
"""


def recipe() -> Any:
    from planformer.training.recipe import load_recipe

    return load_recipe(ROOT / "recipes" / "cpu.yaml", SETTINGS)


def sequences() -> Any:
    """Eight emitters of coloured noise."""
    from planformer.training.sources import MemorySet

    rng = np.random.default_rng(0)
    noise = rng.normal(size=(64, 5120)) + 1j * rng.normal(size=(64, 5120))
    colour = np.exp(-np.abs(np.fft.fftfreq(5120)) * np.repeat(np.arange(2, 10), 8)[:, None])
    return MemorySet(np.fft.ifft(np.fft.fft(noise) * colour).astype(np.complex64), np.repeat(np.arange(8), 8))


def run() -> list[dict[str, object]]:
    rows = [_augmentation()]
    with tempfile.TemporaryDirectory() as folder:
        one = _train(Path(folder) / "one", 1)
        two = _train(Path(folder) / "two", 2)
    speed = BATCH / one["seconds"]
    rows.append(_row("one process, one thread", speed, "samples/s", note=f"batch {BATCH}, clean and noisy branch"))
    both = 2 * BATCH / two["seconds"]
    note = "batch the same per process"
    rows.append(_row("two gloo processes", both, "samples/s", ratio=both / speed, note=note))
    for phase in ("wait", "forward", "backward", "update", "other"):
        share = 100 * one[f"seconds_{phase}"] / one["seconds"]
        rows.append(_row(f"share of {phase}", share, "% of a step"))
    rows.append(_row("outside forward and backward", 100 - 100 * (one["seconds_forward"] + one["seconds_backward"])
                     / one["seconds"], "% of a step", note="target: at most 10"))  # fmt: skip
    rows.append(_row("peak memory", one["memory"], "MB", note="one process"))
    rows += _straightforward()
    rows += _projections(speed, both)
    return rows


def _row(name: str, value: float, unit: str, **more: object) -> dict[str, object]:
    return {"name": name, "value": value, "unit": unit, **more}


def _augmentation() -> dict[str, object]:
    import torch

    from planformer.data.augment import augment

    torch.set_num_threads(1)
    x = torch.randn(64, 5120, dtype=torch.complex64)
    generator = torch.Generator().manual_seed(0)
    seconds = min(_timed(lambda: augment(x, generator)) for _ in range(8))
    return _row("augmentation", 64 / seconds, "sequences/s", note="one core; target 1,000")


def _timed(call: Any) -> float:
    """Processor seconds of this process: with one thread they are the time on an idle core."""
    started = time.process_time()
    call()
    return time.process_time() - started


def _train(out: Path, processes: int) -> dict[str, float]:
    """Medians over the steps after the first, as the run itself logged them."""
    command = [sys.executable, "-c", CHILD, str(out), str(STEPS)]
    if processes > 1:
        script = out.parent / "child.py"
        script.write_text(CHILD)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [*launcher, str(script), str(out), str(STEPS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "step"][1:]
    result = {key: float(np.median([s[key] for s in steps])) for key in steps[0] if key.startswith("seconds")}
    result["memory"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return result


def _straightforward() -> list[dict[str, object]]:
    """The encoder's forward and backward pass against the plain one that the tests compare it with."""
    import torch

    from planformer.models.encoder import Encoder

    folder = ROOT / "tests"
    if not (folder / "reference" / "encoder.py").is_file():
        return []
    sys.path.insert(0, str(folder))
    plain = importlib.import_module("reference.encoder").encoder
    torch.manual_seed(0)
    encoder = Encoder()
    x = torch.randn(BATCH, 10240)
    masks = (torch.zeros(BATCH, dtype=torch.bool), torch.ones(BATCH, dtype=torch.bool))

    def together() -> None:
        out = encoder(torch.cat((x, x)), blindspot=torch.cat(masks))
        (out.embedding.square().mean() + sum(out.aux.values())).backward()

    def apart() -> None:
        for mask in masks:
            _, _, embedding, _, aux = plain(encoder, x, mask)
            (embedding.square().mean() + sum(aux.values())).backward()

    together()
    apart()
    fast, slow = _timed(together), _timed(apart)
    return [_row("encoder step, both branches at once", BATCH / fast, "samples/s", ratio=slow / fast,
                 note="against plain modules, one branch after the other")]  # fmt: skip


def _projections(one: float, two: float) -> list[dict[str, object]]:
    from planformer.training.recipe import load_recipe

    rows = []
    cpu = load_recipe(ROOT / "recipes" / "cpu.yaml")
    samples = cpu.schedule.total_steps * cpu.data.batch_size
    rows.append(_row("recipes/cpu.yaml, one process", samples / one / 3600, "h", note=f"{samples:,} samples"))
    note = "twice the samples: the batch is per process"
    rows.append(_row("recipes/cpu.yaml, two processes", 2 * samples / two / 3600, "h", note=note))
    return rows
