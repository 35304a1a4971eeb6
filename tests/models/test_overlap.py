"""Overlapping segments: exact length, no step at a border, any blocks, bounded memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from planformer.models.overlap import cut, fade, overlap_add

LENGTH, OVERLAP = 64, 16


def signal(n: int, channels: int = 1) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(channels, n)) + 1j * rng.normal(size=(channels, n))).astype(np.complex64)


def joined(blocks: list[np.ndarray], process: object = lambda s: s[None]) -> np.ndarray:
    parts = overlap_add(blocks, process, length=LENGTH, overlap=OVERLAP, batch=3)  # type: ignore[arg-type]
    return np.concatenate(list(parts), axis=-1)


@pytest.mark.parametrize("n", [64, 65, 80, 111, 112, 113, 160, 1000])
def test_identity_gives_the_signal_back(n: int) -> None:
    x = signal(n, channels=2)
    np.testing.assert_allclose(joined([x])[0], x, atol=1e-6)


@pytest.mark.parametrize("size", [1, 7, 64, 300])
def test_blocks_of_any_size_give_the_same(size: int) -> None:
    x = signal(500)
    blocks = [x[:, i : i + size] for i in range(0, 500, size)]
    np.testing.assert_array_equal(joined(blocks), joined([x]))


def test_sources_are_kept_apart() -> None:
    x = signal(300)
    both = joined([x], lambda s: np.stack([s, 2 * s]))
    np.testing.assert_allclose(both[1], 2 * x, atol=1e-5)


def test_no_step_at_a_border_where_plain_concatenation_has_one() -> None:
    """Every second segment gets another gain: the worst a network does between neighbours."""
    x = np.ones((1, 1000), np.complex64)
    count = [0]

    def uneven(segments: np.ndarray) -> np.ndarray:
        gains = [1.0 + (count[0] + k) % 2 for k in range(len(segments))]
        count[0] += len(segments)
        return (segments * np.array(gains)[:, None, None])[None]

    y = joined([x], uneven)[0, 0].real
    assert set(np.round(y, 3)) >= {1.0, 2.0}
    assert np.abs(np.diff(y)).max() < 1.1 * np.diff(fade(OVERLAP)).max()  # not 1, the plain step


def test_last_segment_reaches_back_instead_of_being_padded() -> None:
    pieces = list(cut([signal(100)], LENGTH, OVERLAP))
    assert [p.fresh for p in pieces] == [0, 12]
    np.testing.assert_array_equal(pieces[-1].samples, signal(100)[:, -LENGTH:])


def test_too_short_a_signal_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 64"):
        list(cut([signal(63)], LENGTH, OVERLAP))


def test_too_large_an_overlap_is_refused() -> None:
    with pytest.raises(ValueError, match="overlap of 40"):
        list(overlap_add([signal(100)], lambda s: s[None], length=64, overlap=40))


def test_memory_does_not_grow_with_the_signal() -> None:
    def peak(blocks: int) -> int:
        x = signal(1000)
        tracemalloc.start()
        for _ in overlap_add((x for _ in range(blocks)), lambda s: s[None], length=LENGTH, overlap=OVERLAP):
            pass
        _, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return top

    assert peak(200) < 1.2 * peak(20)
