"""The weights folder: exact round trip, and no damaged, foreign or newer file is ever used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from planformer import PlanFormer
from planformer.errors import WeightsError
from planformer.models import weights
from planformer.models.pretrained import resolve, shipped_variants
from planformer.models.weights import load_strict, read_component, state_sha256, write_component


@pytest.fixture
def layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def save(folder: Path, module: nn.Module, name: str = "model") -> Path:
    return write_component(folder, name, module.state_dict(), {"width": 4}, architecture="layer", provenance={"run": 7})


def test_round_trip_is_exact(tmp_path: Path, layer: nn.Module) -> None:
    stored = read_component(save(tmp_path / "w", layer), "model", architecture="layer")
    assert stored.config == {"width": 4}
    assert stored.provenance["run"] == 7
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    load_strict(other, stored.tensors, where=tmp_path)
    for name, value in layer.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert state_sha256(layer.state_dict()) == state_sha256(other.state_dict())


def test_nothing_but_the_named_files_is_left(tmp_path: Path, layer: nn.Module) -> None:
    save(tmp_path, layer)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors", "provenance.json"]


def test_second_component_keeps_the_first(tmp_path: Path, layer: nn.Module) -> None:
    save(tmp_path, layer)
    save(tmp_path, nn.Linear(2, 2), "decoder")
    assert set(read_component(tmp_path, "decoder", architecture="layer").tensors) == {"weight", "bias"}
    assert len(read_component(tmp_path, "model", architecture="layer").tensors) == len(layer.state_dict())


def test_a_changed_byte_is_noticed(tmp_path: Path, layer: nn.Module) -> None:
    save(tmp_path, layer)
    data = bytearray((tmp_path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(WeightsError, match="sha256 differs"):
        read_component(tmp_path, "model", architecture="layer")


def test_a_changed_configuration_is_noticed(tmp_path: Path, layer: nn.Module) -> None:
    save(tmp_path, layer)
    text = (tmp_path / "config.json").read_text().replace('"width": 4', '"width": 5')
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(WeightsError, match="sha256 differs"):
        read_component(tmp_path, "model", architecture="layer")


@pytest.mark.parametrize("name", ["config.json", "provenance.json"])
@pytest.mark.parametrize(
    ("version", "message"),
    [(weights.FORMAT_VERSION + 1, "newer"), (None, "no format_version"), (True, "no format_version")],
)
def test_other_format_versions_are_refused(
    tmp_path: Path, layer: nn.Module, name: str, version: object, message: str
) -> None:
    save(tmp_path, layer)
    record = json.loads((tmp_path / name).read_text())
    record["format_version"] = version
    (tmp_path / name).write_text(json.dumps(record))
    with pytest.raises(WeightsError, match=message):
        read_component(tmp_path, "model", architecture="layer")


@pytest.mark.parametrize("name", ["config.json", "provenance.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, layer: nn.Module, name: str) -> None:
    save(tmp_path, layer)
    (tmp_path / name).unlink()
    with pytest.raises(WeightsError, match=name):
        read_component(tmp_path, "model", architecture="layer")


@pytest.mark.parametrize("text", ["", "[1]", "{", "null"])
def test_broken_json_is_an_error(tmp_path: Path, layer: nn.Module, text: str) -> None:
    save(tmp_path, layer)
    (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(WeightsError, match=r"provenance\.json"):
        read_component(tmp_path, "model", architecture="layer")


def test_another_architecture_is_refused(tmp_path: Path, layer: nn.Module) -> None:
    save(tmp_path, layer)
    with pytest.raises(WeightsError, match="holds 'layer'"):
        read_component(tmp_path, "model", architecture="encoder")


def test_missing_extra_and_misshapen_keys_change_nothing(layer: nn.Module) -> None:
    good = {name: value.clone() for name, value in layer.state_dict().items()}
    before = state_sha256(layer.state_dict())
    shifted = {name: value + 1 for name, value in good.items()}
    cases = {
        "missing: 0.bias": {k: v for k, v in shifted.items() if k != "0.bias"},
        "unexpected: 2.bias": {**shifted, "2.bias": torch.zeros(1)},
        "0.weight has shape": {**shifted, "0.weight": torch.zeros(4, 2)},
        "0.weight is torch.float64": {**shifted, "0.weight": shifted["0.weight"].double()},
        "not finite": {**shifted, "0.weight": torch.full((4, 3), float("nan"))},
    }
    for message, tensors in cases.items():
        with pytest.raises(WeightsError, match=message):
            load_strict(layer, tensors, where="w")
        assert state_sha256(layer.state_dict()) == before


def test_a_pickle_is_never_loaded(tmp_path: Path, layer: nn.Module) -> None:
    save(tmp_path, layer)
    torch.save(layer.state_dict(), tmp_path / "model.safetensors")
    record = json.loads((tmp_path / "provenance.json").read_text())
    record["sha256"]["model.safetensors"] = weights.file_sha256(tmp_path / "model.safetensors")
    (tmp_path / "provenance.json").write_text(json.dumps(record))
    with pytest.raises(WeightsError, match="not a readable safetensors file"):
        read_component(tmp_path, "model", architecture="layer")


def test_weights_shipped_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another encoder of the same kind, described by its own provenance; a folder of that name goes first."""
    assert resolve("fingerprints") == shipped_variants()["fingerprints"]
    variant, default = PlanFormer.from_pretrained("fingerprints"), PlanFormer.from_pretrained()
    assert variant.config == default.config and variant.fingerprint != default.fingerprint
    assert (variant.provenance["run"]["name"], variant.provenance["run"]["seed"]) == ("turns", 3)
    with pytest.raises(WeightsError, match="shipped beside the default: fingerprints"):
        resolve("fingerprint")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fingerprints").mkdir()
    assert resolve("fingerprints") == Path("fingerprints")


def test_resolve_says_what_is_wrong(tmp_path: Path) -> None:
    assert resolve(tmp_path) == tmp_path
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(WeightsError, match="are a folder"):
        resolve(file)
    with pytest.raises(WeightsError, match="no such weights folder"):
        resolve(str(tmp_path / "nowhere"))


def test_hub_names_go_to_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked: list[object] = []

    def download(repository: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((repository, revision))
        if repository == "owner/absent":
            raise OSError("404\nmore")
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert resolve("owner/name@v1") == tmp_path
    assert asked == [("owner/name", "v1")]
    with pytest.raises(WeightsError, match=r"owner/absent: .*404\)$"):
        resolve("owner/absent")
