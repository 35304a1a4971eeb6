"""The verb: sizes, resumption, bad input, one line for errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from planformer.cli.main import main
from planformer.data.recordings import RecordingSet


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["simulate", *map(str, arguments)])
    return int(stop.value.code or 0)


def test_writes_labelled_recordings_and_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fm", "--out", tmp_path, "--samples", "200k") == 0
    assert "6 recordings (6 new), 6 emitters, 0.2 M samples" in capsys.readouterr().out
    assert run("fm", "--out", tmp_path, "--samples", "200k") == 0
    assert "(0 new)" in capsys.readouterr().out
    assert len(RecordingSet.from_folder(tmp_path).emitters) == 6


def test_made_up_stations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("stations", "--stations", "3", "--out", tmp_path, "--samples", "200k") == 0
    assert "3 recordings (3 new), 3 emitters" in capsys.readouterr().out
    data = RecordingSet.from_folder(tmp_path)
    assert set(data.collections) == {"stations"}
    assert sorted(data.emitters) == ["station-001", "station-002", "station-003"]


def test_made_up_protocols(tmp_path: Path) -> None:
    assert run("powder", "--made-up", "--out", tmp_path, "--samples", "200k") == 0
    data = RecordingSet.from_folder(tmp_path)
    assert set(data.protocols) == {"made-up"} and len(data.emitters) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["orcale"], "choose one of"),
        (["fm", "--samples", "many"], "--samples many"),
        (["fm", "--samples", "0"], "ask for 1 to"),
        (["fm", "--samples", "5", "--hours", "1"], "not both"),
        (["eval", "--samples", "5"], "fixed size"),
        (["fm", "--recordings", "40"], "--recordings is for the evaluation sets"),
        (["fm", "--stations", "8"], "--stations is for `simulate stations`"),
        (["eval", "--stations", "8"], "--stations is for `simulate stations`"),
        (["stations", "--stations", "1"], "1 stations: 2 to 999"),
        (["stations", "--stations", "0"], "0 stations: 2 to 999"),
        (["stations", "--powder", "x"], "leave out --oracle and --powder"),
        (["all", "--made-up"], "--made-up is for `simulate powder`"),
        (["eval", "--made-up"], "--made-up is for `simulate powder`"),
        (["powder", "--made-up", "--powder", "x"], "not for real recordings"),
        (["fm", "--oracle", "x"], "no use"),
        (["oracle", "--oracle", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(*arguments, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert not (tmp_path / "out").exists()


def test_out_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run("fm", "--out", tmp_path / "file") == 2
    assert "can't make this folder" in capsys.readouterr().err


def test_hours() -> None:
    from planformer.cli.simulate import _count

    assert _count(None, 0.01, 1.0) == pytest.approx(0.01 * 3600 * 7.69e6)
    assert _count("1.5G", None, 1.0) == 1_500_000_000
    assert _count(None, None, 0.12) == 24_000_000
