"""``planformer embed``: formats, resuming, bad files, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile
from PIL import Image

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.main import main

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(PlanFormer.random(seed=0, config=SMALL).save_pretrained(tmp_path_factory.mktemp("w")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(3):
        soundfile.write(folder / f"s{i}.wav", rng.standard_normal(3000 + i) / 10, 8000)
    Image.fromarray(rng.integers(0, 255, (9, 9, 3), np.uint8)).save(folder / "deep" / "picture.png")
    (folder / "deep" / "note.txt").write_text("any bytes are a signal")
    (folder / ".hidden").write_text("not this one")
    return folder


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["embed", *map(str, args)])
    return int(caught.value.code or 0)


def test_rows_equal_the_model(folder: Path, tmp_path: Path, weights: str) -> None:
    out = tmp_path / "o.parquet"
    assert run(folder, "--recursive", "-o", out, "--weights", weights) == 0
    table = pq.read_table(out).to_pylist()
    assert [Path(row["path"]).name for row in table] == ["note.txt", "picture.png", "s0.wav", "s1.wav", "s2.wav"]
    assert [row["kind"] for row in table] == ["text", "image", "audio", "audio", "audio"]
    assert [row["channels"] for row in table] == [1, 3, 1, 1, 1]
    model = PlanFormer.from_pretrained(weights)
    for row in table:
        np.testing.assert_allclose(row["embedding"], model.embed(row["path"]), atol=1e-5)


def test_csv_npy_and_channel_choice(folder: Path, tmp_path: Path, weights: str) -> None:
    files = [folder / "s0.wav", folder / "deep" / "picture.png"]
    assert run(*files, "-o", tmp_path / "o.csv", "--weights", weights) == 0
    assert run(*files, "-o", tmp_path / "o.npy", "--weights", weights, "--channels", "mix") == 0
    assert np.load(tmp_path / "o.npy").shape == (2, 64)
    assert run(*files, "-o", tmp_path / "p.npy", "--weights", weights) == 2


def test_bad_file_stops_with_one_line_and_the_rest_resumes(
    folder: Path, tmp_path: Path, weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.parquet"
    bad = folder / "broken.wav"
    bad.write_bytes(b"RIFF\x00\x00\x00\x00WAVEjunk")
    files = [folder / "s0.wav", folder / "s1.wav", bad, folder / "s2.wav"]
    assert run(*files, "-o", out, "--weights", weights) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert "broken.wav" in lines[0]
    assert not out.exists()

    soundfile.write(bad, np.sin(np.arange(900)), 8000)
    assert run(*files, "-o", out, "--weights", weights) == 0
    assert "resuming: 2 of 4" in capsys.readouterr().err
    assert pq.read_table(out)["path"].to_pylist() == [str(f) for f in files]
    assert list(tmp_path.glob("o.parquet.*")) == []


def test_keep_going_skips_and_reports(
    folder: Path, tmp_path: Path, weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.parquet"
    files = [folder / "s0.wav", tmp_path / "absent.wav", folder / "s1.wav"]
    assert run(*files, "-o", out, "--weights", weights, "--keep-going") == 1
    error = capsys.readouterr().err
    assert "skipped: " in error
    assert "absent.wav" in error
    assert "2 rows" in error
    assert pq.read_table(out).num_rows == 2


@pytest.mark.parametrize(
    "args",
    [
        ["{in}", "-o", "{tmp}/o.csv"],  # a folder without --recursive
        ["{in}/s0.wav", "-o", "{tmp}/o.xls"],
        ["{in}/s0.wav", "-o", "{tmp}/nowhere/o.csv"],
        ["{in}/s0.wav", "-o", "{tmp}/o.csv", "--weights", "{tmp}/nowhere"],
        ["{in}/s0.wav", "-o", "{tmp}/o.csv", "--kind", "smell"],
        ["{in}/s0.wav", "-o", "{tmp}/o.csv", "--readout", "best"],
        ["{in}/s0.wav", "-o", "{tmp}/o.csv", "--channels", "left"],
        ["{in}/s0.wav", "-o", "{tmp}/o.csv", "--channels", "7"],
        ["{in}/s0.wav"],
    ],
)
def test_bad_options_exit_2(
    args: list[str], folder: Path, tmp_path: Path, weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [arg.replace("{in}", str(folder)).replace("{tmp}", str(tmp_path)) for arg in args]
    extra = [] if "--weights" in args else ["--weights", weights]
    assert run(*filled, *extra) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_other_options_do_not_mix_with_a_half_done_output(folder: Path, tmp_path: Path, weights: str) -> None:
    out = tmp_path / "o.csv"
    files = [folder / "s0.wav", tmp_path / "absent.wav"]
    assert run(*files, "-o", out, "--weights", weights) == 2
    assert run(files[0], "-o", out, "--weights", weights, "--readout", "tokens") == 2
    assert run(files[0], "-o", out, "--weights", weights, "--readout", "tokens", "--restart") == 0


@pytest.mark.slow
def test_a_killed_run_loses_no_finished_row(tmp_path: Path, weights: str) -> None:
    rng = np.random.default_rng(0)
    files = [tmp_path / f"{i:03}.wav" for i in range(60)]
    for file in files:
        soundfile.write(file, rng.standard_normal(20_000) / 10, 8000)
    out = tmp_path / "o.parquet"
    command = [sys.executable, "-m", "planformer", "embed", *map(str, files), "-o", str(out), "--weights", weights]
    command += ["--batch-size", "4"]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    journal = tmp_path / "o.parquet.partial"
    while process.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 10):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    assert run(*files, "-o", out, "--weights", weights) == 0
    table = pq.read_table(out)
    assert table["path"].to_pylist() == [str(f) for f in files]
    model = PlanFormer.from_pretrained(weights)
    expected = model.embed_many(files)
    np.testing.assert_allclose(np.array(table["embedding"].to_pylist()), expected, atol=1e-5)
