"""A signal that is still arriving: push chunks of any size, ask for the embedding at any moment (paper, Appendix A.10).

Segments pass the network once, as soon as no later sample can change them; what they contribute is one running state,
so memory does not grow. IQ samples can be used at once. A real signal first becomes analytic, and the Hilbert transform
of a sample depends on its neighbours; two choices (docs/streaming.md has the measured difference):

``hilbert="exact"``  the transform of the offline path, on its grid of 1,048,576 samples. Equals ``model.embed`` of the
                     same samples to rounding. Up to one block is held, and passes the network again at each question.
``hilbert="local"``  a grid of one segment with 4,096 samples of context on both sides. A question costs three segments,
                     whatever the length; differs slightly from the offline result.

>>> from planformer import PlanFormer
>>> model = PlanFormer.random()
>>> stream = StreamingEmbedder(model, rate=8000, kind="audio")
>>> x = np.sin(np.arange(6000) / 5)
>>> for chunk in np.split(x, 10):
...     stream.push(chunk)
>>> bool(np.allclose(stream.embedding(), model.embed(x, rate=8000, kind="audio"), atol=1e-5))
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from planformer.errors import ConfigError, InputError
from planformer.models.readout import Partial, Readout, SegmentPool
from planformer.signals.analytic import BLOCK, MARGIN, hilbert
from planformer.signals.checks import SampleCheck
from planformer.signals.preprocess import segments as cut_segments

if TYPE_CHECKING:
    from planformer.models.planformer import PlanFormer

Hilbert = Literal["exact", "local"]
LOCAL_MARGIN = 4096
KINDS = ("iq", "audio", "seismic", "array")
Complex = npt.NDArray[np.complex64]
Floats = npt.NDArray[np.float32]


class StreamingEmbedder:
    """One signal, arriving in chunks.

    Args:
        model: the encoder.
        rate: samples per second, for :meth:`windowed` and :attr:`seconds`.
        kind: "iq" (complex samples), "audio", "seismic" or "array" (real or complex).
        channels: each gets its own embedding; they are concatenated.
        hilbert: "exact" or "local", see the module's text; no difference for complex samples.
        batch_size: segments that go through the network at once.
    """

    def __init__(
        self,
        model: PlanFormer,
        *,
        rate: float | None = None,
        kind: str = "iq",
        channels: int = 1,
        hilbert: Hilbert = "exact",
        readout: Readout = "latent",
        batch_size: int = 16,
    ) -> None:
        for name, value, allowed in (("hilbert", hilbert, get_args(Hilbert)), ("readout", readout, get_args(Readout))):
            if value not in allowed:
                raise InputError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
        if kind not in KINDS:
            raise InputError(f"kind {kind!r} is not a stream: use one of {', '.join(KINDS)}")
        if channels < 1 or (rate is not None and not rate > 0):
            raise InputError(f"a stream needs at least one channel and a positive rate, not {channels} and {rate}")
        if model.preprocess.normalise == "signal":
            raise ConfigError("normalise='signal' needs the whole signal: a stream can't be normalised by it")
        self.model, self.rate, self.kind, self.channels = model, rate, kind, channels
        self.hilbert, self.readout, self.batch_size = hilbert, readout, batch_size
        self._pool = SegmentPool(model.encoder)
        self._preprocess = model.preprocess
        self._analytic: _GridHilbert | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything pushed so far."""
        self.samples = 0
        self._is_real: bool | None = None
        self._check = SampleCheck("stream")
        self._state: Partial | None = None
        self._tail: Complex = np.zeros((self.channels, 0), np.complex64)

    @property
    def seconds(self) -> float:
        """How much has been pushed."""
        return self.samples / (self.rate or 1.0)

    @property
    def silent(self) -> bool:
        """True while nothing but one constant value has arrived: there is nothing to embed yet."""
        try:
            self._check.finish()
        except InputError:
            return True
        return False

    def push(self, samples: npt.ArrayLike) -> None:
        """Add a chunk ``[n]`` or ``[channels, n]``; any n, also none."""
        x = self._checked(np.asarray(samples))
        if not x.shape[1]:
            return
        self.samples += x.shape[1]
        ready = x if self._analytic is None else self._analytic.push(x)
        self._tail = np.concatenate((self._tail, ready), axis=1)
        length = self._preprocess.segment_length
        whole = self._tail.shape[1] // length * length
        if whole:
            self._state = self._merge(self._state, self._tail[:, :whole])
            self._tail = self._tail[:, whole:].copy()

    def embedding(self) -> npt.NDArray[np.float32]:
        """The embedding ``[256 * channels]`` of everything pushed so far. Asking changes nothing."""
        self._check.finish()
        rest = self._tail
        if self._analytic is not None:
            rest = np.concatenate((rest, self._analytic.rest()), axis=1)
        state = self._merge(self._state, rest) if rest.shape[1] else self._state
        assert state is not None  # the check above refuses an empty stream
        return self._pool.read(state, self.readout).reshape(-1)

    def windowed(self, seconds: float, hop: float | None = None) -> WindowedEmbedder:
        """A stream of the same settings that gives one embedding per interval of ``seconds``, every ``hop`` seconds."""
        if self.rate is None:
            raise InputError("windows in seconds need a rate: StreamingEmbedder(model, rate=...)")
        length, step = round(seconds * self.rate), round((seconds if hop is None else hop) * self.rate)
        return WindowedEmbedder(self, length, step)

    def _checked(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if x.ndim == 1 and self.channels == 1:
            x = x[None]
        if x.ndim != 2 or x.shape[0] != self.channels or x.dtype.kind not in "iufcb":
            raise InputError(
                f"a chunk is numbers [n] or [channels, n] with {self.channels} channels, not {x.dtype} {list(x.shape)}"
            )
        if not x.shape[1]:
            return self._check.block(x)
        is_real = not np.iscomplexobj(x)
        if is_real and self.kind == "iq":
            raise InputError("an IQ stream takes complex samples; for real ones use kind='audio' or 'array'")
        if self._is_real is not None and is_real != self._is_real:
            raise InputError("a stream is real or complex from its first chunk on; this chunk is the other")
        checked = self._check.block(x)
        if self._is_real is None:
            self._is_real = is_real
            self._analytic = self._new_hilbert() if is_real else None
        return checked

    def _new_hilbert(self) -> _GridHilbert:
        if self.hilbert == "exact":
            return _GridHilbert(self.channels, BLOCK, MARGIN)
        return _GridHilbert(self.channels, self._preprocess.segment_length, LOCAL_MARGIN)

    def _merge(self, state: Partial | None, samples: Complex) -> Partial:
        """Add complex samples ``[channels, n]`` (the last segment may be short) to a state of one row per channel."""
        removes_mean = self._preprocess.remove_mean and bool(self._is_real)
        for block in cut_segments([samples], self._preprocess, removes_mean=removes_mean):  # [channels, k, 5120]
            part = self._pool.pool_rows(block, self.batch_size)
            rows = list(range(self.channels))
            state = part if state is None else self._pool.reduce(Partial.stack([state, part]), rows * 2, self.channels)
        assert state is not None
        return state


class _GridHilbert:
    """Analytic samples as soon as no later one can change them: blocks on a fixed grid, each with context."""

    def __init__(self, channels: int, block: int, margin: int) -> None:
        self.block, self.margin = block, margin
        self._parts: list[Floats] = []
        self._channels = channels
        self._start = self._stop = 0  # sample numbers held
        self._index = 0  # next block of the grid

    def push(self, x: Floats) -> Complex:
        """Hold ``[channels, n]`` and return the blocks that are final now."""
        self._parts.append(x.copy())
        self._stop += x.shape[1]
        done: list[Complex] = [np.zeros((self._channels, 0), np.complex64)]
        while self._stop > (self._index + 1) * self.block + self.margin:
            done.append(self._grid_block(self._held(), self._index))
            self._index += 1
            keep = max(self._start, self._index * self.block - self.margin)
            self._parts = [self._held()[:, keep - self._start :].copy()]
            self._start = keep
        return np.concatenate(done, axis=1)

    def rest(self) -> Complex:
        """What the samples after the last final block would be if the signal ended here."""
        x = self._held()
        if self._stop <= self.block:
            return hilbert(x)
        last = -(-self._stop // self.block)
        blocks = [self._grid_block(x, index) for index in range(self._index, last)]
        return np.concatenate([np.zeros((self._channels, 0), np.complex64), *blocks], axis=1)

    def _held(self) -> Floats:
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts, axis=1)]
        return self._parts[0] if self._parts else np.zeros((self._channels, 0), np.float32)

    def _grid_block(self, x: Floats, index: int) -> Complex:
        first, last = index * self.block, min((index + 1) * self.block, self._stop)
        low, high = max(0, first - self.margin), min(self._stop, (index + 1) * self.block + self.margin)
        return hilbert(x[:, low - self._start : high - self._start])[:, first - low : last - low]


class WindowedEmbedder:
    """One embedding per interval; each equals ``model.embed`` of that interval's samples alone."""

    def __init__(self, stream: StreamingEmbedder, length: int, step: int) -> None:
        if length < 2 or step < 1:
            raise InputError(f"a window of {length} samples every {step} is too short")
        self._stream, self.length, self.step = stream, length, step
        self._held: npt.NDArray[Any] | None = None
        self._base = 0  # sample number of the first one held
        self._start = 0  # sample number of the next window

    def push(self, samples: npt.ArrayLike) -> list[tuple[float, npt.NDArray[np.float32]]]:
        """Add a chunk; returns ``(start in seconds, embedding)`` of every window that it completes.

        A window without any variation (silence) gives zeros, so that a pause does not end the stream.
        """
        x = self._stream._checked(np.asarray(samples))
        held = x.copy() if self._held is None else np.concatenate((self._held, x), axis=1)
        end = self._base + held.shape[1]
        found = []
        while self._start + self.length <= end:
            offset = self._start - self._base
            window = held[:, offset : offset + self.length]
            found.append((self._start / (self._stream.rate or 1.0), self._embed(window)))
            self._start += self.step
        drop = min(self._start, end) - self._base
        self._held, self._base = held[:, drop:].copy(), self._base + drop
        return found

    def _embed(self, window: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        stream = self._stream
        if (window == window[:, :1]).all():
            return np.zeros(stream.channels * len(stream.model.feature_names(stream.readout)), np.float32)
        return stream.model.embed(window, rate=stream.rate, kind=stream.kind, readout=stream.readout)
