"""Stratified distributed sampling (paper, Appendix D, Algorithm "Stratified Distributed Sampler").

Two corrections to the printed algorithm. It repeats a class to the size of the largest and *then* deals the list out
to the ranks, so that a repeated sample can land on two ranks; here the distinct samples are dealt out first and each
rank repeats its own, so ranks are always disjoint. And it draws a new permutation of the classes for every single
sample while indexing it by a running position, which neither visits every class in a round nor balances a batch; here
one permutation serves one round. All ranks see the same classes in the same batch, so that pairs also form between
ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import ConfigError

IntArray = npt.NDArray[np.int64]


class StratifiedDistributedSampler:
    """Batches of indices in which the classes' counts differ by at most one.

    ``classes_per_batch`` limits a batch to that many classes (the same number of samples of each), which makes pairs
    of one class likely in small batches; over a round every class is used equally often.

    >>> sampler = StratifiedDistributedSampler(np.repeat([0, 1, 2], 8), batch_size=6, seed=0)
    >>> [len(batch) for batch in sampler]
    [6, 6, 6, 6]
    """

    def __init__(
        self,
        labels: npt.ArrayLike,
        batch_size: int,
        *,
        rank: int = 0,
        world: int = 1,
        seed: int = 0,
        classes_per_batch: int | None = None,
    ) -> None:
        self.labels = np.asarray(labels)
        self.batch_size, self.rank, self.world, self.seed = batch_size, rank, world, seed
        names, counts = np.unique(self.labels, return_counts=True)
        self.num_classes = len(names)
        if self.num_classes == 0:
            raise ConfigError("the training set is empty: no sequence to sample from")
        if counts.min() < world:
            raise ConfigError(
                f"class {names[counts.argmin()]} has {counts.min()} sequences, fewer than the {world} processes: "
                "use fewer processes or more data"
            )
        wanted = classes_per_batch or self.num_classes
        self.classes_per_batch = min(wanted, self.num_classes, batch_size)
        self._members = [np.flatnonzero(self.labels == name) for name in names]
        self.num_batches = max(1, int(counts.max()) // world * self.num_classes // batch_size)
        self.epoch, self.position = 0, 0
        self._table: tuple[int, IntArray] | None = None

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[IntArray]:
        """The rest of the current epoch; afterwards the sampler stands at the start of the next."""
        table = self._epoch_table(self.epoch)
        while self.position < self.num_batches:
            self.position += 1
            yield table[self.position - 1]
        self.epoch, self.position = self.epoch + 1, 0

    def batch(self, step: int) -> IntArray:
        """Batch number ``step`` of the endless sequence of epochs: a function of (seed, step, rank) only."""
        epoch, position = divmod(step, self.num_batches)
        return self._epoch_table(epoch)[position]

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.position = int(state["epoch"]), int(state["position"])

    def _epoch_table(self, epoch: int) -> IntArray:
        """All batches of one epoch, ``[num_batches, batch_size]``."""
        if self._table is None or self._table[0] != epoch:
            classes = self._class_table(np.random.default_rng([self.seed, epoch, 0]))
            table = np.empty_like(classes)
            for label, members in enumerate(self._members):
                rng = np.random.default_rng([self.seed, epoch, 1, label])
                shard = rng.permutation(members)[self.rank :: self.world]
                places = classes == label
                table[places] = _repeat_shuffled(shard, int(places.sum()), rng)
            self._table = (epoch, table)
        return self._table[1]

    def _class_table(self, rng: np.random.Generator) -> IntArray:
        """Which class stands where; the same on every rank."""
        chosen = _rounds(self.num_classes, self.num_batches, self.classes_per_batch, rng)
        base, extra = divmod(self.batch_size, self.classes_per_batch)
        table = np.repeat(chosen, base, axis=1)
        # Where the batch isn't a multiple of the classes, the first few of a random order get one more each.
        table = np.concatenate([table, chosen[:, :extra]], axis=1)
        return rng.permuted(table, axis=1)


def _rounds(num_classes: int, num_batches: int, width: int, rng: np.random.Generator) -> IntArray:
    """``[num_batches, width]`` classes without repetition in a row, all used equally often up to one."""
    rows = np.empty((num_batches, width), dtype=np.int64)
    queue: list[int] = []
    for row in rows:
        picked: list[int] = []
        while len(picked) < width:
            if not queue:
                # Classes already in this row go to the end of the new round, so that none occurs twice in it.
                fresh = rng.permutation(num_classes).tolist()
                queue = [c for c in fresh if c not in picked] + [c for c in fresh if c in picked]
            picked.append(queue.pop(0))
        row[:] = picked
    return rows


def _repeat_shuffled(items: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """``count`` items: every item once before any comes again, each round in a new order."""
    full, rest = divmod(count, len(items))
    rounds = [items] + [rng.permutation(items) for _ in range(full)]
    return np.concatenate(rounds)[: full * len(items) + rest]
