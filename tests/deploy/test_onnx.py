"""The ONNX file gives torch's numbers for any batch, describes itself, and is not kept if it does not.

One export takes a minute or more of tracing, whatever the size of the network, so what needs it is marked slow.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from planformer import PlanFormer, PlanFormerConfig
from planformer.deploy import onnx as exporting
from planformer.errors import InputError, PlanFormerError
from planformer.signals import PreprocessConfig, from_array, prepare

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

# The smallest encoder of the full geometry: segments of 5,120 samples, so that the example script fits it.
SMALL = PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[PlanFormer, Path, dict[str, float]]:
    model = PlanFormer.random(seed=0, config=SMALL)
    path = tmp_path_factory.mktemp("onnx") / "small.onnx"
    return model, path, exporting.export_onnx(model, path)


Exported = tuple[PlanFormer, Path, dict[str, float]]


def session(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.slow
def test_parity_is_reported_for_every_kind(exported: Exported) -> None:
    _, _, differences = exported
    assert set(differences) == {"radio", "sound", "image", "text"}
    assert max(differences.values()) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_any_batch_size(exported: Exported, batch: int) -> None:
    model, path, _ = exported
    x = torch.randn(batch, 10240, generator=torch.Generator().manual_seed(batch))
    with torch.no_grad():
        expected = exporting.SegmentNetwork(model)(x)
    given = session(path).run(list(exporting.OUTPUTS), {"iq": x.numpy()})
    for name, a, b in zip(exporting.OUTPUTS, given, expected, strict=True):
        assert a.shape == tuple(b.shape), name
        np.testing.assert_allclose(a, b.numpy(), atol=1e-4, err_msg=name)


@pytest.mark.slow
def test_silent_windows_stay_finite(exported: Exported) -> None:
    """The small constants that keep silence from being divided by zero must survive the export."""
    model, path, _ = exported
    x = torch.zeros(2, 10240)
    x[0, :3000] = torch.randn(3000, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = exporting.SegmentNetwork(model)(x)
    for a, b in zip(session(path).run(None, {"iq": x.numpy()}), expected, strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-4)


@pytest.mark.slow
def test_signal_embedding_is_embed(exported: Exported) -> None:
    model, path, _ = exported
    x = np.random.default_rng(0).standard_normal(12_345)
    segments = prepare(from_array(x, 8000, "audio"), model.preprocess)[0]
    (z,) = session(path).run(["signal_embedding"], {"iq": segments.view(np.float32)})
    np.testing.assert_allclose(z, model.embed(x, rate=8000, kind="audio"), atol=1e-4)


@pytest.mark.slow
def test_metadata(exported: Exported) -> None:
    model, path, _ = exported
    about = session(path).get_modelmeta().custom_metadata_map
    assert about["planformer.weights"] == model.fingerprint
    assert PreprocessConfig.model_validate_json(about["planformer.preprocess"]) == model.preprocess
    assert PlanFormerConfig.model_validate_json(about["planformer.config"]) == model.config
    assert tuple(json.loads(about["planformer.outputs"])) == exporting.OUTPUTS


@pytest.mark.slow
def test_example_script_embeds_a_wav_without_torch(exported: Exported, tmp_path: Path) -> None:
    model, path, _ = exported
    script = Path(__file__).resolve().parents[2] / "examples" / "onnx_wav.py"
    source = script.read_text("utf-8")
    assert "torch" not in source
    assert "planformer import" not in source
    assert len([line for line in source.split('"""')[2].splitlines() if line.strip()]) <= 40
    spec = importlib.util.spec_from_file_location("onnx_wav", script)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    wav = tmp_path / "s.wav"
    soundfile.write(wav, np.random.default_rng(0).standard_normal((13_001, 2)) / 10, 8000, subtype="PCM_16")
    np.testing.assert_allclose(example.embed(str(path), str(wav)), model.embed(wav), atol=1e-4)


@pytest.mark.slow
def test_a_wrong_file_is_not_kept(exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another model's weights in the file: the check notices, and nothing is left behind."""
    import onnx

    _, path, _ = exported

    class Program:
        model_proto = onnx.load(str(path))

    other = PlanFormer.random(seed=1, config=SMALL)
    monkeypatch.setattr(exporting, "_to_onnx", lambda *_: Program())
    with pytest.raises(PlanFormerError, match="differs from torch"):
        exporting.export_onnx(other, tmp_path / "o.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "opset"), [("o.pt", 18), ("nowhere/o.onnx", 18), ("o.onnx", 11)])
def test_bad_options(tmp_path: Path, name: str, opset: int) -> None:
    with pytest.raises(InputError):
        exporting.export_onnx(PlanFormer.random(config=SMALL), tmp_path / name, opset=opset)
