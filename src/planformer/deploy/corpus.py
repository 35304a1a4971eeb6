"""Files to rows: the one function that every engine of ``planformer embed`` maps over its files.

>>> from planformer.models.planformer import PlanFormer
>>> import tempfile, pathlib
>>> file = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
>>> _ = file.write_text("any bytes are a signal")
>>> [row] = embed_rows(PlanFormer.random(), [file], RowOptions())
>>> row.kind, row.channels, row.segments, row.embedding.shape
('text', 1, 1, (256,))
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from planformer.errors import PlanFormerError

if TYPE_CHECKING:
    from planformer.models.planformer import PlanFormer


@dataclass(frozen=True)
class RowOptions:
    """What the rows depend on, beside the weights, and how many segments go through the network at once."""

    channels: str | None = None
    kind: str | None = None
    rate: float | None = None
    readout: str = "latent"
    batch_size: int = 64

    def settings(self) -> dict[str, Any]:
        """The part that changes the numbers: rows of other settings can't share a table."""
        return {"channels": self.channels, "kind": self.kind, "rate": self.rate, "readout": self.readout}


@dataclass(frozen=True)
class Row:
    """One file: its embedding and what it was made of, or the error that kept it from one."""

    path: str
    kind: str = ""
    channels: int = 0
    segments: int = 0
    embedding: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    error: PlanFormerError | None = None


def embed_rows(
    model: PlanFormer, paths: Sequence[str | Path], options: RowOptions, *, keep_going: bool = False
) -> Generator[Row, None, None]:
    """One row per file. The first bad file raises after the rows before it, or becomes a row with its error."""
    from planformer.signals.reading import open_source

    bad: list[Row] = []

    def note(index: int, error: PlanFormerError) -> None:
        bad.append(Row(str(paths[index]), error=error))

    read = {} if options.channels is None else {"channels": options.channels}
    results = model.iter_embed(
        paths,
        kind=options.kind,
        rate=options.rate,
        readout=options.readout,  # type: ignore[arg-type]
        batch_size=options.batch_size,
        on_error=note if keep_going else None,
        **read,
    )
    for found in results:
        while bad:
            yield bad.pop(0)
        path = str(paths[found.index])
        kind = open_source(path, options.kind).kind  # type: ignore[arg-type]
        yield Row(path, kind, found.channels, found.segments, found.embedding)
    yield from bad
