"""A `Source` is an opened file: its header, and a way to go through its samples block by block, any number of times.

Readers return sources, never whole arrays where they can help it; :func:`collect` turns one into a
:class:`~planformer.signals.Signal`, :mod:`planformer.signals.streaming` into segments with bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.signals.analytic import ComplexArray, analytic_blocks
from planformer.signals.checks import SampleCheck
from planformer.signals.signal import Kind, Signal

BLOCK_SAMPLES = 1 << 18  # what a reader should hand out at a time


@dataclass(frozen=True)
class Source:
    """``blocks()`` yields ``[channels, k]``; real blocks still have to become analytic (``real=True``).

    ``report`` is called after the last block for what is only known then (gaps, frames counted).
    """

    name: str
    kind: Kind
    rate: float
    channels: int
    real: bool
    blocks: Callable[[], Iterator[npt.NDArray[Any]]]
    provenance: Mapping[str, Any]
    report: Callable[[], Mapping[str, Any]] = dict

    def complex_blocks(self) -> Iterator[ComplexArray]:
        """Checked complex blocks; raises after the last one if the whole was constant or empty."""
        check = SampleCheck(self.name)
        checked = (check.block(block) for block in self.blocks())
        yield from (analytic_blocks(checked) if self.real else checked)
        check.finish()


def choose_channels(source: Source, channels: str | int | None) -> Source:
    """Keep ``"each"`` channel, the mean of them (``"mix"``), or the one with the given number.

    None mixes sound down and keeps everything else, as a stereo pair is one scene but three components are not.
    """
    if channels is None:
        channels = "mix" if source.kind == "audio" else "each"
    if isinstance(channels, str) and channels.lstrip("-").isdigit():
        channels = int(channels)
    if channels == "each" or (channels == "mix" and source.channels == 1):
        return source
    blocks = source.blocks
    if channels == "mix":

        def mixed() -> Iterator[npt.NDArray[Any]]:
            for block in blocks():
                yield block.mean(axis=0, keepdims=True, dtype=np.complex64 if np.iscomplexobj(block) else np.float32)

        return replace(
            source, blocks=mixed, channels=1, provenance={**source.provenance, "mixed_from": source.channels}
        )
    if not isinstance(channels, int):
        raise InputError(f"channels {channels!r}: use 'each', 'mix' or a channel number from 0")
    index = channels
    if not 0 <= index < source.channels:
        raise InputError(f"{source.name}: no channel {index}; it has {source.channels}, numbered from 0")

    def chosen() -> Iterator[npt.NDArray[Any]]:
        for block in blocks():
            yield block[index : index + 1]

    return replace(source, blocks=chosen, channels=1, provenance={**source.provenance, "channel": index})


def collect(source: Source) -> Signal:
    """Go through a source once and keep everything."""
    parts = list(source.complex_blocks())
    samples = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    analytic = source.real or bool(source.provenance.get("analytic", False))
    provenance = {"source": source.name, **source.provenance, **source.report(), "analytic": analytic}
    return Signal(samples, source.rate, source.kind, provenance)
