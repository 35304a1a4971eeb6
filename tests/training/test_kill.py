"""A run that is killed again and again ends with the same numbers as one that is not."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from planformer.training.metrics import read_metrics
from training.conftest import TINY

SIMULATED = {
    **TINY,
    # Only whole segments of 5,120 samples come from recordings, so the windows are those of the real encoder.
    "model": {"channels": [4, 4, 8], "dim": 16, "num_heads": 4, "cross_window_heads": 4},
    "data": {"simulate": {"samples": 300_000, "collections": ["fm"]}, "batch_size": 4, "emitters_per_batch": 2},
    "schedule": {"milestones": 5, "steps_per_milestone": 4},
    "checkpoint": {"every_steps": 1},
}
# A slower disk: the process sleeps between the files of a checkpoint, so that kills also hit half-written ones.
SLOW_DISK = """
import sys, time
from planformer.training import checkpoint
original = checkpoint.file_sha256
def slow(path):
    time.sleep(0.05)
    return original(path)
checkpoint.file_sha256 = slow
from planformer.cli.main import main
main(sys.argv[1:])
"""


def start(recipe: Path, out: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", SLOW_DISK, "pretrain", str(recipe), "--out", str(out), "--quiet"]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})


def losses(out: Path) -> list[float]:
    return [record["loss"] for record in read_metrics(out / "metrics.jsonl", "step")]


@pytest.mark.slow
def test_killed_at_random_moments_the_losses_are_bit_identical(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(SIMULATED))
    assert start(recipe, tmp_path / "whole").wait() == 0
    out, rng = tmp_path / "killed", random.Random(0)
    kills, halves = 0, 0
    for _ in range(60):
        process = start(recipe, out)
        done = len(losses(out)) if (out / "metrics.jsonl").is_file() else 0
        target = done + rng.randint(1, 4)
        while process.poll() is None:
            time.sleep(0.01)
            if (out / "metrics.jsonl").is_file() and len(losses(out)) >= target:
                time.sleep(rng.random() * 0.2)
                process.send_signal(signal.SIGKILL)
                process.wait()
        if process.returncode == 0:
            break
        kills += 1
        halves += len(list((out / "checkpoints").glob(".writing-*")))
    assert process.returncode == 0 and kills >= 3
    assert halves >= 1, "no kill hit a checkpoint that was being written"
    assert losses(out) == losses(tmp_path / "whole")
    assert len(losses(out)) == 20
