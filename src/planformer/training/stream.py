"""Batches as a function of (seed, step), made ahead of time in a thread.

Nothing about a batch depends on when it is made or on what came before, so a resumed run sees exactly the batches the
interrupted one would have seen. A process may serve several ``shards``: one process with two shards makes the batch
that two processes with one shard each make together.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from planformer.data.augment import augment, unchanged, unit_power
from planformer.data.diversify import DiversifyConfig, diversify
from planformer.data.episodes import draw_classes, members, stage_episode
from planformer.data.kinds import companions, first_of, vary
from planformer.data.mixtures import MixtureBatch, mix
from planformer.data.sampler import StratifiedDistributedSampler
from planformer.data.scenes import (
    NAMED,
    NAMES,
    CollectionDraw,
    FloatArray,
    NamedScenes,
    coarse_spectra,
    relatives,
    stage,
)
from planformer.iq import interleave
from planformer.training.curriculum import snr_range
from planformer.training.recipe import Balance, Recipe


class SequenceSet(Protocol):
    """What training needs of a data set; :class:`planformer.data.recordings.RecordingSet` is one."""

    @property
    def emitters(self) -> Sequence[str]: ...

    @property
    def labels(self) -> npt.NDArray[Any]: ...

    @property
    def protocols(self) -> Sequence[str]: ...

    @property
    def collections(self) -> Sequence[str]: ...

    @property
    def recordings(self) -> npt.NDArray[Any]: ...

    def __len__(self) -> int: ...

    def sequences(self, indices: npt.NDArray[Any]) -> npt.NDArray[np.complex64]: ...


@dataclass
class TrainingBatch:
    """One step's input: interleaved float32 ``[B, 2n]`` of unit power, and what is known about it."""

    step: int
    kind: Literal["single", "separation"]
    clean: Tensor
    noisy: Tensor
    target: Tensor
    code: Tensor
    noise_power: Tensor
    signal_power: Tensor
    snr_db: Tensor
    labels: Tensor
    plain: Tensor  # bool [B]: as recorded but for the channel of a kind or a receiver's noise, not diversified
    kinds: Tensor  # [B]: number of the kind, over all processes
    scenes: Tensor  # [B]: place in planformer.data.scenes.NAMES of its scene, or NAMED; -1 without scenes
    described: Tensor | None = None  # like clean, where descriptors are those of another signal than the encoder sees
    mixture: MixtureBatch | None = None
    clean_b: Tensor | None = None
    labels_b: Tensor | None = None

    def to(self, device: str) -> TrainingBatch:
        if device == "cpu":
            return self
        moved = {f.name: _move(getattr(self, f.name), device) for f in fields(self)}
        return replace(self, **moved)


def strata(data: SequenceSet, balance: Balance) -> npt.NDArray[np.int64]:
    """The class of each sequence that a batch balances: its emitter, its emitter sending this protocol, its collection.

    >>> from planformer.training.sources import MemorySet
    >>> data = MemorySet(np.zeros((3, 8), np.complex64), np.array([0, 0, 1]), protocols=["QPSK", "FM", "FM"])
    >>> strata(data, "emitter").tolist(), strata(data, "protocol").tolist()
    ([0, 0, 1], [1, 0, 2])
    """
    emitters = np.asarray(data.labels, np.int64)
    if balance == "emitter":
        return emitters
    if balance == "collection":
        return np.unique(np.asarray(data.collections), return_inverse=True)[1].reshape(-1).astype(np.int64)
    _, protocols = np.unique(np.asarray(data.protocols), return_inverse=True)
    _, pairs = np.unique(np.stack((emitters, protocols)), axis=1, return_inverse=True)
    return pairs.reshape(-1).astype(np.int64)


class BatchStream:
    """The endless sequence of training batches of one process."""

    def __init__(self, data: SequenceSet, recipe: Recipe, *, rank: int = 0, world: int = 1) -> None:
        self.data, self.recipe = data, recipe
        shards, classes = recipe.data.shards, strata(data, recipe.data.balance)
        self.shard_ids = [rank * shards + i for i in range(shards)]
        self.samplers = [
            StratifiedDistributedSampler(
                classes,
                recipe.data.batch_size,
                rank=shard,
                world=world * shards,
                seed=recipe.seed,
                classes_per_batch=recipe.data.emitters_per_batch,
            )
            for shard in self.shard_ids
        ]
        scenes = recipe.scenes
        self._recorded = CollectionDraw(data.collections, scenes.recorded_from) if scenes.recorded_from else None
        self._named = None
        if scenes.size > 1 and scenes.named:
            emitters = np.asarray(data.labels, np.int64)
            self._named = NamedScenes(data.collections, emitters, scenes.named_from)

    def kind(self, step: int) -> Literal["single", "separation"]:
        """Separation batches are spread evenly: with share 1/2 every second one."""
        share = self.recipe.separation.share
        return "separation" if int((step + 1) * share) > int(step * share) else "single"

    def batch(self, step: int) -> TrainingBatch:
        """The batch of one step, the same whenever it is asked for."""
        parts = [
            self._shard(step, shard, sampler) for shard, sampler in zip(self.shard_ids, self.samplers, strict=True)
        ]
        return parts[0] if len(parts) == 1 else _concatenate(parts)

    def _shard(self, step: int, shard: int, sampler: StratifiedDistributedSampler) -> TrainingBatch:
        recipe = self.recipe
        generator = torch.Generator().manual_seed(mix_seed(recipe.seed, step, shard))
        rng = np.random.default_rng([recipe.seed, step, shard])
        if recipe.scenes.size > 1:
            indices, sources, x, scenes, kinds = self._scenes(sampler.batch(step), generator, rng)
            plain = (scenes == NAMES.index("recorded")) | (scenes == NAMED)
            noise_free = recipe.scenes.noise_free
            described = interleave(torch.where(plain[:, None], sources, x)) if noise_free else None
        else:
            indices, x, plain = self._sequences(sampler.batch(step), generator, rng)
            kinds, scenes, described = first_of(len(x), recipe.diversify.kind), torch.full((len(x),), -1), None
        bounds = snr_range(step, recipe.schedule, recipe.curriculum)
        if recipe.reads_augmented:
            augmented = augment(x, generator, snr_range=bounds, config=recipe.augment)
        else:
            augmented = unchanged(x)
        labels = torch.from_numpy(np.asarray(self.data.labels)[indices].astype(np.int64))
        batch = TrainingBatch(
            step=step,
            kind=self.kind(step),
            clean=interleave(x),
            labels=labels,
            plain=plain,
            kinds=shard * len(x) + kinds,
            scenes=scenes,
            described=described,
            noisy=augmented.noisy,
            target=augmented.target,
            code=augmented.code,
            noise_power=augmented.noise_power,
            signal_power=augmented.signal_power,
            snr_db=augmented.snr_db,
        )
        return self._add_mixture(batch, x, generator) if batch.kind == "separation" else batch

    def _sequences(
        self, indices: npt.NDArray[np.int64], generator: torch.Generator, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.int64], Tensor, Tensor]:
        """Which sequences, what became of them ``[B, n]``, and which are as recorded ``[B]``."""
        kind = self.recipe.diversify.kind
        if kind > 1:
            indices = companions(indices, self.data.recordings, kind, rng)
        x = unit_power(torch.from_numpy(self.data.sequences(indices)))
        recorded = x
        if self.recipe.diversify != DiversifyConfig.off():
            x = diversify(x, generator, self.recipe.diversify)
        plain = (x == recorded).all(-1)
        return indices, vary(x, generator) if kind > 1 else x, plain

    def _scenes(
        self, indices: npt.NDArray[np.int64], generator: torch.Generator, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.int64], Tensor, Tensor, Tensor, Tensor]:
        """Which sequences, as they were recorded, and what became of them.

        Of every ``scenes.size`` the first stays, and its relatives join it. Then for each sequence the place of its
        scene's name in ``NAMES``, and the place of the first of its class, which is itself without ``scenes.classes``.
        """
        scenes, general = self.recipe.scenes, self.recipe.diversify
        firsts = indices[:: scenes.size][: len(indices) // scenes.size - scenes.named]
        drawn = rng.choice(len(NAMES), len(firsts), p=scenes.shares)
        names = [NAMES[i] for i in drawn]
        if self._recorded is not None:
            chosen = [name == "recorded" for name in names]
            firsts = np.where(chosen, [self._recorded.first(rng) for _ in names], firsts)
        indices = relatives(firsts, self._relations, rng, names, scenes, self._spectra)
        places = torch.from_numpy(drawn).repeat_interleave(scenes.size)
        if scenes.classes:
            return self._episodes(indices, names, places, generator, rng)
        if self._named is not None:
            more = [self._named.draw(scenes.size, rng) for _ in range(scenes.named)]
            indices = np.concatenate((indices, *more))
            places = torch.cat((places, torch.full((scenes.named * scenes.size,), NAMED)))
        x = unit_power(torch.from_numpy(self.data.sequences(indices)))
        made = [
            stage(part, name, generator, general, scenes.words)
            for part, name in zip(x.split(scenes.size), names, strict=False)  # what is left over is named
        ]
        named = x[len(names) * scenes.size :]
        return indices, x, torch.cat((*made, named)), places, torch.arange(len(indices))

    def _episodes(
        self,
        indices: npt.NDArray[np.int64],
        names: list[str],
        places: Tensor,
        generator: torch.Generator,
        rng: np.random.Generator,
    ) -> tuple[npt.NDArray[np.int64], Tensor, Tensor, Tensor, Tensor]:
        """Scenes whose members belong to classes."""
        size, general = self.recipe.scenes.size, self.recipe.diversify
        drawn = [draw_classes(size, rng) for _ in names]
        found = indices.reshape(len(names), size)
        for row, (name, classes) in enumerate(zip(names, drawn, strict=True)):
            if name == "recorded":
                found[row] = members(found[row], classes, self.data.recordings, self._relations["emitter"], rng)
        x = unit_power(torch.from_numpy(self.data.sequences(found.reshape(-1))))
        parts = [
            stage_episode(part, torch.from_numpy(classes), name, generator, general)
            for part, classes, name in zip(x.split(size), drawn, names, strict=True)
        ]
        firsts = [row * size + np.searchsorted(classes, classes) for row, classes in enumerate(drawn)]
        return found.reshape(-1), x, torch.cat(parts), places, torch.from_numpy(np.concatenate(firsts))

    @functools.cached_property
    def _spectra(self) -> FloatArray | None:
        """How every sequence fills its band, where scenes are drawn by it."""
        if self.recipe.scenes.near == 0:
            return None
        rows = np.array_split(np.arange(len(self.data)), max(1, len(self.data) // 512))
        return np.concatenate([coarse_spectra(self.data.sequences(part)) for part in rows])

    @functools.cached_property
    def _relations(self) -> dict[str, npt.NDArray[np.int64]]:
        """What sequences may have in common, see :func:`planformer.data.scenes.relatives`."""
        _, protocols = np.unique(np.asarray(self.data.protocols), return_inverse=True)
        return {
            "any": strata(self.data, "protocol"),
            "collection": strata(self.data, "collection"),
            "protocol": protocols.reshape(-1).astype(np.int64),
            "emitter": strata(self.data, "emitter"),
        }

    def _add_mixture(self, batch: TrainingBatch, x: Tensor, generator: torch.Generator) -> TrainingBatch:
        """Pair each sequence with another emitter's where there is one, and mix."""
        partner = _partners(batch.labels, generator)
        section = self.recipe.separation
        mixture = mix(
            x,
            x[partner],
            generator,
            sinr_range=section.sinr_range,
            noise_share=section.noise_share,
            config=self.recipe.augment,
        )
        return replace(batch, mixture=mixture, clean_b=interleave(x[partner]), labels_b=batch.labels[partner])

    def prefetch(self, start: int, stop: int) -> Iterator[tuple[TrainingBatch, float]]:
        """Batches ``start`` to ``stop`` made ahead in a thread, each with the seconds that were waited for it."""
        ready: queue.Queue[TrainingBatch | BaseException] = queue.Queue(maxsize=max(1, self.recipe.data.prefetch))
        stopped = threading.Event()
        worker = threading.Thread(target=self._produce, args=(start, stop, ready, stopped), daemon=True)
        worker.start()
        try:
            for _ in range(start, stop):
                begin = time.perf_counter()
                item = ready.get()
                if isinstance(item, BaseException):
                    raise item
                yield item, time.perf_counter() - begin
        finally:
            stopped.set()
            worker.join(timeout=10)

    def _produce(
        self, start: int, stop: int, ready: queue.Queue[TrainingBatch | BaseException], stopped: threading.Event
    ) -> None:
        for step in range(start, stop):
            try:
                item: TrainingBatch | BaseException = self.batch(step)
            except BaseException as error:  # handed to the consumer, which raises it
                item = error
            while not stopped.is_set():
                try:
                    ready.put(item, timeout=0.2)
                    break
                except queue.Full:
                    continue
            if stopped.is_set() or isinstance(item, BaseException):
                return


def mix_seed(*parts: int) -> int:
    """One 63-bit seed from several numbers, without the correlations of adding them.

    >>> mix_seed(0, 1) != mix_seed(1, 0)
    True
    """
    return int(np.random.SeedSequence([p & 0xFFFFFFFF for p in parts]).generate_state(1, np.uint64)[0] >> 1)


def _partners(labels: Tensor, generator: torch.Generator) -> Tensor:
    """A permutation that pairs each sequence with one of another emitter as far as a few draws find one."""
    best = torch.randperm(len(labels), generator=generator)
    for _ in range(8):
        if not bool((labels[best] == labels).any()):
            break
        other = torch.randperm(len(labels), generator=generator)
        if (labels[other] == labels).sum() < (labels[best] == labels).sum():
            best = other
    return best


def _concatenate(parts: list[TrainingBatch]) -> TrainingBatch:
    joined: dict[str, Any] = {"step": parts[0].step, "kind": parts[0].kind}
    for field in fields(TrainingBatch):
        values = [getattr(part, field.name) for part in parts]
        if isinstance(values[0], Tensor):
            joined[field.name] = torch.cat(values)
        elif isinstance(values[0], MixtureBatch):
            names = [f.name for f in fields(MixtureBatch)]
            joined[field.name] = MixtureBatch(**{n: torch.cat([getattr(v, n) for v in values]) for n in names})
    return TrainingBatch(**joined)


def _move(value: Any, device: str) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, MixtureBatch):
        return MixtureBatch(**{f.name: getattr(value, f.name).to(device) for f in fields(MixtureBatch)})
    return value
