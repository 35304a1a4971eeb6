"""A weights folder: ``config.json``, ``model.safetensors`` and ``provenance.json`` with the hash of each file.

Nothing is ever unpickled, and nothing is skipped: a missing, extra or wrongly shaped tensor, another hash or a newer
format is an error with one line. The folder of an encoder may hold further components (a decoder, a head), each with
its own pair of files; all of them are listed in the one provenance file.

>>> import tempfile
>>> import torch
>>> folder = tempfile.mkdtemp()
>>> layer = torch.nn.Linear(2, 3)
>>> _ = write_component(folder, "model", layer.state_dict(), {"width": 3}, architecture="layer")
>>> component = read_component(folder, "model", architecture="layer")
>>> load_strict(torch.nn.Linear(2, 3), component.tensors, where=folder)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from planformer import __version__
from planformer.errors import WeightsError
from planformer.files import replace_file

FORMAT_VERSION = 1
PROVENANCE = "provenance.json"


@dataclass(frozen=True)
class Component:
    """One stored network: its tensors, its configuration, and the folder's provenance."""

    tensors: dict[str, Tensor]
    config: dict[str, Any]
    provenance: dict[str, Any]
    sha256: str


def config_name(component: str) -> str:
    """``config.json`` for the encoder ("model"), ``<component>.json`` for anything that lives beside it."""
    return "config.json" if component == "model" else f"{component}.json"


def weights_name(component: str) -> str:
    return f"{component}.safetensors"


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def state_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Hash of names, shapes, types and values: equal for equal networks, whatever file they came from."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


def write_component(
    folder: str | Path,
    component: str,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    *,
    architecture: str,
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """Write one network into ``folder`` (made if needed). Other components already there stay.

    The provenance file is replaced last, so that a write that stops half-way is noticed by its hashes.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    header = {"format_version": FORMAT_VERSION, "architecture": architecture, "config": dict(config)}
    replace_file(folder / weights_name(component), lambda path: save_file(plain, path, metadata={"format": "pt"}))
    _replace_json(folder / config_name(component), header)

    record = _existing_provenance(folder)
    files = dict(record.get("sha256", {}))
    for name in (weights_name(component), config_name(component)):
        files[name] = file_sha256(folder / name)
    record.update(provenance or {})
    record.update(
        format_version=FORMAT_VERSION,
        planformer=__version__,
        torch=torch.__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        sha256=files,
    )
    _replace_json(folder / PROVENANCE, record)
    return folder


def read_component(folder: str | Path, component: str, *, architecture: str) -> Component:
    """Read one network and verify format version, architecture and hashes. No tensor is interpreted before that."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(folder)
    names = (weights_name(component), config_name(component), PROVENANCE)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise WeightsError(f"{folder}: not a weights folder, {', '.join(missing)} missing")
    provenance = _read_json(folder / PROVENANCE)
    header = _read_json(folder / config_name(component))
    _check_header(folder, header, architecture)
    _check_version(folder / PROVENANCE, provenance)
    recorded = provenance.get("sha256")
    listed: dict[str, Any] = recorded if isinstance(recorded, dict) else {}
    for name in names[:2]:
        if listed.get(name) != file_sha256(folder / name):
            raise WeightsError(
                f"{folder / name}: sha256 differs from {PROVENANCE}, the file was changed or cut short; copy it again"
            )
    try:
        tensors = load_file(folder / names[0])
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(f"{folder / names[0]}: not a readable safetensors file ({error})") from error
    return Component(tensors, header["config"], provenance, listed[names[0]])


def load_strict(module: nn.Module, tensors: Mapping[str, Tensor], *, where: str | Path) -> None:
    """Copy ``tensors`` into ``module``; every key, shape and type must match, or nothing is changed."""
    own = module.state_dict()
    missing = sorted(own.keys() - tensors.keys())
    extra = sorted(tensors.keys() - own.keys())
    if missing or extra:
        parts = [f"{what}: {_some(names)}" for what, names in (("missing", missing), ("unexpected", extra)) if names]
        raise WeightsError(f"{where}: weights don't fit this architecture ({'; '.join(parts)})")
    for name, value in own.items():
        stored = tensors[name]
        if stored.shape != value.shape:
            raise WeightsError(f"{where}: {name} has shape {tuple(stored.shape)}, expected {tuple(value.shape)}")
        if stored.dtype != value.dtype:
            raise WeightsError(f"{where}: {name} is {stored.dtype}, expected {value.dtype}")
        if stored.is_floating_point() and not bool(torch.isfinite(stored).all()):
            raise WeightsError(f"{where}: {name} holds values that are not finite")
    module.load_state_dict(dict(tensors), strict=True)


def _check_header(folder: Path, header: dict[str, Any], architecture: str) -> None:
    _check_version(folder, header)
    if header.get("architecture") != architecture:
        raise WeightsError(f"{folder}: holds {header.get('architecture')!r}, not {architecture!r}")
    if not isinstance(header.get("config"), dict):
        raise WeightsError(f"{folder}: its configuration file has no 'config'")


def _check_version(where: Path, record: dict[str, Any]) -> None:
    version = record.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise WeightsError(f"{where}: no format_version, not written by planformer")
    if version > FORMAT_VERSION:
        raise WeightsError(
            f"{where}: format version {version} is newer than this planformer reads ({FORMAT_VERSION}); "
            "upgrade with: pip install --upgrade planformer"
        )


def _existing_provenance(folder: Path) -> dict[str, Any]:
    """What an earlier component of this folder recorded, without entries whose file is gone."""
    path = folder / PROVENANCE
    if not path.is_file():
        return {}
    record = _read_json(path)
    listed = record.get("sha256")
    record["sha256"] = {k: v for k, v in listed.items() if (folder / k).is_file()} if isinstance(listed, dict) else {}
    return record


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: not readable JSON ({error})") from error
    if not isinstance(value, dict):
        raise WeightsError(f"{path}: expected a JSON object")
    return value


def _replace_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=2, sort_keys=True, default=str) + "\n"

    def write(temporary: Path) -> None:
        temporary.write_text(text, "utf-8")

    replace_file(path, write)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
