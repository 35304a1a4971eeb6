"""SIGTERM to a launcher with two processes: both leave after the same step, one checkpoint is written, resume works."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from planformer.training.checkpoint import list_checkpoints
from planformer.training.metrics import read_metrics
from training.test_kill import SIMULATED

RECIPE = {
    **SIMULATED,
    "schedule": {"milestones": 4, "steps_per_milestone": 5},
    "checkpoint": {"every_steps": 0},
    "probe": {**SIMULATED["probe"], "every_milestones": 4},
}


def start(recipe: Path, out: Path, *more: str) -> subprocess.Popen:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "-m", "planformer", "pretrain", str(recipe), "--out", str(out), "--quiet", *more]
    return subprocess.Popen(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def losses(out: Path) -> list[float]:
    file = out / "metrics.jsonl"
    return [record["loss"] for record in read_metrics(file, "step")] if file.is_file() else []


@pytest.mark.slow
@pytest.mark.parametrize("everyone", [False, True], ids=["launcher", "whole group"])
def test_sigterm_to_two_processes_saves_and_resume_goes_on(tmp_path, everyone):
    """A batch system signals every process of the group at once; the launcher then passes the signal on again."""
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(yaml.safe_dump(RECIPE))
    process = start(recipe, out)
    while len(losses(out)) < 2 and process.poll() is None:
        time.sleep(0.02)
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGTERM)
    _, text = process.communicate(timeout=120)
    done = len(losses(out))
    assert 2 <= done < 20, text
    assert [path.name for path in list_checkpoints(out / "checkpoints")] == [f"step-{done:08d}"], text
    assert (out / "last" / "model.safetensors").is_file()
    assert not list((out / "checkpoints").glob(".writing-*"))

    resumed = start(recipe, out)
    _, text = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, text
    assert len(losses(out)) == 20

    whole = start(recipe, tmp_path / "whole")
    _, text = whole.communicate(timeout=300)
    assert whole.returncode == 0, text
    assert losses(out) == losses(tmp_path / "whole")
