"""A stream gives the offline answer for any chunking, in constant memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer import PlanFormer, PlanFormerConfig, StreamingEmbedder
from planformer.deploy import streaming
from planformer.errors import ConfigError, InputError
from planformer.signals import PreprocessConfig
from planformer.signals import analytic as offline_hilbert

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)  # segments of 1,280 samples


@pytest.fixture(scope="module")
def small() -> PlanFormer:
    return PlanFormer.random(seed=0, config=SMALL)


def real(n: int, seed: int = 0, channels: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((channels, n)).astype(np.float32)
    return x[0] if channels == 1 else x


def iq(n: int, seed: int = 0) -> np.ndarray:
    return (real(n, seed) + 1j * real(n, seed + 99)).astype(np.complex64)


def pieces(x: np.ndarray, cuts: list[int]) -> list[np.ndarray]:
    return np.split(x, sorted(min(c, x.shape[-1]) for c in cuts), axis=-1)


chunkings = st.lists(st.integers(0, 6000), max_size=8)


@settings(max_examples=12, deadline=None)
@given(n=st.integers(2, 6000), cuts=chunkings, complex_=st.booleans(), seed=st.integers(0, 9))
def test_any_chunking_equals_offline(n: int, cuts: list[int], complex_: bool, seed: int) -> None:
    model = PlanFormer.random(seed=0, config=SMALL)
    x, kind = (iq(n, seed), "iq") if complex_ else (real(n, seed), "audio")
    stream = StreamingEmbedder(model, rate=8000, kind=kind)
    for piece in pieces(x, cuts):
        stream.push(piece)
    assert stream.samples == n
    np.testing.assert_allclose(stream.embedding(), model.embed(x, rate=8000, kind=kind), atol=1e-5)


@pytest.mark.parametrize("short", ["pad", "tile", "resample"])
def test_every_moment_equals_offline(short: str) -> None:
    config = SMALL.model_copy(update={"preprocess": PreprocessConfig(short=short)})  # type: ignore[arg-type]
    model = PlanFormer.random(seed=0, config=config)
    x = real(4000, channels=2)
    stream = StreamingEmbedder(model, rate=100, kind="seismic", channels=2)
    for start in range(0, 4000, 900):
        stream.push(x[:, start : start + 900])
        so_far = x[:, : start + 900]
        expected = model.embed(so_far, rate=100, kind="seismic")
        np.testing.assert_allclose(stream.embedding(), expected, atol=1e-5)
        np.testing.assert_allclose(stream.embedding(), expected, atol=1e-5)  # asking changes nothing


@pytest.mark.parametrize("n", [4001, 5000, 5500, 5501, 9001, 20_000])
def test_long_real_streams_follow_the_offline_grid(monkeypatch: pytest.MonkeyPatch, small: PlanFormer, n: int) -> None:
    """The grid made small, so that a test crosses several blocks."""
    for module in (streaming, offline_hilbert.__globals__):
        target = module if isinstance(module, dict) else vars(module)
        monkeypatch.setitem(target, "BLOCK", 4000)
        monkeypatch.setitem(target, "MARGIN", 1500)
    x = real(n)
    stream = StreamingEmbedder(small, kind="array")
    for start in range(0, n, 777):
        stream.push(x[start : start + 777])
    np.testing.assert_allclose(stream.embedding(), small.embed(x), atol=1e-5)
    assert stream._analytic is not None
    assert stream._analytic._held().shape[1] <= 4000 + 2 * 1500 + 777


def test_readout_tokens(small: PlanFormer) -> None:
    x = iq(5000)
    stream = StreamingEmbedder(small, readout="tokens")
    for piece in pieces(x, [100, 4000]):
        stream.push(piece)
    np.testing.assert_allclose(stream.embedding(), small.embed(x, kind="iq", readout="tokens"), atol=1e-5)


def test_memory_is_constant(small: PlanFormer) -> None:
    stream = StreamingEmbedder(small, kind="audio", hilbert="local")
    held = []
    for i in range(40):
        stream.push(real(1000, i))
        assert stream._analytic is not None
        held.append(stream._analytic._held().shape[1] + stream._tail.shape[1])
    assert max(held[20:]) <= 2 * streaming.LOCAL_MARGIN + 2 * 1280 + 1000


def test_local_hilbert_is_close_and_bounded() -> None:
    """The figure in docs/streaming.md: on white noise and on tones above 1/1,000 of the rate."""
    n = 60_000
    signals = [real(n), *(np.sin(2 * np.pi * f * np.arange(n)).astype(np.float32) for f in (0.001, 0.01, 0.3))]
    for x in signals:
        grid = streaming._GridHilbert(1, 5120, streaming.LOCAL_MARGIN)
        local = np.concatenate([grid.push(x[None, :30_000]), grid.push(x[None, 30_000:]), grid.rest()], axis=1)[0]
        whole = offline_hilbert(x)
        inner = slice(5000, -5000)
        error = np.sqrt(np.mean(np.abs(local - whole)[inner] ** 2) / np.mean(np.abs(whole[inner]) ** 2))
        assert error < 0.03
        np.testing.assert_array_equal(local.real, x)


def test_local_embedding_is_close(small: PlanFormer) -> None:
    x = real(30_000)
    stream = StreamingEmbedder(small, kind="audio", rate=8000, hilbert="local")
    stream.push(x)
    z, exact = stream.embedding(), small.embed(x, rate=8000, kind="audio")
    assert float(z @ exact / np.linalg.norm(z) / np.linalg.norm(exact)) > 0.999


@settings(max_examples=6, deadline=None)
@given(cuts=chunkings, hop=st.sampled_from([0.05, 0.2, 0.35]))
def test_windows_equal_their_own_samples(cuts: list[int], hop: float) -> None:
    model = PlanFormer.random(seed=0, config=SMALL)
    x = real(6000)
    windows = StreamingEmbedder(model, rate=8000, kind="audio").windowed(0.2, hop)
    found = [result for piece in pieces(x, cuts) for result in windows.push(piece)]
    starts = range(0, 6000 - 1600 + 1, round(hop * 8000))
    assert [round(start * 8000) for start, _ in found] == list(starts)
    for (_, z), start in list(zip(found, starts, strict=True))[::4]:
        np.testing.assert_allclose(z, model.embed(x[start : start + 1600], rate=8000, kind="audio"), atol=1e-5)


def test_silence_does_not_end_windows(small: PlanFormer) -> None:
    windows = StreamingEmbedder(small, rate=100, kind="audio").windowed(1.0)
    found = windows.push(np.concatenate([np.zeros(100), real(100)]))
    assert not found[0][1].any()
    assert found[1][1].any()


def test_reset(small: PlanFormer) -> None:
    stream = StreamingEmbedder(small, kind="array")
    stream.push(real(3000))
    stream.reset()
    stream.push(iq(2000))  # a new signal may be of the other kind
    np.testing.assert_allclose(stream.embedding(), small.embed(iq(2000)), atol=1e-5)
    assert stream.samples == 2000


def test_bad_input(small: PlanFormer) -> None:
    stream = StreamingEmbedder(small, kind="iq")
    with pytest.raises(InputError, match="no samples"):
        stream.embedding()
    for chunk in (real(5), [np.nan + 0j], np.zeros((2, 5), complex), ["a"], np.zeros((1, 2, 3), complex)):
        with pytest.raises(InputError):
            stream.push(chunk)
    stream.push([])
    with pytest.raises(InputError, match="every sample is zero"):
        stream.push(np.zeros(9, complex))
        stream.embedding()
    with pytest.raises(InputError, match="not a stream"):
        StreamingEmbedder(small, kind="image")
    with pytest.raises(InputError):
        StreamingEmbedder(small, rate=0)
    with pytest.raises(InputError, match="rate"):
        StreamingEmbedder(small).windowed(1)
    with pytest.raises(InputError, match="too short"):
        StreamingEmbedder(small, rate=1).windowed(1)
    mixed = StreamingEmbedder(small, kind="array")
    mixed.push([1.0, 2.0])
    with pytest.raises(InputError, match="other"):
        mixed.push([1j])
    config = SMALL.model_copy(update={"preprocess": PreprocessConfig(normalise="signal")})
    with pytest.raises(ConfigError, match="whole signal"):
        StreamingEmbedder(PlanFormer.random(config=config))
