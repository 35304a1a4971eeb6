"""Where weights come from: shipped in the package (the default, others by name), a folder, or a hub repository."""

from __future__ import annotations

import re
from pathlib import Path

from planformer.errors import MissingExtraError, WeightsError

SHIPPED = Path(__file__).resolve().parent.parent / "weights"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def shipped_folder() -> Path | None:
    """The folder of the weights that came with the package, or None when there are none.

    >>> shipped_folder() is None or (shipped_folder() / "model.safetensors").is_file()
    True
    """
    return SHIPPED if (SHIPPED / "model.safetensors").is_file() else None


def shipped_variants() -> dict[str, Path]:
    """Other encoders that came with the package, by name; each has a folder of its own beside the default weights.

    >>> sorted(shipped_variants())
    ['fingerprints']
    """
    return {path.parent.name: path.parent for path in sorted(SHIPPED.glob("*/model.safetensors"))}


def resolve(source: str | Path | None = None) -> Path:
    """A local weights folder for ``source``: None (shipped), a folder, the name of a shipped variant
    (:func:`shipped_variants`; a folder of that name in the working directory goes first), or ``owner/name[@revision]``
    on the hub.
    """
    if source is None:
        folder = shipped_folder()
        if folder is None:
            raise WeightsError(
                "this installation ships no trained weights; pass a weights folder, or use PlanFormer.random(seed=0) "
                "(command line: --weights random) for the same network untrained"
            )
        return folder
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise WeightsError(f"{path}: weights are a folder with config.json and model.safetensors, not a file")
    variants = shipped_variants()
    if source in variants:
        return variants[str(source)]
    if isinstance(source, str) and _HUB_NAME.fullmatch(source):
        return _from_hub(source)
    known = f"; shipped beside the default: {', '.join(variants)}" if variants else ""
    raise WeightsError(f"{source}: no such weights folder (a hub repository is written owner/name{known})")


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "hub", f"loading {name!r} (no such folder)") from error
    repository, _, revision = name.partition("@")
    try:
        folder = snapshot_download(
            repository, revision=revision or None, allow_patterns=["*.json", "*.safetensors", "LICENSE*", "*.md"]
        )
    except Exception as error:  # the hub client raises a family of its own, requests' and OSError
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise WeightsError(f"{name}: no such folder, and the hub did not deliver it ({first[0]})") from error
    return Path(folder)
