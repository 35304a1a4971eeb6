"""``planformer pretrain``, ``runs`` and ``publish`` as a user types them."""

from pathlib import Path

import pytest

from planformer.cli.main import main

RECIPES = Path(__file__).parents[2] / "recipes"
CHANGES = (
    "schedule.milestones=1",
    "schedule.steps_per_milestone=2",
    "schedule.warmup_steps=0",
    "curriculum.cycles=1",
    "data.simulate.samples=300000",
    "data.simulate.collections=[fm]",
    "data.batch_size=4",
    "data.emitters_per_batch=2",
    "monitor.min_effective_rank=0",
    "monitor.tensorboard=false",
    "probe.tsne_every_milestones=0",
)
QUICK = [part for change in CHANGES for part in ("--set", change)]
SMOKE = RECIPES / "smoke.yaml"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_from_nothing_to_weights(tmp_path, capsys):
    out = tmp_path / "run"
    assert run("pretrain", SMOKE, "--out", out, *QUICK) == 0
    assert "training sequences of 6 emitters" in capsys.readouterr().err
    assert run("runs", "show", out) == 0
    assert "step 2 of 2 (finished" in capsys.readouterr().out
    assert run("runs", "list", tmp_path) == 0
    assert "2/2" in capsys.readouterr().out
    assert run("publish", out, "--out", tmp_path / "weights", "--which", "last") == 0
    assert run("publish", out, "--out", tmp_path / "other", "--which", "first") == 2, "a run that has no such weights"
    assert not (tmp_path / "other").exists()
    assert (tmp_path / "weights" / "config.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "missing.yaml", "--out", "x"], "missing.yaml: can't read the recipe"),
        (
            ["pretrain", SMOKE, "--out", "x", "--set", "optimizer.speed=9"],
            "unknown key optimizer.speed",
        ),
        (["pretrain", RECIPES / "cpu.yaml", "--out", "x"], "no training data"),
        (["pretrain", RECIPES / "cpu.yaml", "--out", "x", "--data", "nowhere"], "nowhere: no such folder"),
        (["runs", "show", "nowhere"], "not a run folder"),
        (["runs", "list", "nowhere"], "no run below it"),
        (["publish", "nowhere", "--out", "y"], "nowhere: no such folder"),
        (["publish", "nowhere", "--out", "y", "--decoder"], "nowhere: no such folder"),
        (["publish", "a", "b", "--out", "y", "--decoder"], "one run"),
        (["ablate", RECIPES / "cpu.yaml", "--seeds", "a,b"], "--seeds"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "x" / "metrics.jsonl").exists()
