"""The folder of one run: resolved recipe, versions, commit, metrics, checkpoints, plots, best and last weights."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import yaml

from planformer.errors import ConfigError, InputError
from planformer.files import replace_file
from planformer.training.recipe import Recipe, build_recipe, write_recipe

# What may differ between the first start and a resumed one without changing the weights that come out.
_FREE_SECTIONS = ("monitor", "checkpoint", "probe", "name")


@dataclass(frozen=True)
class RunFolder:
    """Paths inside a run's folder."""

    path: Path

    @property
    def recipe_file(self) -> Path:
        return self.path / "recipe.yaml"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def info_file(self) -> Path:
        return self.path / "run.json"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def plots(self) -> Path:
        return self.path / "plots"

    @property
    def best(self) -> Path:
        return self.path / "best"

    @property
    def last(self) -> Path:
        return self.path / "last"

    def recipe(self) -> Recipe:
        if not self.recipe_file.is_file():
            raise InputError(f"{self.path}: not a run folder, recipe.yaml is missing")
        try:
            return build_recipe(yaml.safe_load(self.recipe_file.read_text("utf-8")), where=str(self.recipe_file))
        except yaml.YAMLError as error:
            raise InputError(f"{self.recipe_file}: not readable ({error})") from error

    def info(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.info_file.read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.info_file}: not readable ({error}); is this a run folder?") from error

    def write_info(self, info: dict[str, Any]) -> None:
        text = json.dumps(info, indent=2, default=str) + "\n"
        replace_file(self.info_file, lambda path: _write_text(path, text))


def open_run(path: Path, recipe: Recipe, *, needed_bytes: int = 0) -> RunFolder:
    """Make or reopen a run's folder, with room for its checkpoints."""
    folder = RunFolder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path).free
    except OSError as error:
        raise InputError(f"{path}: can't make the run folder ({error.strerror})") from error
    if free < needed_bytes:
        raise InputError(
            f"{path}: {free / 1e6:.0f} MB free, the run's checkpoints need about {needed_bytes / 1e6:.0f} MB; "
            "free some space or use another --out"
        )
    check_run(path, recipe)
    write_recipe(recipe, folder.recipe_file)
    return folder


def check_run(path: Path, recipe: Recipe) -> None:
    """Refuse a folder that holds a run with another recipe, or that is not a run's folder at all."""
    folder = RunFolder(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file; --out names a folder")
    if folder.recipe_file.is_file():
        changed = _differences(folder.recipe(), recipe)
        if changed:
            raise ConfigError(
                f"{path}: holds a run with another recipe (differs in {', '.join(changed[:4])}); use another --out"
            )


def describe_run(recipe: Recipe, data: dict[str, Any], processes: int) -> dict[str, Any]:
    """Versions, commit and machine, for the record."""
    import numpy
    import torch

    from planformer import __version__

    return {
        "name": recipe.name,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(Path(part).name if i == 0 else part for i, part in enumerate(sys.argv)),
        "planformer": __version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "commit": source_commit(),
        "seed": recipe.seed,
        "processes": processes,
        "threads": torch.get_num_threads(),
        "architecture": recipe.architecture,
        "data": data,
    }


def source_commit() -> str:
    """The commit of the source tree the package runs from, with a mark when it was edited.

    Without git, or outside of a work tree, the installed distribution says what it is: the commit it was installed
    from where pip recorded one, else its version.
    """
    here = Path(__file__).resolve().parent

    def git(*args: str) -> str:
        result = subprocess.run(["git", *args], cwd=here, capture_output=True, text=True, timeout=10, check=True)
        return result.stdout.strip()

    try:
        # A package inside an environment inside somebody else's work tree is not that tree's commit.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        commit = git("rev-parse", "HEAD")
        return commit + ("+edited" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return _installed_version()


def _installed_version() -> str:
    """``release 0.1.0``, or the commit that pip installed from (direct_url.json, PEP 610)."""
    from planformer import __version__

    release = f"release {__version__}"
    try:
        recorded = json.loads(distribution("planformer").read_text("direct_url.json") or "{}")
        return str(recorded["vcs_info"]["commit_id"])
    except (PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return release


def _differences(old: Recipe, new: Recipe) -> list[str]:
    a, b = old.model_dump(mode="json"), new.model_dump(mode="json")
    for section in _FREE_SECTIONS:
        a.pop(section), b.pop(section)
    for side in (a, b):
        side["data"].pop("folder"), side["data"].pop("prefetch")
    changed = []
    for key in a:
        if isinstance(a[key], dict):
            names = {**a[key], **b[key]}  # a switch of the encoder is written only where it is not at its default
            changed += [f"{key}.{name}" for name in names if a[key].get(name) != b[key].get(name)]
        elif a[key] != b[key]:
            changed.append(key)
    return changed


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
