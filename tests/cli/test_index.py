"""``planformer index add`` and ``info``: any kind of file, duplicates, bad files, other weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.main import main
from planformer.deploy.index import Index

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(PlanFormer.random(seed=0, config=SMALL).save_pretrained(tmp_path_factory.mktemp("w")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(3):
        soundfile.write(folder / f"s{i}.wav", rng.standard_normal(3000 + i) / 10, 8000)
    (folder / "copy.wav").write_bytes((folder / "s0.wav").read_bytes())
    Image.fromarray(rng.integers(0, 255, (9, 9, 3), np.uint8)).save(folder / "picture.png")
    (folder / "note.txt").write_text("any bytes are a signal")
    return folder


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


def test_add_twice_and_info(weights: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idx = str(tmp_path / "idx")
    assert run("index", "add", str(folder), "-r", "--to", idx, "--weights", weights) == 0
    assert "5 added, 1 known by content, 0 skipped; 5 items" in capsys.readouterr().err
    assert run("index", "add", str(folder), "-r", "--to", idx, "--weights", weights) == 0
    assert "0 added, 6 known by content" in capsys.readouterr().err
    assert run("index", "info", idx) == 0
    assert "5 items (3 audio, 1 image, 1 text)" in capsys.readouterr().out
    index = Index(idx)
    model = PlanFormer.from_pretrained(weights)
    place = [Path(item.path).name for item in index.items].index("picture.png")
    assert index.items[place].channels == 3
    expected = model.embed(folder / "picture.png").reshape(3, -1).mean(axis=0)
    np.testing.assert_allclose(index.vectors[place], expected, atol=1e-5)


def test_bad_files(weights: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idx = str(tmp_path / "idx")
    (folder / "bad.wav").write_text("no sound")
    files = [str(folder / "bad.wav"), str(folder / "s0.wav"), str(folder / "gone.wav")]
    assert run("index", "add", *files, "--to", idx, "--weights", weights) == 2
    assert "gone.wav" in capsys.readouterr().err
    assert run("index", "add", *files, "--to", idx, "--weights", weights, "-k") == 1
    said = capsys.readouterr().err
    assert "bad.wav" in said
    assert "1 added, 0 known by content, 2 skipped" in said
    assert run("index", "add", files[1], "--to", idx, "--weights", "random") == 2
    assert "other weights" in capsys.readouterr().err
