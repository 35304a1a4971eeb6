"""The public model: any signal of any length to one embedding (paper, Appendix A.10 "Variable-Length Sequences").

>>> model = PlanFormer.random(seed=0)
>>> model.embed(np.sin(np.arange(8000) / 5), rate=8000, kind="audio").shape
(256,)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError

from planformer.config import PlanFormerConfig
from planformer.errors import InputError, PlanFormerError, WeightsError
from planformer.models import batching
from planformer.models.encoder import Encoder, EncoderOutput
from planformer.models.pretrained import resolve
from planformer.models.readout import Readout, SegmentPool
from planformer.models.weights import load_strict, read_component, state_sha256, write_component

if TYPE_CHECKING:
    from planformer.models.restoration import Restorer
    from planformer.signals import PreprocessConfig, Signal

ARCHITECTURE = "planformer-encoder"
Item = Any  # a path, an array, bytes or a Signal
OnError = Callable[[int, PlanFormerError], None]


class PlanFormer:
    """The frozen encoder with everything between a user's signal and its numbers.

    An item is a path (str or Path), an array (real or complex, ``[n]`` or ``[channels, n]``; an image ``[H, W(, 3)]``
    with ``kind="image"``), bytes (text), or a :class:`planformer.Signal`. Each channel gets its own embedding, and they
    are concatenated: 256 numbers for one channel, 768 for RGB or a three-component seismogram.
    """

    def __init__(
        self, encoder: Encoder, *, provenance: Mapping[str, Any] | None = None, folder: Path | None = None
    ) -> None:
        self.encoder = encoder.eval().requires_grad_(False)
        self.provenance: dict[str, Any] = dict(provenance or {})
        self.folder = folder  # where a decoder may lie beside the encoder

    # Where a model comes from ------------------------------------------------------------------------------------

    @classmethod
    def random(cls, seed: int = 0, config: PlanFormerConfig | None = None) -> PlanFormer:
        """The network untrained: the baseline for every trained one, and the same on any machine.

        >>> PlanFormer.random(3).fingerprint == PlanFormer.random(3).fingerprint
        True
        """
        with _own_generator(seed):
            encoder = Encoder(config or PlanFormerConfig())
        return cls(encoder, provenance={"weights": f"random:{seed}"})

    @classmethod
    def from_pretrained(cls, source: str | Path | None = None) -> PlanFormer:
        """Trained weights: shipped (None), shipped by name ("fingerprints"), a folder, or ``owner/name`` on the hub."""
        folder = resolve(source)
        stored = read_component(folder, "model", architecture=ARCHITECTURE)
        try:
            config = PlanFormerConfig.model_validate(stored.config)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise WeightsError(f"{folder}/config.json: {key or 'config'}: {first['msg']}") from error
        with _own_generator(0):
            encoder = Encoder(config)
        load_strict(encoder, stored.tensors, where=folder)
        return cls(encoder, provenance=stored.provenance, folder=folder)

    @classmethod
    def load(cls, source: PlanFormer | str | Path | None = None) -> PlanFormer:
        """Anything that names a model: one itself, None (shipped), "random", "random:SEED", a folder, a hub name."""
        if isinstance(source, PlanFormer):
            return source
        if isinstance(source, str) and source.split(":")[0] == "random":
            seed = source.partition(":")[2] or "0"
            if not seed.isdecimal():
                raise WeightsError(f"{source}: the seed after 'random:' is a whole number")
            return cls.random(int(seed))
        return cls.from_pretrained(source)

    def save_pretrained(self, folder: str | Path, provenance: Mapping[str, Any] | None = None) -> Path:
        """Write config.json, model.safetensors and provenance.json (hashes, versions, what you add) to ``folder``."""
        return write_component(
            folder,
            "model",
            self.encoder.state_dict(),
            self.config.model_dump(mode="json"),
            architecture=ARCHITECTURE,
            provenance={**self.provenance, **(provenance or {})},
        )

    # What it is --------------------------------------------------------------------------------------------------

    @property
    def config(self) -> PlanFormerConfig:
        return self.encoder.config

    @property
    def preprocess(self) -> PreprocessConfig:
        """How signals become segments for this network."""
        return self.config.preprocess.model_copy(update={"segment_length": self.config.segment})

    @property
    def device(self) -> torch.device:
        return next(self.encoder.parameters()).device

    def to(self, device: str | torch.device) -> PlanFormer:
        self.encoder.to(device)
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Hash of configuration and weights: equal fingerprints mean equal embeddings."""
        settings = json.dumps(self.config.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256((settings + state_sha256(self.encoder.state_dict())).encode()).hexdigest()

    def feature_names(self, readout: Readout = "latent") -> list[str]:
        """Names of one channel's numbers, in order."""
        parts = ("time", "frequency")
        if readout == "tokens":
            parts = tuple(f"{part}_{moment}" for part in parts for moment in ("mean", "std"))  # type: ignore[assignment]
        return [f"{part}_{i}" for part in parts for i in range(self.config.dim)]

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.encoder.state_dict().values())
        return f"PlanFormer({self.provenance.get('weights', 'trained')}, {count:,} numbers, {self.device})"

    def __sklearn_clone__(self) -> PlanFormer:
        return self  # frozen: a cloned pipeline may share it

    # What it does ------------------------------------------------------------------------------------------------

    def embed(
        self, x: Item, *, rate: float | None = None, kind: str | None = None, readout: Readout = "latent", **read: Any
    ) -> npt.NDArray[np.float32]:
        """One signal -> float32 ``[256 * channels]``, per channel ``[time 128, frequency 128]``.

        ``readout="tokens"`` gives mean and deviation of both domains' tokens instead (512 a channel). Further options
        go to :func:`planformer.read` for paths (``channels=``, ``first_frame=``, ``key=``).
        """
        found = next(self.iter_embed([x], rate=rate, kind=kind, readout=readout, **read))
        return found.embedding

    def embed_many(
        self,
        items: Iterable[Item],
        *,
        rate: float | None = None,
        kind: str | None = None,
        readout: Readout = "latent",
        batch_size: int = 64,
        progress: bool = False,
        **read: Any,
    ) -> npt.NDArray[np.float32]:
        """Many signals -> ``[n, 256 * channels]``. Segments of different items share a batch.

        >>> PlanFormer.random().embed_many([np.arange(10), np.arange(6000)]).shape
        (2, 256)
        """
        rows: list[npt.NDArray[np.float32]] = []
        results = self.iter_embed(items, rate=rate, kind=kind, readout=readout, batch_size=batch_size, **read)
        total = len(items) if isinstance(items, Sequence) else None
        for found in batching.with_progress(results, total, enabled=progress):
            if rows and rows[0].size != found.embedding.size:
                raise InputError(
                    f"item {found.index} has {found.channels} channels, those before had another number: embed them "
                    "apart, or choose with channels="
                )
            rows.append(found.embedding)
        width = len(self.feature_names(readout))
        return np.stack(rows) if rows else np.zeros((0, width), np.float32)

    def iter_embed(
        self,
        items: Iterable[Item],
        *,
        rate: float | None = None,
        kind: str | None = None,
        readout: Readout = "latent",
        batch_size: int = 64,
        on_error: OnError | None = None,
        **read: Any,
    ) -> Iterator[batching.Embedded]:
        """As :meth:`embed_many`, one result at a time and in order, with memory for one batch of segments.

        An item that can't be used raises, or goes to ``on_error(index, error)`` and is left out.
        """
        if batch_size < 1:
            raise InputError(f"batch_size is at least 1, not {batch_size}")
        if readout not in get_args(Readout):
            raise InputError(f"readout is one of {', '.join(get_args(Readout))}, not {readout!r}")

        def sources() -> Iterator[Iterator[npt.NDArray[np.complex64]]]:
            for item in items:
                yield batching.item_segments(item, self.preprocess, rate=rate, kind=kind, batch=batch_size, read=read)

        return batching.embed_sources(
            SegmentPool(self.encoder), sources(), batch_size=batch_size, readout=readout, on_error=on_error
        )

    def embed_segments(
        self, segments: npt.NDArray[np.complex64], *, readout: Readout = "latent", batch_size: int = 64
    ) -> npt.NDArray[np.float32]:
        """Prepared segments ``[n, segments, 5120]`` -> ``[n, 256]``: the fast path when preparation is done already.

        >>> PlanFormer.random().embed_segments(np.ones((2, 1, 5120), np.complex64)).shape
        (2, 256)
        """
        segments = np.ascontiguousarray(segments, dtype=np.complex64)
        if segments.ndim != 3 or segments.shape[2] != self.config.segment or not segments.shape[1]:
            raise InputError(f"segments have shape [n, segments, {self.config.segment}], not {list(segments.shape)}")
        pool = SegmentPool(self.encoder)
        rows = [np.zeros((0, len(self.feature_names(readout))), np.float32)]
        step = max(1, batch_size // segments.shape[1])
        for start in range(0, len(segments), step):
            chunk = segments[start : start + step]
            rows.append(pool.read(pool.pool_rows(chunk, batch_size), readout))
        return np.concatenate(rows)

    @torch.inference_mode()
    def encode(self, x: Item, *, rate: float | None = None, kind: str | None = None, **read: Any) -> EncoderOutput:
        """Tokens, latents and auxiliary terms of one signal; the batch axis counts its channels.

        Time tokens of all segments are concatenated, frequency tokens averaged; ``out.embedding`` equals
        :meth:`embed`. An array is taken as IQ or real samples as in :meth:`embed`.
        """
        blocks = batching.item_segments(x, self.preprocess, rate=rate, kind=kind, batch=64, read=read)
        return SegmentPool(self.encoder).encode(np.concatenate(list(blocks), axis=1))

    # With the decoder --------------------------------------------------------------------------------------------

    @cached_property
    def restorer(self) -> Restorer:
        """Encoder and decoder; an error in one line where the weights hold no decoder. Random with random weights."""
        from planformer.models.restoration import restorer_for

        return restorer_for(self.encoder, self.folder, str(self.provenance.get("weights", "")))

    def reconstruct(self, x: Item, *, rate: float | None = None, kind: str | None = None, **read: Any) -> Signal:
        """Encode and decode: a signal of the input's length, rate and scale.

        >>> PlanFormer.random().reconstruct(np.sin(np.arange(6000) / 5)).n
        6000
        """
        return self.restorer.run_item(x, "reconstruct", rate=rate, kind=kind, **read)[0]

    def denoise(
        self, x: Item, *, rate: float | None = None, kind: str | None = None, refined: bool = True, **read: Any
    ) -> Signal:
        """The signal without its noise, at its own length, rate and scale.

        The input passes the filter that the decoded waveform describes; ``refined=False`` gives the waveform itself.

        >>> PlanFormer.random().denoise(np.sin(np.arange(6000) / 5)).n
        6000
        """
        return self.restorer.variant(refined=refined).run_item(x, "denoise", rate=rate, kind=kind, **read)[0]

    def separate(
        self, x: Item, *, rate: float | None = None, kind: str | None = None, **read: Any
    ) -> tuple[Signal, Signal]:
        """A mixture of two sources -> (dominant, other)."""
        a, b = self.restorer.run_item(x, "separate", rate=rate, kind=kind, **read)
        return a, b


@contextmanager
def _own_generator(seed: int) -> Iterator[None]:
    """Build on the CPU in single precision from a seed of our own, and leave the caller's torch as it was."""
    dtype = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.set_default_dtype(torch.float32)
        try:
            torch.manual_seed(seed)
            yield
        finally:
            torch.set_default_dtype(dtype)
