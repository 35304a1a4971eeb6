"""``planformer export``."""

from __future__ import annotations

from pathlib import Path

import pytest

from planformer.cli.main import main
from planformer.deploy import onnx as exporting
from planformer.models.planformer import PlanFormer


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["export", *map(str, args)])
    return int(caught.value.code or 0)


def test_reports_what_the_check_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def export(model: PlanFormer, path: Path, *, opset: int) -> dict[str, float]:
        assert opset == 19
        path.write_bytes(b"x")
        return {"radio": 2e-6}

    monkeypatch.setattr(exporting, "export_onnx", export)
    assert run("--onnx", tmp_path / "o.onnx", "--weights", "random", "--opset", 19) == 0
    assert "radio: largest difference from torch 2.0e-06" in capsys.readouterr().out


def test_bad_name_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert run("--onnx", tmp_path / "o.bin", "--weights", "random") == 2
    assert "ends in .onnx" in capsys.readouterr().err


@pytest.mark.slow
def test_full_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert run("--onnx", tmp_path / "o.onnx", "--weights", "random") == 0
    assert "all within 1e-04" in capsys.readouterr().out
