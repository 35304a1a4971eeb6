"""Progress and results of an evaluation on the terminal: bars on standard error, nothing when it is not one."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from planformer.evaluation.run import AGAINST, Evaluation


class ConsoleReporter:
    """A :class:`planformer.evaluation.run.Reporter` that draws one bar for the method that is running."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self.progress = Progress(*columns, console=self.console, transient=True)
        self.current = self.progress.add_task("starting", total=None)

    def __enter__(self) -> ConsoleReporter:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def start(self, what: str, total: int) -> None:
        self.progress.reset(self.current, total=total, description=what, completed=0)

    def advance(self, count: int) -> None:
        self.progress.advance(self.current, count)

    def done(self, what: str, detail: str) -> None:
        self.console.print(f"  {what}: {detail}", highlight=False)


def print_scores(run: Evaluation, probe: str = "linear") -> None:
    """A compact table on standard output: top-1 in percent, the best of each row in bold."""
    table = Table(title=f"Top-1 accuracy in percent, {probe} probe")
    table.add_column("task")
    table.add_column("split")
    for method in run.methods:
        table.add_column(method, justify="right", overflow="fold")
    for task in run.tasks:
        for split in run.splits(task.name):
            found = {m: e.result.top1_mean for m in run.methods if (e := run.find(task.name, m, split, probe))}
            if not found:
                continue
            best = round(100 * max(found.values()), 1)
            texts = [f"{100 * found[m]:.1f}" if m in found else "–" for m in run.methods]
            marked = [f"[bold]{text}[/bold]" if text == f"{best:.1f}" else text for text in texts]
            table.add_row(task.name, split.split()[0], *marked)
    Console().print(table)


def print_differences(run: Evaluation) -> None:
    """The mean differences with their intervals, one line each, on standard output."""
    for against, whom in ((None, "random weights"), (AGAINST, "the other weights")):
        for kind, (count, mean) in run.mean_differences(against).items():
            low, high = 100 * mean.low, 100 * mean.high
            text = f"{100 * mean.mean:+.1f} [{low:+.1f}, {high:+.1f}] points"
            print(f"mean of {count} {kind} splits, difference to {whom}: {text}")
