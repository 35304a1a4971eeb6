"""Seismic tasks (Appendix "Seismology Task"): three components, each embedded on its own and concatenated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.evaluation.tasks.base import Task, TaskData, as_labels, files_under

CLASS_NAMES = ("noise", "local quake", "teleseism")


class Seismic(Task):
    """Local quakes, noise and teleseisms. The file's keys are not documented, so they can be given."""

    name = "seismic"
    title = "Seismic event (SCEDC)"
    type = "physical"
    domain = "1-D"
    folders = ("scedc", "SCEDC", "seismic-scedc")
    layout = "HDF5 or NPZ, waveforms [n, 3, samples] or [n, samples, 3] and labels [n], train and test files or groups"
    source = "https://scedc.caltech.edu/ (Meier et al. 2019)"
    licence = "open for research under SCEDC's data policy"
    checks = "three components, as many labels as waveforms; the test part is balanced by dropping rows (seed 0)"

    def __init__(
        self,
        waveform_keys: tuple[str, ...] = ("X", "x", "waveforms", "data"),
        label_keys: tuple[str, ...] = ("Y", "y", "labels", "label"),
        rate: float = 100.0,
    ) -> None:
        self.waveform_keys, self.label_keys, self.rate = waveform_keys, label_keys, rate

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        parts: dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]] = {}
        for path in files_under(root, ".h5", ".hdf5", ".npz"):
            for part, arrays in self._arrays(path).items():
                parts[part] = self._pair(path, arrays)
        if "train" not in parts or "test" not in parts:
            raise self.missing(data_dir, root / "train.h5", root / "test.h5")
        keep = _balanced_rows(parts["test"][1])
        waveforms = np.concatenate([parts["train"][0], parts["test"][0][keep]])
        codes = np.concatenate([parts["train"][1], parts["test"][1][keep]])
        labels = as_labels([CLASS_NAMES[c] if isinstance(c, int) and c < 3 else c for c in codes.tolist()])
        test = np.arange(len(codes)) >= len(parts["train"][1])
        notes = (f"test part balanced: {len(keep)} of {len(parts['test'][1])} rows",)
        return TaskData(waveforms, labels, "seismic", self.rate, test=test, notes=notes)

    def _arrays(self, path: Path) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """{part: {key: array}}; the part is a group of the file, or its name."""
        part = "test" if "test" in path.stem.lower() else "train"
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {part: {key: archive[key] for key in archive.files}}
        import h5py

        try:
            with h5py.File(path) as handle:
                groups = {k.lower(): v for k, v in handle.items() if isinstance(v, h5py.Group)}
                if groups:
                    return {k: {name: v[name][()] for name in v} for k, v in groups.items() if k in ("train", "test")}
                return {part: {name: handle[name][()] for name in handle}}
        except OSError as error:
            raise InputError(f"{path}: not a readable HDF5 file ({error})") from error

    def _pair(self, path: Path, arrays: dict[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        waveform = next((arrays[k] for k in self.waveform_keys if k in arrays), None)
        labels = next((arrays[k] for k in self.label_keys if k in arrays), None)
        if waveform is None or labels is None:
            looked = f"{'/'.join(self.waveform_keys)} and {'/'.join(self.label_keys)}"
            raise self.wrong(
                path, f"keys {', '.join(sorted(arrays))}; looked for {looked}: pass waveform_keys and label_keys"
            )
        if waveform.ndim == 3 and waveform.shape[2] == 3 and waveform.shape[1] != 3:
            waveform = waveform.transpose(0, 2, 1)  # (n, samples, 3) -> (n, 3, samples)
        labels = labels.argmax(axis=1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1)
        if waveform.ndim != 3 or waveform.shape[1] != 3 or len(waveform) != len(labels):
            raise self.wrong(path, f"waveforms {waveform.shape} with {len(labels)} labels")
        if labels.dtype.kind == "S":
            labels = labels.astype(str)
        return np.asarray(waveform, dtype=np.float32), labels.astype(int) if labels.dtype.kind in "fiu" else labels


def _balanced_rows(labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """As many rows of each class as the smallest class has, drawn with seed 0 (paper: "Sampling Strategy")."""
    rng = np.random.default_rng(0)
    names, counts = np.unique(labels, return_counts=True)
    rows = [rng.choice(np.flatnonzero(labels == name), counts.min(), replace=False) for name in names]
    return np.sort(np.concatenate(rows)).astype(np.int64)


class Quake(Task):
    name = "quake"
    title = "Quake or noise (PhaseNet)"
    type = "physical"
    domain = "1-D"
    folders = ("seismic",)
    layout = "phasenet_waveforms.npz with x [n, 3, 3000], y, station, rate"
    source = "https://github.com/AI4EPS/PhaseNet (dataset/waveform_train)"
    licence = "MIT"

    def load(self, data_dir: Path) -> TaskData:
        path = self.root(data_dir) / "phasenet_waveforms.npz"
        if not path.is_file():
            raise self.missing(data_dir, path)
        with np.load(path, allow_pickle=False) as archive:
            absent = [key for key in ("x", "y", "station", "rate") if key not in archive.files]
            if absent:
                raise self.wrong(path, f"no array {', '.join(absent)}")
            x, y, station, rate = (archive[key] for key in ("x", "y", "station", "rate"))
        labels = as_labels(["quake" if label else "noise" for label in y])
        return TaskData(x, labels, "seismic", float(rate), groups=as_labels(station), group_name="station")
