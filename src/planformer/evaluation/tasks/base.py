"""What a task is: labelled items with an honest split, and where to get them (Appendix "Evaluation Datasets")."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.evaluation.tasks.published import PUBLISHED

if TYPE_CHECKING:
    from planformer.signals import Signal

TASK_TYPES = ("physical", "semantic", "mixed")
Labels = npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class TaskData:
    """Labelled items, loaded but not yet read.

    ``items`` are paths, byte strings or arrays, or one uint8 array ``[n, H, W(, C)]`` of images. ``test`` marks a fixed
    test set; ``groups`` says which items come from one recording, day, speaker, station or source image.
    """

    items: Any
    labels: Labels
    kind: str
    rate: float | None = None
    groups: Labels | None = None
    group_name: str = ""
    test: npt.NDArray[np.bool_] | None = None
    read_options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("labels", "groups", "test"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.items):
                raise InputError(f"{len(self.items)} items but {len(column)} {name}: the data set is inconsistent")

    def __len__(self) -> int:
        return len(self.items)

    @property
    def is_images(self) -> bool:
        """True when the items are one array of equally large images."""
        return self.kind == "image" and isinstance(self.items, np.ndarray)

    @property
    def class_names(self) -> list[str]:
        return [str(name) for name in np.unique(self.labels)]

    def signal(self, index: int) -> Signal:
        """Item ``index`` as a :class:`planformer.Signal`."""
        from planformer import signals

        item = self.items[index]
        if isinstance(item, Path | str):
            return signals.read(Path(item), self.kind or None, rate=self.rate, **self.read_options)  # type: ignore[arg-type]
        if isinstance(item, signals.Signal):
            return item
        return signals.from_array(item, rate=self.rate, kind=self.kind or "array")  # type: ignore[arg-type]

    def subset(self, rows: npt.ArrayLike) -> TaskData:
        """The same data set with fewer rows."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index
        items = self.items[index] if isinstance(self.items, np.ndarray) else [self.items[i] for i in index]
        return replace(
            self,
            items=items,
            labels=self.labels[index],
            groups=None if self.groups is None else self.groups[index],
            test=None if self.test is None else self.test[index],
        )

    def fingerprint(self) -> str:
        """Hash of everything that decides the embeddings: contents, or each file's path, size and time of change."""
        digest = hashlib.sha256(repr((self.kind, self.rate, sorted(self.read_options.items()), len(self))).encode())
        if isinstance(self.items, np.ndarray):
            digest.update(repr((self.items.shape, str(self.items.dtype))).encode())
            digest.update(np.ascontiguousarray(self.items).data)
            return digest.hexdigest()
        for item in self.items:
            _update(digest, item)
        return digest.hexdigest()


def _update(digest: Any, item: Any) -> None:
    if isinstance(item, Path | str):
        status = Path(item).stat()
        digest.update(f"{Path(item).resolve()}|{status.st_size}|{status.st_mtime_ns};".encode())
    elif isinstance(item, bytes):
        digest.update(f"{len(item)}|".encode() + item)
    else:
        samples = np.ascontiguousarray(getattr(item, "samples", item))
        digest.update(repr((samples.shape, str(samples.dtype), getattr(item, "rate", None))).encode())
        digest.update(samples.data)


class Task(ABC):
    """One row of the table. ``folders`` are the names looked for under the data folder, in order."""

    name: ClassVar[str]
    title: ClassVar[str]
    type: ClassVar[str]  # one of TASK_TYPES
    domain: ClassVar[str]  # "1-D", "2-D" or "3-D"
    folders: ClassVar[tuple[str, ...]]
    layout: ClassVar[str]
    source: ClassVar[str]
    licence: ClassVar[str]
    checks: ClassVar[str] = "files present and readable, one label for each item"
    in_averages: ClassVar[bool] = True
    official_items: ClassVar[int | None] = None  # of the whole official distribution, where it is known

    @abstractmethod
    def load(self, data_dir: Path) -> TaskData:
        """The items below ``data_dir``; :class:`InputError` says what was looked for and how to get it."""

    @property
    def published(self) -> Mapping[str, float]:
        """The paper's figures for this task in percent; empty for a set the paper does not have."""
        return PUBLISHED.get(self.name, {})

    def count_note(self, data: TaskData) -> str | None:
        """A remark when the number of items is not the official one: a part or a stand-in of the data set."""
        if self.official_items in (None, len(data)):
            return None
        return f"{len(data):,} items; the official distribution has {self.official_items:,}"

    def root(self, data_dir: Path) -> Path:
        """The first of ``folders`` that exists."""
        for folder in self.folders:
            if (data_dir / folder).is_dir():
                return data_dir / folder
        raise self.missing(data_dir, *[data_dir / folder for folder in self.folders])

    def present(self, data_dir: Path) -> bool:
        """Whether there is a folder to load from; says nothing about what is in it."""
        return any((data_dir / folder).is_dir() for folder in self.folders)

    def missing(self, data_dir: Path, *looked_for: Path) -> InputError:
        tried = " or ".join(str(path) for path in looked_for)
        return InputError(
            f"{self.name}: looked for {tried} ({self.layout}); get it from {self.source} ({self.licence})"
        )

    def wrong(self, path: Path, what: str) -> InputError:
        """An error for data that are there, but not as the official distribution has them."""
        return InputError(f"{self.name}: {path}: {what}; expected {self.layout}")


def as_labels(values: Sequence[Any] | npt.NDArray[Any]) -> Labels:
    """Labels as strings, so that class names and codes never mix.

    >>> as_labels([1, "b"]).tolist()
    ['1', 'b']
    """
    return np.array([str(value) for value in values], dtype=np.str_)


def files_under(folder: Path, *suffixes: str) -> list[Path]:
    """Files below ``folder`` with one of the suffixes (any case), sorted, hidden ones left out."""
    wanted = {suffix.lower() for suffix in suffixes}
    found = (p for p in folder.rglob("*") if p.suffix.lower() in wanted and not p.name.startswith("."))
    return sorted(p for p in found if p.is_file())
