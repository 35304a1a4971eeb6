"""Restore a file into a file of the same format: sound and SigMF block by block, everything else at once.

A ten-minute recording needs the memory of a few segments: blocks are read, restored and written in turn. Where two
sources come out at a time, each waits in a temporary file beside its target.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from planformer.errors import InputError
from planformer.models.overlap import ComplexArray
from planformer.models.restoration import Restorer, Task
from planformer.signals import write
from planformer.signals.reading import open_source
from planformer.signals.replacing import replacing
from planformer.signals.sigmf_files import write_sigmf_blocks
from planformer.signals.sniff import by_suffix, suffix_of
from planformer.signals.source import Source, collect
from planformer.signals.writers import SUFFIX_OF_KIND, sigmf_metadata

Progress = Callable[[int], None]
NUM_SOURCES: dict[Task, int] = {"reconstruct": 1, "denoise": 1, "separate": 2}


def target_paths(path: str | Path, source: Source, task: Task) -> list[Path]:
    """Where the outputs go: the input's suffix where none is given, and ``-a``, ``-b`` for two sources."""
    path = Path(path)
    own = suffix_of(Path(source.name)) or SUFFIX_OF_KIND[source.kind]
    if not suffix_of(path):
        path = path.with_name(path.name + own)
    suffix = suffix_of(path)
    stem = path.name[: -len(suffix)]
    names = [path.name] if NUM_SOURCES[task] == 1 else [f"{stem}-a{suffix}", f"{stem}-b{suffix}"]
    targets = [path.with_name(name) for name in names]
    if any(target.exists() and target.samefile(source.name) for target in targets if Path(source.name).exists()):
        raise InputError(f"{path}: is the input itself; choose another name for the output")
    if by_suffix(suffix) == "image" and source.kind != "image":  # the writer says so too, but only after the work
        raise InputError(f"{path}: a signal of kind {source.kind} has no picture size; name it {stem}{own}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.absolute().parent}; make it first")
    return targets


def restore_file(
    restorer: Restorer,
    task: Task,
    path: str | Path,
    output: str | Path,
    *,
    batch_size: int = 16,
    progress: Progress | None = None,
    **read: Any,
) -> list[Path]:
    """Restore ``path`` into ``output``; returns what was written. ``read`` holds the reader's options (kind, rate)."""
    source = open_source(path, **{"channels": "each", **read})
    targets = target_paths(output, source, task)
    if not _streams(source, targets[0]):
        signal = collect(source)
        restored = restorer.run(signal, task, batch_size=batch_size)
        return [write(target, out, template=signal) for target, out in zip(targets, restored, strict=True)]
    # The signal itself says whether it was real, and only real signals have a mean that is removed.
    blocks = restorer.stream_blocks(
        SourceBlocks(source),
        task,
        remove_mean=source.real and restorer.preprocess.remove_mean,
        short=restorer.preprocess.short,
        batch_size=batch_size,
    )
    reported = _reporting(blocks, progress)
    if len(targets) == 1:
        return [write_blocks(targets[0], (block[0] for block in reported), source)]
    return _through_spools(targets, reported, source)


@dataclass(frozen=True)
class SourceBlocks:
    """A file's blocks ``[channels, k]``, from its beginning each time they are asked for."""

    source: Source

    def __iter__(self) -> Iterator[ComplexArray]:
        return self.source.complex_blocks()


def write_blocks(target: Path, blocks: Iterable[ComplexArray], source: Source) -> Path:
    """Write blocks ``[channels, k]`` as sound or SigMF, with what the source says about its format."""
    if by_suffix(suffix_of(target)) == "audio":
        return _write_sound(target, blocks, source)
    header = source.provenance.get("global", {})
    return write_sigmf_blocks(
        target,
        (block.real if source.real else block for block in blocks),
        source.rate,
        source.provenance["datatype"],
        sigmf_metadata(source.provenance, np.iinfo(np.int64).max),
        channels=source.channels,
        scale=float(header.get("planformer:scale", 1.0)),
    )


def _streams(source: Source, target: Path) -> bool:
    """Sound into the same sound format, a recording into a recording."""
    form = by_suffix(suffix_of(target))
    if form == "audio" and source.kind == "audio":
        return suffix_of(target) == suffix_of(Path(source.name))
    return form == "sigmf" and source.provenance.get("format") == "sigmf"


def _write_sound(target: Path, blocks: Iterable[ComplexArray], source: Source) -> Path:
    import soundfile

    form, subtype = source.provenance["format"], source.provenance["subtype"]
    with (
        replacing(target) as temporary,
        soundfile.SoundFile(
            str(temporary), "w", round(source.rate), source.channels, subtype=subtype, format=form
        ) as file,
    ):
        for block in blocks:
            file.write(np.ascontiguousarray(block.real.T))  # integer formats clip at full scale
    return target


def _through_spools(targets: list[Path], blocks: Iterable[ComplexArray], source: Source) -> list[Path]:
    with ExitStack() as stack:
        spools = [stack.enter_context(tempfile.TemporaryFile(dir=target.absolute().parent)) for target in targets]
        longest = 0
        for block in blocks:
            longest = max(longest, block.shape[-1])
            for spool, samples in zip(spools, block, strict=True):
                spool.write(np.ascontiguousarray(samples.T).tobytes())  # (k, channels)
        return [
            write_blocks(target, _from_spool(spool, source.channels, longest), source)
            for target, spool in zip(targets, spools, strict=True)
        ]


def _from_spool(spool: IO[bytes], channels: int, samples: int) -> Iterator[ComplexArray]:
    spool.seek(0)
    while raw := spool.read(samples * channels * np.dtype(np.complex64).itemsize):
        yield np.frombuffer(raw, np.complex64).reshape(-1, channels).T


def _reporting(blocks: Iterable[ComplexArray], progress: Progress | None) -> Iterator[ComplexArray]:
    for block in blocks:
        yield block
        if progress is not None:
            progress(block.shape[-1])
