"""The training step: samples a second, where its time goes, memory, two processes against one, hours for a recipe.

Everything runs on radio-like sequences made on the spot (filtered noise), because the cost does not depend on them.
Batch and networks are those of ``recipes/cpu.yaml``. Four processes wait side by side (about 7 GB in all) and step in
turn, so that one process, two separate runs at once and two that train together are timed within the same minute. The
separate runs share nothing but the machine: what they lose is memory and cache, and no training code can win it back.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 8
SETTINGS = [
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
# Run as `python -c CHILD out`. After each step it prints the step's times and waits for a line to go on.
CHILD = """
import json, os, resource, sys, time
from pathlib import Path
from benchmarks.bench_training import recipe, sequences
from planformer.training.distributed import process_group
from planformer.memory import keep_freed_memory
from planformer.training.trainer import Trainer
import torch
torch.set_num_threads(1)
keep_freed_memory()
with process_group() as processes:
    trainer = Trainer(recipe(), sequences(), None, Path(sys.argv[1]), processes=processes, show=False)
    finish, begun = trainer.clock.finish, time.process_time()
    def wait():
        global begun
        times = finish()
        times["processor"] = time.process_time() - begun
        times["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(times), flush=True)
        if not sys.stdin.readline():
            os._exit(0)  # whoever asked is gone
        trainer.clock.pause()
        begun = time.process_time()
        return times
    trainer.clock.finish = wait
    trainer.run()
"""
Times = dict[str, float]


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
    batch = recipe().data.batch_size
    rows = [_augmentation()]
    with tempfile.TemporaryDirectory() as folder:
        alone, separate, together = _side_by_side(Path(folder))
    one = batch / alone["seconds"]
    rows.append(_row("one process, one thread", one, "samples/s", note=f"batch {batch}, clean and noisy branch"))
    both = 2 * batch / together["seconds"]
    note = "the same batch per process; target: at least 1.7"
    rows.append(_row("two gloo processes", both, "samples/s", ratio=both / one, note=note))
    apart = 2 * batch / separate["seconds"]
    note = "what this machine gives two processes at all"
    rows.append(_row("two separate runs at once", apart, "samples/s", ratio=apart / one, note=note))
    rows.append(_row("processor time of a step, two processes", together["processor"], "s", note="of each",
                     ratio=together["processor"] / alone["processor"]))  # fmt: skip
    for phase in ("wait", "forward", "backward", "update", "other"):
        rows.append(_row(f"share of {phase}", 100 * alone[f"seconds_{phase}"] / alone["seconds"], "% of a step"))
    inside = alone["seconds_forward"] + alone["seconds_backward"]
    outside = 100 - 100 * inside / alone["seconds"]
    rows.append(_row("outside forward and backward", outside, "% of a step", note="target: at most 10"))
    rows.append(_row("peak memory", alone["memory"], "MB", note="one process"))
    rows += _straightforward()
    rows += _projections(one, both)
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


# Processes that step in turn ------------------------------------------------------------


def _side_by_side(folder: Path) -> tuple[Times, Times, Times]:
    """Median times of a step: alone, while a separate run steps too, and with a second process of the same run."""
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": "2"}
    singles = [_start(folder / name) for name in ("first", "second")]
    ranks = [_start(folder / "both", **group, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(2)]
    times: list[list[Times]] = [[], [], []]
    try:
        _read([*singles, *ranks])  # the first step, which each makes as soon as it is ready, does not count
        for _ in range(ROUNDS):
            for kind, children in zip(times, (singles[:1], singles, ranks), strict=True):
                kind.append(_slower(_step(children)))
    finally:
        for child in (*singles, *ranks):
            child.kill()
            child.communicate()
    alone, separate, together = (_median(rows) for rows in times)
    return alone, separate, together


def _start(out: Path, **environment: str) -> subprocess.Popen[str]:
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment}
    command, pipe = [sys.executable, "-c", CHILD, str(out)], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=variables, stdin=pipe, stdout=pipe, text=True)


def _step(children: Sequence[subprocess.Popen[str]]) -> list[Times]:
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    return _read(children)


def _read(children: Sequence[subprocess.Popen[str]]) -> list[Times]:
    lines = [child.stdout.readline() for child in children if child.stdout is not None]
    if not all(lines):
        raise RuntimeError("a training process ended early; its message is above")
    return [json.loads(line) for line in lines]


def _slower(reports: list[Times]) -> Times:
    return max(reports, key=lambda times: times["seconds"])


def _median(rows: list[Times]) -> Times:
    return {key: float(np.median([row[key] for row in rows])) for key in rows[0]}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# The straightforward step ------------------------------------------------------------


def _straightforward() -> list[dict[str, object]]:
    """The whole step against one with plain modules, branch after branch, and the framework's plain optimiser."""
    if not (ROOT / "tests" / "reference" / "encoder.py").is_file():
        return []
    with tempfile.TemporaryDirectory() as folder:
        fast, slow = (_trainer(Path(folder) / name) for name in ("fast", "slow"))
        make_plain(slow)
        losses = [_one_step(trainer, 0)[1] for trainer in (fast, slow)]
        if abs(losses[0] - losses[1]) > 1e-3 * abs(losses[1]):
            raise RuntimeError(f"the plain step computes something else: loss {losses[1]}, not {losses[0]}")
        times = [[_one_step(trainer, step)[0] for trainer in (fast, slow)] for step in (1, 2)]
    quick, plain = (float(np.median(column)) for column in zip(*times, strict=True))
    note = "processor time, against plain modules, one branch after the other; target: at least 1.5"
    return [_row("whole step", fast.recipe.data.batch_size / quick, "samples/s", ratio=plain / quick, note=note)]


def _trainer(out: Path) -> Any:
    from planformer.training.trainer import Trainer

    trainer = Trainer(recipe(), sequences(), None, out, show=False)
    trainer._calibrate()
    trainer.clock.start(0.0)
    return trainer


def _one_step(trainer: Any, step: int) -> tuple[float, float]:
    """Processor seconds of making and training one batch, and its loss."""
    values: dict[str, float] = {}
    seconds = _timed(lambda: values.update(trainer._train(trainer.stream.batch(step))))
    return seconds, values["loss"]


def make_plain(trainer: Any) -> None:
    """Replace encoder passes, transformer blocks and optimiser by what one would write first."""
    import torch

    from planformer.models.encoder import EncoderOutput

    sys.path.insert(0, str(ROOT / "tests"))
    encoder = importlib.import_module("reference.encoder").encoder
    parseval = importlib.import_module("reference.parseval").parseval_transformer
    trainee = trainer.trainee

    def encode_pair(clean: Any, noisy: Any) -> EncoderOutput:
        parts = [
            encoder(trainee.encoder, x, torch.full((len(x),), masked)) for x, masked in ((clean, False), (noisy, True))
        ]
        time_tokens, frequency_tokens, embedding, power = (torch.cat(x) for x in list(zip(*parts, strict=True))[:4])
        aux = {key: (parts[0][4][key] + parts[1][4][key]) / 2 for key in parts[0][4]}
        time_latent, frequency_latent = embedding.chunk(2, -1)
        return EncoderOutput(time_tokens, frequency_tokens, time_latent, frequency_latent, aux, power)

    trainee.encode_pair = encode_pair
    for network in (trainee.symmetry_networks.time_transformer, trainee.symmetry_networks.frequency_transformer):
        network.block.forward = lambda tokens, *, domain, block=network.block: parseval(block, tokens, domain)
    groups = trainer.optimizer.param_groups
    trainer.optimizer = torch.optim.AdamW(
        [{key: group[key] for key in ("params", "lr", "full_lr", "weight_decay")} for group in groups], foreach=False
    )


def _projections(one: float, two: float) -> list[dict[str, object]]:
    from planformer.training.recipe import load_recipe

    rows = []
    cpu = load_recipe(ROOT / "recipes" / "cpu.yaml")
    samples = cpu.schedule.total_steps * cpu.data.batch_size
    rows.append(_row("recipes/cpu.yaml, one process", samples / one / 3600, "h", note=f"{samples:,} samples"))
    note = "twice the samples: the batch is per process"
    rows.append(_row("recipes/cpu.yaml, two processes", 2 * samples / two / 3600, "h", note=note))
    return rows
