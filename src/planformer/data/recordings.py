"""The training set: labelled SigMF recordings as 5,120-sample sequences, memory-mapped (paper, Appendix E.1.6).

Every file is split on its own: the first 80 % of its sequences train, the rest validates, so that both see the same
channels and no sample is in both.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from planformer.data.labels import LABEL_KEYS, read_label
from planformer.data.resampling import TARGET_RATE
from planformer.errors import InputError

SEQUENCE = 5120
TRAIN_SHARE = 0.8
_MAX_MAPS = 128  # mapped files at a time: each holds a file descriptor

Split = Literal["train", "validation"]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RecordingFile:
    """One labelled recording at 7.69 MHz."""

    path: Path  # of the metadata
    data: Path
    samples: int
    header: dict[str, Any]

    @property
    def sequences(self) -> int:
        return self.samples // SEQUENCE

    def label(self, key: str) -> Any:
        return read_label(self.header, key)


def open_recording(path: Path) -> RecordingFile:
    """Read and check the metadata of one recording; every problem is an :class:`InputError` that names the file."""
    header = _read_header(path)
    data = path.with_suffix(".sigmf-data")
    if not data.is_file():
        raise InputError(f"{path}: its data file {data.name} is missing")
    datatype, rate = header.get("core:datatype"), header.get("core:sample_rate")
    if datatype != "ci16_le":
        raise InputError(f"{path}: datatype {datatype!r}; training reads ci16_le (see docs/data.md: prepare)")
    if not isinstance(rate, int | float) or not abs(rate - TARGET_RATE) <= 1:
        raise InputError(f"{path}: sample rate {rate!r}, training reads {TARGET_RATE:.0f} Hz; resample it first")
    if header.get("core:num_channels", 1) != 1:
        raise InputError(f"{path}: {header['core:num_channels']} channels; write each channel as its own recording")
    missing = [key for key in LABEL_KEYS if read_label(header, key) is None]
    if missing:
        raise InputError(f"{path}: no label planformer:{missing[0]} in its global metadata; add it (see docs/data.md)")
    size = data.stat().st_size
    if size % 4:
        raise InputError(f"{data}: {size} bytes is no whole number of ci16 samples; the file is truncated")
    expected = read_label(header, "samples")
    if isinstance(expected, int) and size != 4 * expected:
        raise InputError(f"{data}: {size // 4} samples, its metadata say {expected}; the file is truncated")
    if size // 4 < SEQUENCE:
        raise InputError(f"{data}: {size // 4} samples, fewer than one sequence of {SEQUENCE}; remove or replace it")
    return RecordingFile(path, data, size // 4, header)


def _read_header(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as SigMF metadata ({error})") from error
    header = document.get("global") if isinstance(document, dict) else None
    if not isinstance(header, dict):
        raise InputError(f"{path}: not SigMF metadata: no 'global' object")
    return header


class RecordingSet:
    """Random access to the sequences of a folder of recordings.

    Worker-safe: maps are opened by the process that reads, and are not pickled. Sequences stand file by file, in
    order of the files' paths; the order is the same on every machine.

    >>> import tempfile, pathlib
    >>> from planformer.data.simulator import plan, write_recordings
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> done = list(write_recordings(plan(["fm"], 200_000, seed=0), folder, seed=0))
    >>> data = RecordingSet.from_folder(folder, split="train")
    >>> len(data.emitters), data.sequences([0, 1]).shape
    (6, (2, 5120))
    """

    def __init__(self, files: list[RecordingFile], split: Split | None = None) -> None:
        if split not in ("train", "validation", None):
            raise InputError(f"split {split!r}: use 'train', 'validation' or None")
        self.files, self.split = files, split
        self.emitters: list[str] = sorted({str(file.label("emitter")) for file in files})
        file_index, starts = [], []
        for number, file in enumerate(files):
            first, stop = _bounds(file.sequences, split)
            starts.append(np.arange(first, stop, dtype=np.int64) * SEQUENCE)
            file_index.append(np.full(stop - first, number, np.int64))
        self.recordings: IntArray = np.concatenate(file_index) if files else np.zeros(0, np.int64)
        self.starts: IntArray = np.concatenate(starts) if files else np.zeros(0, np.int64)
        number_of = {name: k for k, name in enumerate(self.emitters)}
        self.labels: IntArray = np.array([number_of[str(f.label("emitter"))] for f in files], np.int64)[self.recordings]
        self._maps: OrderedDict[int, npt.NDArray[np.int16]] = OrderedDict()

    @classmethod
    def from_folder(cls, folder: str | Path, split: Split | None = None) -> RecordingSet:
        """Every ``*.sigmf-meta`` below ``folder``; anything unusable is an error that names the file."""
        root = Path(folder)
        if not root.is_dir():
            raise InputError(f"{root}: no such folder; `planformer simulate all --out {root}` makes one")
        paths = sorted(root.rglob("*.sigmf-meta"), key=lambda path: path.relative_to(root).as_posix())
        if not paths:
            raise InputError(f"{root}: no *.sigmf-meta below it; `planformer simulate all --out {root}` makes some")
        return cls([open_recording(path) for path in paths], split)

    def __len__(self) -> int:
        return int(self.starts.size)

    def sequences(self, indices: npt.ArrayLike) -> npt.NDArray[np.complex64]:
        """Sequences ``indices`` as complex64 ``[k, 5120]``, full scale 1."""
        chosen = np.atleast_1d(np.asarray(indices, np.int64))
        raw = np.empty((chosen.size, 2 * SEQUENCE), np.float32)
        for row, index in enumerate(chosen):
            start = int(self.starts[index])
            raw[row] = self._map(int(self.recordings[index]))[2 * start : 2 * (start + SEQUENCE)]
        raw *= np.float32(1 / 32768)
        return raw.view(np.complex64)  # [k, 10240] floats -> [k, 5120] complex

    def __getitem__(self, index: int) -> npt.NDArray[np.complex64]:
        return self.sequences([index])[0]

    @property
    def families(self) -> list[str]:
        """The family (product) of each sequence's emitter."""
        return self._each("family")

    @property
    def collections(self) -> list[str]:
        """The collection each sequence belongs to."""
        return self._each("collection")

    @property
    def protocols(self) -> list[str]:
        """What each sequence's recording carries: WiFi, 4G, QPSK, FM, ..."""
        return self._each("protocol")

    @property
    def days(self) -> list[str]:
        return self._each("day")

    def _each(self, key: str) -> list[str]:
        values = [str(file.label(key)) for file in self.files]
        return [values[k] for k in self.recordings]

    def _map(self, number: int) -> npt.NDArray[np.int16]:
        if number in self._maps:
            self._maps.move_to_end(number)
            return self._maps[number]
        file = self.files[number]
        try:
            mapped = np.memmap(file.data, dtype="<i2", mode="r")
        except (OSError, ValueError) as error:
            raise InputError(f"{file.data}: can't be read any more ({error})") from error
        if mapped.size < 2 * file.samples:
            raise InputError(f"{file.data}: {mapped.size // 2} samples instead of {file.samples}; it was cut meanwhile")
        self._maps[number] = mapped
        if len(self._maps) > _MAX_MAPS:
            self._maps.popitem(last=False)
        return mapped

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_maps": OrderedDict()}


def _bounds(sequences: int, split: Split | None) -> tuple[int, int]:
    """First and last + 1 sequence of a file that belong to the split; a file of one sequence only trains."""
    if split is None:
        return 0, sequences
    border = max(1, int(TRAIN_SHARE * sequences))
    return (0, border) if split == "train" else (border, sequences)
