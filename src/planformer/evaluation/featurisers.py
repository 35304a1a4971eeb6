"""Anything that turns a task's items into rows of numbers: the frozen encoder, and every baseline beside it."""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from planformer.errors import MissingExtraError
from planformer.evaluation.tasks import TaskData
from planformer.signals import PreprocessConfig, prepare, prepare_images

if TYPE_CHECKING:
    from planformer.config import PlanFormerConfig
    from planformer.models.planformer import PlanFormer

Features = npt.NDArray[np.float32]
Segments = npt.NDArray[np.complex64]
Advance = Callable[[int], None]  # called with the number of finished items
IMAGE_CHUNK = 256


class Featuriser(ABC):
    """``identity`` changes whenever the numbers could: it is part of the cache's key."""

    name: str
    title: str

    @property
    @abstractmethod
    def identity(self) -> str: ...

    @abstractmethod
    def features(self, data: TaskData, advance: Advance | None = None) -> Features:
        """Items -> ``[n, d]``."""

    def not_applicable(self, data: TaskData) -> str | None:
        """Why this featuriser has nothing to say about the data, or None."""
        return None

    def parameters(self) -> int:
        """Numbers that the method holds (weights; 0 for a fixed formula)."""
        return 0

    def macs(self) -> dict[str, int] | None:
        """Multiply-accumulates of one 5,120-sample segment by convention, where they are counted."""
        return None


class EncoderFeatures(Featuriser):
    """The frozen encoder: the paper's latent (256 numbers a channel) or token mean and deviation (512).

    Both readouts come from one pass, so asking for the second one after the first costs nothing while it is kept.
    """

    def __init__(
        self, model: PlanFormer, name: str, *, readout: str = "latent", title: str = "", batch: int = 32
    ) -> None:
        self.model, self.name, self.readout, self.batch = model, name, readout, batch
        self.title = title or name

    @property
    def identity(self) -> str:
        return f"encoder:{self.model.fingerprint}:{self.readout}"

    def features(self, data: TaskData, advance: Advance | None = None) -> Features:
        return self.both_readouts(data, advance)[self.readout]

    def both_readouts(self, data: TaskData, advance: Advance | None = None) -> dict[str, Features]:
        """One pass, both readouts: {"latent": [n, 256 c], "tokens": [n, 512 c]}."""
        pool = _both_pool(self.model)
        if data.is_images:
            values = self._images(pool, data, advance)
        else:
            values = self._items(pool, data, advance)
        width = 2 * self.model.config.dim
        latent, tokens = values[:, :, :width], values[:, :, width:]  # (n, channels, 256), (n, channels, 512)
        return {"latent": latent.reshape(len(latent), -1), "tokens": tokens.reshape(len(tokens), -1)}

    def _images(self, pool: Any, data: TaskData, advance: Advance | None) -> Features:
        rows = []
        for start in range(0, len(data), IMAGE_CHUNK):
            segments = prepare_images(data.items[start : start + IMAGE_CHUNK], self.model.config.preprocess)
            n, channels = segments.shape[:2]
            flat = segments.reshape(n * channels, 1, -1)  # (n * channels, 1, 5120)
            for first in range(0, len(flat), self.batch):
                rows.append(pool.read(pool.pool_rows(flat[first : first + self.batch], self.batch)))
            if advance:
                advance(n)
        return np.concatenate(rows).reshape(len(data), channels, -1)

    def _items(self, pool: Any, data: TaskData, advance: Advance | None) -> Features:
        from planformer.models import batching

        def sources() -> Iterator[Iterator[Segments]]:
            for item in data.items:
                yield batching.item_segments(
                    item, self.model.config.preprocess, rate=data.rate, kind=data.kind or None,
                    read=dict(data.read_options) or None,
                )  # fmt: skip

        rows = []
        for found in batching.embed_sources(pool, sources(), batch_size=self.batch, readout="latent"):
            rows.append(found.embedding.reshape(found.channels, -1))
            if advance:
                advance(1)
        return stack_channels(rows)

    def parameters(self) -> int:
        from planformer.models.inventory import count_parameters

        return count_parameters(self.model.encoder)["total"]

    def macs(self) -> dict[str, int] | None:
        return _encoder_macs(self.model.config)


@functools.lru_cache(maxsize=8)
def _encoder_macs(config: PlanFormerConfig) -> dict[str, int]:
    """Counted once for a configuration: the weights' values do not matter, and tracing takes seconds."""
    import torch

    from planformer.models.inventory import macs_all, macs_fvcore
    from planformer.models.planformer import PlanFormer

    encoder, segment = PlanFormer.random(0, config).encoder, torch.zeros(1, 2 * config.segment)
    counts = {"encoder_all": macs_all(encoder, segment)}
    # fvcore is not maintained and stumbles over operators it does not know; a table without its figure is still one.
    with contextlib.suppress(MissingExtraError, AssertionError, IndexError, RuntimeError):
        counts["encoder_fvcore"] = macs_fvcore(encoder, segment)
    return counts


def _both_pool(model: PlanFormer) -> Any:
    from planformer.models.readout import Partial, SegmentPool

    class BothReadouts(SegmentPool):
        """Both readouts side by side from the same contributions."""

        def read(self, parts: Partial, readout: Any = "latent") -> Features:
            return np.concatenate([super(BothReadouts, self).read(parts, r) for r in ("latent", "tokens")], axis=1)

    return BothReadouts(model.encoder)


def stack_channels(rows: list[Features]) -> Features:
    """Rows ``[channels, d]`` -> ``[n, channels, d]``; where items differ in channels, their mean over channels."""
    if len({row.shape[0] for row in rows}) > 1:
        rows = [row.mean(axis=0, keepdims=True) for row in rows]
    return np.stack(rows)


def item_segments(data: TaskData, config: PreprocessConfig | None = None) -> Iterator[tuple[Segments, bool]]:
    """Each item's prepared segments ``[channels, segments, 5120]``, and whether it was real before."""
    if not data.is_images:
        for index in range(len(data)):
            signal = data.signal(index)
            yield prepare(signal, config), signal.is_analytic
        return
    for start in range(0, len(data), IMAGE_CHUNK):
        for segments in prepare_images(data.items[start : start + IMAGE_CHUNK], config):
            yield segments, True


class SegmentFeatures(Featuriser):
    """A fixed formula on prepared segments, channel by channel."""

    version = 1

    def __init__(self, config: PreprocessConfig | None = None) -> None:
        self.config = config

    @property
    def identity(self) -> str:
        settings = "default" if self.config is None else self.config.model_dump_json()
        return f"{self.name}:v{self.version}:{settings}"

    @abstractmethod
    def channel_features(self, segments: Segments, *, analytic: bool) -> Features:
        """Segments ``[channels, S, 5120]`` -> ``[channels, d]``; ``analytic`` if only the real part was measured."""

    def prepare_formula(self, data: TaskData) -> None:
        """Look at (unlabelled) items once before the first call, if the formula has to."""

    def features(self, data: TaskData, advance: Advance | None = None) -> Features:
        self.prepare_formula(data)
        rows = []
        for segments, analytic in item_segments(data, self.config):
            rows.append(np.asarray(self.channel_features(segments, analytic=analytic), dtype=np.float32))
            if advance:
                advance(1)
        stacked = stack_channels(rows)
        return stacked.reshape(len(stacked), -1)
