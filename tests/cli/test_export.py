"""``planformer export``."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
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


def test_shipped_weights_at_full_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that a user gets: the command's own check on four kinds, and ours on another batch size.

    The longest test of the fast run (an export is most of it); the slow tests of the module look closer.
    """
    runtime = pytest.importorskip(
        "onnxruntime", reason="onnxruntime is not installed: pip install 'planformer[export]'"
    )
    path = tmp_path / "o.onnx"
    assert run("--onnx", path) == 0
    said = capsys.readouterr().out
    found = dict(re.findall(r"^(\w+): largest difference from torch (\S+)$", said, re.MULTILINE))
    assert set(found) == {"radio", "sound", "image", "text"}
    assert max(map(float, found.values())) <= 1e-4
    model = PlanFormer.from_pretrained()
    segments = np.random.default_rng(0).standard_normal((3, 5120, 2)).astype(np.float32).reshape(3, -1)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (embedding,) = session.run(["signal_embedding"], {"iq": segments})
    expected = model.embed_segments(segments.view(np.complex64)[None])[0]
    np.testing.assert_allclose(embedding, expected, atol=1e-4, rtol=0)
    assert session.get_modelmeta().custom_metadata_map["planformer.weights"] == model.fingerprint
