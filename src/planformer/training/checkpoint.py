"""Atomic, rotating checkpoints.

A checkpoint is a folder ``step-00001234`` with ``model.safetensors`` (every network of the run), ``state.pt``
(optimiser and counters, loadable with ``weights_only=True``) and ``manifest.json`` with the hash of both. It is
written under a temporary name and renamed when complete, so a process killed at any moment leaves the previous one.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from planformer.errors import InputError, WeightsError
from planformer.models.weights import file_sha256

_NAME = re.compile(r"step-(\d{8})")
_TENSORS, _STATE, _MANIFEST = "model.safetensors", "state.pt", "manifest.json"


@dataclass
class Checkpoint:
    """What was read back: every tensor by name, the rest of the state, and the step after which it was taken."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    path: Path


def save_checkpoint(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    *,
    architecture: str,
    keep: int = 2,
) -> Path:
    """Write one checkpoint and remove all but the newest ``keep``. A full disk is an error that names the folder."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    final = folder / f"step-{step:08d}"
    temporary = folder / f".writing-{final.name}-{os.getpid()}"
    try:
        temporary.mkdir()
        plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        save_file(plain, temporary / _TENSORS)
        torch.save(dict(state), temporary / _STATE)
        files = {name: file_sha256(temporary / name) for name in (_TENSORS, _STATE)}
        manifest = {"step": step, "architecture": architecture, "sha256": files}
        (temporary / _MANIFEST).write_text(json.dumps(manifest, indent=2), "utf-8")
        _flush(temporary)
        if final.exists():
            shutil.rmtree(final)
        temporary.replace(final)
    except (OSError, RuntimeError, SafetensorError) as error:
        # torch's writer reports a short write as a RuntimeError without an errno.
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        reason = "the disk is full" if full else str(error).splitlines()[0]
        raise InputError(f"{folder}: can't write a checkpoint ({reason}); the previous one is kept") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def list_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    found = (path for path in folder.glob("step-*") if _NAME.fullmatch(path.name) and (path / _MANIFEST).is_file())
    return sorted(found)


def load_latest(folder: Path, *, architecture: str) -> Checkpoint | None:
    """The newest checkpoint whose files are intact, or None when there is none at all."""
    damaged: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        try:
            return load_checkpoint(path, architecture=architecture)
        except DamagedCheckpoint as error:
            damaged.append(str(error))
    if damaged:
        raise WeightsError(f"{folder}: no intact checkpoint ({damaged[0]}); start again in another folder")
    return None


class DamagedCheckpoint(WeightsError):
    """A checkpoint whose files are missing or changed; an older one may still serve."""


def load_checkpoint(path: Path, *, architecture: str) -> Checkpoint:
    """Read one checkpoint after verifying its hashes and that it belongs to this architecture."""
    from safetensors.torch import load_file

    try:
        manifest = json.loads((path / _MANIFEST).read_text("utf-8"))
        intact = all(file_sha256(path / name) == digest for name, digest in manifest["sha256"].items())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{path}: not a readable checkpoint ({error})") from error
    if not intact:
        raise DamagedCheckpoint(f"{path}: its files were changed or cut short")
    if manifest.get("architecture") != architecture:
        raise WeightsError(
            f"{path}: written by a run with another architecture ({manifest.get('architecture')}, this recipe has "
            f"{architecture}); use its own recipe, or another --out"
        )
    state = torch.load(path / _STATE, weights_only=True)
    return Checkpoint(int(manifest["step"]), load_file(path / _TENSORS), state, path)


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process was writing."""
    for path in folder.glob(".writing-*"):
        shutil.rmtree(path, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Make the files durable before the rename makes them visible."""
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
