"""What a person sees while a run goes on: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any


class Display:
    """Step, loss, samples per second, time left, processes and the last probe, on standard error."""

    def __init__(self, total: int, *, world: int, enabled: bool = True, plain_seconds: float = 30.0) -> None:
        self.total, self.world, self.enabled = total, world, enabled
        self.plain_seconds, self._last_line = plain_seconds, 0.0
        self.probe = "-"
        self._progress: Any = None
        if enabled and sys.stderr.isatty():
            self._progress = _progress_bar()
            self._task = self._progress.add_task("pretrain", total=total, info="")
            self._progress.start()

    def update(self, step: int, values: dict[str, Any]) -> None:
        """Called once a step with the step's metrics."""
        if not self.enabled:
            return
        line = self._line(values)
        if self._progress is not None:
            self._progress.update(self._task, completed=step, info=line)
        elif time.monotonic() - self._last_line > self.plain_seconds or step >= self.total:
            self._last_line = time.monotonic()
            left = (self.total - step) * float(values.get("seconds", 0.0))
            print(f"step {step}/{self.total}  {line}  {_duration(left)} left", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """A line that stays."""
        if not self.enabled:
            return
        if self._progress is not None:
            self._progress.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _line(self, values: dict[str, Any]) -> str:
        return (
            f"loss {float(values.get('loss', 0.0)):.3f}  {float(values.get('samples_per_second', 0.0)):.1f} samples/s  "
            f"{self.world} process{'es' if self.world > 1 else ''}  probe {self.probe}"
        )


def _progress_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[info]}"),
        console=Console(stderr=True),
    )


def _duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {int(seconds % 60):02d} s"
