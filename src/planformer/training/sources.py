"""The training and held-out sets of a run: a folder of recordings, or a little simulated one in the run's folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import ConfigError
from planformer.training.distributed import Processes, barrier
from planformer.training.recipe import Recipe, SimulateConfig
from planformer.training.stream import SequenceSet


class MemorySet:
    """Sequences held in memory, for small sets and for tests.

    >>> data = MemorySet(np.zeros((4, 8), np.complex64), np.array([0, 0, 1, 1]))
    >>> len(data), data.sequences(np.array([3])).shape
    (4, (1, 8))
    """

    def __init__(
        self,
        samples: npt.NDArray[np.complex64],
        labels: npt.NDArray[Any],
        emitters: Sequence[str] | None = None,
        protocols: Sequence[str] | None = None,
        recordings: npt.NDArray[Any] | None = None,
        collections: Sequence[str] | None = None,
    ) -> None:
        self._samples = np.asarray(samples, np.complex64)
        self.labels = np.asarray(labels, np.int64)
        self.emitters = list(emitters) if emitters is not None else [str(n) for n in np.unique(self.labels)]
        self.protocols = list(protocols) if protocols is not None else [""] * len(self.labels)
        self.collections = list(collections) if collections is not None else [""] * len(self.labels)
        self.recordings = np.arange(len(self.labels)) if recordings is None else np.asarray(recordings, np.int64)

    @classmethod
    def copy_of(cls, data: SequenceSet) -> MemorySet:
        samples = data.sequences(np.arange(len(data)))
        return cls(samples, data.labels, data.emitters, data.protocols, data.recordings, data.collections)

    def __len__(self) -> int:
        return len(self._samples)

    def sequences(self, indices: npt.NDArray[Any]) -> npt.NDArray[np.complex64]:
        return np.asarray(self._samples[np.asarray(indices)])


def open_sources(
    recipe: Recipe, out: Path, processes: Processes, note: Callable[[str], None] = lambda text: None
) -> tuple[SequenceSet, SequenceSet | None]:
    """(training set, held-out set); held-out sequences come from parts of the recordings that never train."""
    from planformer.data.recordings import RecordingSet

    folder = recipe.data.folder
    if folder is None:
        if recipe.data.simulate is None:
            raise ConfigError("no training data: give a folder of recordings with --data (see `planformer simulate`)")
        folder = str(out / "data")
        if processes.is_main:
            note("simulating a small training set ...")
            simulate_set(recipe.data.simulate, Path(folder))
        barrier()
    training: SequenceSet = RecordingSet.from_folder(folder, "train")
    held_out: SequenceSet = RecordingSet.from_folder(folder, "validation")
    if recipe.data.in_memory:
        training = MemorySet.copy_of(training)
    return training, held_out if len(held_out) else None


def simulate_set(config: SimulateConfig, folder: Path) -> None:
    """Write the recordings that are not there yet."""
    from planformer.data.simulator import plan, write_recordings

    recordings = plan(list(config.collections), config.samples, config.seed)
    for _ in write_recordings(recordings, folder, config.seed):
        pass
