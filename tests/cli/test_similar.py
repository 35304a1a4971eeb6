"""``planformer similar``: a file finds itself first, and its own kind after."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.index import fill
from planformer.cli.main import main
from planformer.deploy.index import Index

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


def test_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = PlanFormer.random(seed=0, config=SMALL)
    weights = str(model.save_pretrained(tmp_path / "w"))
    rng = np.random.default_rng(0)
    time = np.arange(4000) / 8000
    for i in range(3):
        tone = np.sin(2 * np.pi * (600 + 5 * i) * time)
        soundfile.write(tmp_path / f"tone{i}.wav", tone / 2, 8000)
        soundfile.write(tmp_path / f"noise{i}.wav", rng.standard_normal(4000) / 10, 8000)
    index = Index.create(tmp_path / "idx", fingerprint=model.fingerprint, width=64)
    assert fill(index, model, sorted(tmp_path.glob("*.wav"))) == (0, 0)
    arguments = ("similar", str(tmp_path / "tone0.wav"), "--in", str(tmp_path / "idx"), "--weights", weights, "-k", "3")
    assert run(*arguments, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert Path(answer["neighbours"][0]["path"]).name == "tone0.wav"
    assert answer["neighbours"][0]["score"] == pytest.approx(1, abs=1e-5)
    assert {Path(n["path"]).stem[:-1] for n in answer["neighbours"]} == {"tone"}
    assert (answer["items"], answer["recall"]) == (6, None)
    assert run(*arguments) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].endswith("tone0.wav")
    assert "6 items searched (exact)" in said.err


def test_no_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("similar", "a.wav", "--in", str(tmp_path / "idx")) == 2
    assert "planformer index add" in capsys.readouterr().err
