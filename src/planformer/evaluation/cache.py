"""Features on disk, keyed by what decides them: the method (weights, readout, preprocessing) and the data.

A key is a hash of the featuriser's identity and the data's fingerprint; nothing is looked up by name, so changed
weights, options or files are simply other keys. A damaged file counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from planformer.evaluation.featurisers import Advance, EncoderFeatures, Features, Featuriser
from planformer.evaluation.tasks import TaskData

FORMAT = 1


class FeatureCache:
    """``folder=None`` keeps nothing on disk.

    The second readout of the encoder's last pass is always kept in memory, so that it is never computed twice.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._last: dict[str, Features] = {}

    def features(self, featuriser: Featuriser, data: TaskData, advance: Advance | None = None) -> tuple[Features, bool]:
        """Features of ``data`` and whether they came from the cache."""
        fingerprint = data.fingerprint()
        key = cache_key(featuriser.identity, fingerprint)
        stored = self._last[key] if key in self._last else self._load(key, len(data))
        if stored is not None:
            return stored, True
        if isinstance(featuriser, EncoderFeatures):
            both = featuriser.both_readouts(data, advance)
            base = featuriser.identity.rpartition(":")[0]
            self._last = {cache_key(f"{base}:{readout}", fingerprint): values for readout, values in both.items()}
            for readout, values in both.items():
                self._store(cache_key(f"{base}:{readout}", fingerprint), values, f"{base}:{readout}")
            return both[featuriser.readout], False
        values = featuriser.features(data, advance)
        self._store(key, values, featuriser.identity)
        return values, False

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{key}.npz"

    def _load(self, key: str, rows: int) -> Features | None:
        path = self._path(key)
        if path is None or not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as archive:
                values = archive["features"]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
            return None
        return values if len(values) == rows else None

    def _store(self, key: str, values: Features, identity: str) -> None:
        path = self._path(key)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        note = json.dumps({"identity": identity, "format": FORMAT})
        write_atomically(path, lambda handle: np.savez(handle, features=values, note=np.array(note)))


def cache_key(identity: str, fingerprint: str) -> str:
    """A name for the file: changes with the method and with the data."""
    return hashlib.sha256(f"{FORMAT}|{identity}|{fingerprint}".encode()).hexdigest()[:40]


def write_atomically(path: Path, write: Callable[..., object]) -> None:
    """Write to a temporary file beside ``path``, then move it there."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)  # a temporary file is private; the finished one should not be
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def default_cache() -> Path:
    """$PLANFORMER_CACHE, or the user's cache folder."""
    base = os.environ.get("PLANFORMER_CACHE")
    if base:
        return Path(base) / "features"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "planformer" / "features"
