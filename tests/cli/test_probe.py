"""`planformer probe` on folders and CSV files as users have them, good and bad."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from planformer.cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for label, pitch in (("low", 300.0), ("high", 2000.0)):
        (tmp_path / "mine" / label).mkdir(parents=True)
        for k in range(6):
            t = np.arange(2000) / 8000
            x = 0.2 * np.sin(2 * np.pi * pitch * t * rng.uniform(0.95, 1.05)) + 0.02 * rng.standard_normal(2000)
            soundfile.write(tmp_path / "mine" / label / f"{k}.wav", x, 8000)
    return tmp_path / "mine"


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return int(stop.value.code or 0)


def quick(source: Path, out: Path, *more: str) -> int:
    return run("probe", source, "--out", out, "--model", "random:0", "--baselines", "log-spectrum", "--no-cache", *more)


def test_folder_per_class(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quick(folder, tmp_path / "out") == 0
    captured = capsys.readouterr()
    assert str(tmp_path / "out" / "index.html") in captured.out.replace("\n", "") and "RANDOM" in captured.err
    record = json.loads((tmp_path / "out" / "results.json").read_text())
    scores = {(r["model"], r["split"]): r["top1_mean"] for r in record["results"]}
    assert scores[("random:0", "random 5-fold")] > 0.8 and record["trained"] is False


def test_csv_with_groups_gets_the_grouped_split(folder: Path, tmp_path: Path) -> None:
    lines = ["path,label,group"]
    lines += [f"mine/{label}/{k}.wav,{label},session{k}" for label in ("low", "high") for k in range(6)]
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(lines))
    assert quick(table, tmp_path / "out") == 0
    splits = {r["split"] for r in json.loads((tmp_path / "out" / "results.json").read_text())["results"]}
    assert splits == {"random 5-fold", "grouped 5-fold by group"}


def test_unreadable_files_are_named_and_skipped_only_on_request(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "low" / "bad.wav").write_bytes(b"RIFF this is not sound")
    assert quick(folder, tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert "bad.wav" in message and "--keep-going" in message
    assert quick(folder, tmp_path / "out", "--keep-going") == 0
    assert "bad.wav" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        ("one class", "at least two classes"),
        ("few samples", "'tiny' (2)"),
        ("no folders", "no subfolders"),
        ("empty class", "has no files"),
        ("absent", "no such file"),
    ],
)
def test_unusable_folders(
    folder: Path, tmp_path: Path, prepare: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder
    if prepare == "one class":
        for file in (folder / "low").iterdir():
            file.unlink()
        (folder / "low").rmdir()
    elif prepare == "few samples":
        (folder / "tiny").mkdir()
        for k in range(2):
            soundfile.write(folder / "tiny" / f"{k}.wav", np.sin(np.arange(900.0)), 8000)
    elif prepare == "no folders":
        source = folder / "low"
    elif prepare == "empty class":
        (folder / "void").mkdir()
    else:
        source = folder / "nowhere"
    assert quick(source, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_bad_csv_and_unknown_baseline(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("file,class\na.wav,x\n")
    assert quick(table, tmp_path / "out") == 2
    assert "path,label" in capsys.readouterr().err
    table.write_text("path,label\nmine/low/0.wav,\n")
    assert quick(table, tmp_path / "out") == 2
    assert "line 2" in capsys.readouterr().err
    assert run("probe", folder, "--baselines", "magic", "--model", "random:0", "--out", tmp_path / "o") == 2
    assert "'magic'" in capsys.readouterr().err
