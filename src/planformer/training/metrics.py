"""Metrics of a run: a plain ``metrics.jsonl`` (one object a line) and TensorBoard beside it.

After a resume the file holds each step once: what a killed process had logged past its last checkpoint is cut off.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from planformer.files import replace_file


class MetricsLog:
    """Appends records; ``kind`` is "step", "probe", "compass" or "event"."""

    def __init__(self, path: Path, *, tensorboard: Path | None = None) -> None:
        self.path = path
        self.lost = 0  # records since the last one that reached the disk
        self._file: TextIO | None = None
        self._board: Any = _tensorboard(tensorboard) if tensorboard is not None else None

    def cut_after(self, step: int) -> None:
        """Drop records of later steps, and a last line that was cut short."""
        if not self.path.is_file():
            return
        kept = [json.dumps(record) for record in read_metrics(self.path) if record.get("step", 0) <= step]
        text = "".join(line + "\n" for line in kept)
        replace_file(self.path, lambda path: _write_text(path, text))

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        record = {"kind": kind, "step": step, **{k: _plain(v) for k, v in values.items()}}
        self._append(json.dumps(record) + "\n")
        if self._board is not None:
            for key, value in record.items():
                if isinstance(value, float) and math.isfinite(value):
                    self._board.add_scalar(f"{kind}/{key}", value, step)

    def _append(self, line: str) -> None:
        """A full disk costs records, never the run; the first line after it starts anew."""
        try:
            if self._file is None:
                self._file = self.path.open("a", encoding="utf-8")
            self._file.write(("\n" if self.lost else "") + line)
            self._file.flush()
            self.lost = 0
        except OSError:
            self.lost += 1
            with suppress(OSError):
                if self._file is not None:
                    self._file.close()
            self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._board is not None:
            self._board.close()


def read_metrics(path: Path, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """Records of a metrics file; an unfinished last line is skipped."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and (kind is None or record.get("kind") == kind):
                yield record


def _plain(value: Any) -> Any:
    """JSON has no NaN; a missing number says so in words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # the extra "track" is optional; metrics.jsonl has everything
        return None
    return SummaryWriter(str(folder))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
