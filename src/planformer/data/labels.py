"""The ``planformer:`` extension of SigMF: the label of a recording, in its metadata (documented in docs/data.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXTENSION = {"name": "planformer", "version": "1.0.0", "optional": True}
LABEL_KEYS = ("emitter", "family", "collection", "protocol", "day")


def label_metadata(
    *, emitter: str, family: str, collection: str, protocol: str, day: int, **more: Any
) -> dict[str, Any]:
    """The global metadata of a labelled recording; ``more`` adds further keys of the namespace.

    >>> label_metadata(emitter="a", family="X310", collection="oracle", protocol="WiFi", day=1)["planformer:emitter"]
    'a'
    """
    values = {"emitter": emitter, "family": family, "collection": collection, "protocol": protocol, "day": day} | more
    return {"core:extensions": [EXTENSION]} | {f"planformer:{key}": value for key, value in values.items()}


def read_label(header: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """One value of the namespace from a recording's global metadata."""
    return header.get(f"planformer:{key}", default)
