"""`planformer evaluate` on a miniature data folder, and what it says when there is nothing to evaluate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from planformer.cli.main import main


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return int(stop.value.code or 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "fsdd" / "recordings"
    folder.mkdir(parents=True)
    for digit in range(2):
        for speaker in ("ann", "bob"):
            for n in range(9):
                x = rng.standard_normal(1500) * 0.1 + 0.2 * np.sin(np.arange(1500) * (0.2 + 0.3 * digit))
                soundfile.write(folder / f"{digit}_{speaker}_{n}.wav", x, 8000)
    return tmp_path / "data"


def test_present_tasks_give_a_report_and_the_cache_is_used(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLANFORMER_CACHE", str(tmp_path / "cache"))
    arguments = ("evaluate", "--data", data, "--tasks", "fsdd-digit", "--model", "random:0", "--out", tmp_path / "out")
    more = ("--baselines", "raw,mfcc,majority")
    assert run(*arguments, *more) == 0
    capsys.readouterr()
    first = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {r["split"] for r in first["results"]} == {"fixed test set", "grouped 5-fold by speaker"}
    assert {r["model"] for r in first["results"]} == {"random:0", "random:0+tokens", "raw", "mfcc", "majority"}
    assert run(*arguments, *more) == 0
    again = json.loads((tmp_path / "out" / "results.json").read_text())
    assert all(r["cached"] for r in again["results"] if r["model"] != "majority")
    assert [r["top1_mean"] for r in again["results"]] == [r["top1_mean"] for r in first["results"]]


def test_other_weights_are_compared_item_by_item(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("evaluate", "--data", data, "--tasks", "fsdd-digit,fsdd-speaker", "--model", "random:0", "--no-cache")
    assert run(*arguments, "--baselines", "none", "--against", "random:0", "--out", tmp_path / "out") == 0
    assert (
        "mean of 2 first splits, difference to the other weights: +0.0 [+0.0, +0.0] points" in capsys.readouterr().out
    )
    found = json.loads((tmp_path / "out" / "results.json").read_text())["difference_to_other_weights"]
    assert [(r["task"], r["split"]) for r in found][-2:] == [("mean", "first"), ("mean", "grouped")]
    assert {r["verdict"] for r in found} == {"no clear difference"}
    assert "--against random:0" in (tmp_path / "out" / "results.md").read_text()


def test_validation_reads_no_test_rows_and_says_so(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("evaluate", "--data", data, "--tasks", "fsdd-digit", "--model", "random:0", "--no-cache")
    assert run(*arguments, "--baselines", "none", "--validation", tmp_path / "radio", "--out", tmp_path / "out") == 0
    capsys.readouterr()
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {r["split"] for r in found["results"]} == {"random 5-fold", "grouped 5-fold by speaker"}
    assert {r["n"] for r in found["results"]} == {16}  # n from 5 to 8 of two digits and two speakers
    assert "no test rows" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tasks", "mnist"), "looked for"),
        (("--tasks", "mnst"), "there is no task 'mnst'"),
        (("--tasks", "fsdd-digit", "--baselines", "magic"), "no baseline 'magic'"),
        (("--tasks", "fsdd-digit", "--probes", "cubic", "--baselines", "none"), "no probe 'cubic'"),
        (("--tasks", "fsdd-digit", "--model", "nowhere/at/all"), "nowhere/at/all"),
        (("--tasks", "fsdd-digit", "--against", "nowhere/else"), "nowhere/else"),
        (("--tasks", "powder", "--validation", "nowhere"), "planformer simulate eval --out nowhere"),
    ],
)
def test_bad_requests_end_with_one_line(
    data: Path, tmp_path: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = () if "--model" in arguments else ("--model", "random:0")
    assert run("evaluate", "--data", data, "--out", tmp_path / "out", *arguments, *rest) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error and error.startswith("error:")


def test_empty_or_absent_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", "--data", tmp_path, "--model", "random:0") == 2
    assert "no known data set" in capsys.readouterr().err
    assert run("evaluate", "--data", tmp_path / "none") == 2
    assert "no such folder" in capsys.readouterr().err


def test_list_names_every_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", "--list", "--data", tmp_path) == 0
    text = capsys.readouterr().out
    assert "CC BY" in text and "4.0" in text


def test_zero_to_table_does_not_import_torch() -> None:
    import subprocess
    import sys

    verbs = ", ".join(f"planformer.cli.{verb}" for verb in ("evaluate", "probe", "quickstart"))
    code = f"import sys, {verbs}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
