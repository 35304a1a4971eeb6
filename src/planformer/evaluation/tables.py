"""The report's tables as plain cells, and their Markdown and HTML forms."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np

from planformer.evaluation.cost import Cost
from planformer.evaluation.run import AGAINST, Evaluation, LoadedTask
from planformer.evaluation.statistics import Difference
from planformer.evaluation.tasks.base import TASK_TYPES

NONE = "–"


@dataclass(frozen=True)
class Cell:
    text: str
    strong: bool = False
    tone: str = ""  # "good" or "bad": colour in HTML


@dataclass(frozen=True)
class Table:
    title: str
    header: list[str]
    rows: list[list[Cell]]
    note: str = ""

    def markdown(self) -> str:
        def line(cells: list[str]) -> str:
            return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"

        rows = [line([f"**{c.text}**" if c.strong else c.text for c in row]) for row in self.rows]
        parts = [f"### {self.title}", "", line(self.header), line(["---"] * len(self.header)), *rows]
        return "\n".join([*parts, "", self.note, ""] if self.note else [*parts, ""])

    def html(self) -> str:
        head = "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in self.header)
        body = "".join("<tr>" + "".join(_html_cell(c, k) for k, c in enumerate(row)) + "</tr>" for row in self.rows)
        note = f"<p class='note'>{html.escape(self.note)}</p>" if self.note else ""
        return (
            f"<section><h2>{html.escape(self.title)}</h2><div class='scroll'><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>{note}</section>"
        )


def _html_cell(cell: Cell, column: int) -> str:
    classes = " ".join(filter(None, ["strong" if cell.strong else "", cell.tone]))
    tag = "th scope='row'" if column == 0 else "td"
    return f"<{tag}{f' class={classes!r}' if classes else ''}>{html.escape(cell.text)}</{tag.split()[0]}>"


def percent(value: float | None, spread: float | None = None) -> str:
    """0.8123, 0.012 -> "81.2 ± 1.2"."""
    if value is None:
        return NONE
    return f"{100 * value:.1f}" + (f" ± {100 * spread:.1f}" if spread is not None else "")


def main_table(run: Evaluation, probe: str = "linear") -> Table:
    """Top-1 of every method; the best of each row is marked, whoever it is."""
    rows = []
    for task in run.tasks:
        for split in run.splits(task.name):
            cells = {m: run.find(task.name, m, split, probe) for m in run.methods}
            found = {m: round(100 * e.result.top1_mean, 1) for m, e in cells.items() if e is not None}
            if not found:
                continue
            best = max(found.values())
            own = cells.get(run.model)
            first = [Cell(task.title), Cell(split), Cell(task.type), Cell(str(len(task.data.class_names)))]
            marks = [
                Cell(percent(e.result.top1_mean, e.result.top1_std) if e else NONE, strong=found.get(m) == best)
                for m, e in cells.items()
            ]
            rows.append([*first, *marks, Cell(percent(own.result.top3_mean) if own else NONE)])
    header = ["task", "split", "type", "classes", *run.methods, f"top-3 ({run.model})"]
    note = "Top-1 accuracy in percent, mean ± deviation over five folds; the best of each row in bold."
    return Table(f"Accuracy, {probe} probe", header, rows, note)


def difference_table(run: Evaluation, against: str | None = None) -> Table:
    """The judged method against untrained encoders (or ``against`` another) by the main probe, and who wins the row.

    The last rows are means over all tasks and over all grouped splits.
    """
    rows, probe = [], run.main_probe
    for task in run.tasks:
        for split in run.splits(task.name):
            difference = run.difference(task, split, probe, against=against)
            scores = {m: e.result.top1_mean for m in run.methods if (e := run.find(task.name, m, split, probe))}
            if not scores:
                continue
            winner = max(scores, key=lambda m: scores[m])
            baselines = {m: s for m, s in scores.items() if not m.startswith((run.model, AGAINST))}
            strongest = max(baselines, key=lambda m: baselines[m]) if baselines else NONE
            beside = f"{strongest} {percent(baselines.get(strongest))}" if baselines else NONE
            first = [Cell(task.title), Cell(split), Cell(task.type)]
            rows.append([*first, *_difference_cells(difference), Cell(beside), Cell(winner)])
    for kind, (count, mean) in run.mean_differences(against).items():
        first = [Cell(f"mean of {count} {kind} splits"), Cell(NONE), Cell("all")]
        rows.append([*first, *_difference_cells(mean), Cell(NONE), Cell(NONE)])
    whom = "random" if against is None else against
    header = ["task", "split", "type", f"difference to {whom} [95 %]", "verdict", "strongest baseline", "winner"]
    reference = "the mean of the untrained encoders" if against is None else run.methods[against]
    note = (
        f"{run.model} minus {reference}, in points; paired bootstrap over the tested items "
        "(over whole groups where a split keeps them apart). The intervals of means are for other items of these "
        "tasks, not for other tasks."
    )
    if run.model.startswith("random:"):
        note += " The judged encoder is itself untrained: a difference here is the luck of its seed."
    title = "Is it better than random weights?" if against is None else "Is it better than the other weights?"
    return Table(title + _other_probe(run), header, rows, note)


def _difference_cells(difference: Difference | None) -> list[Cell]:
    """In points with the interval, and the verdict."""
    if difference is None:
        return [Cell(NONE), Cell(NONE)]
    text = f"{100 * difference.mean:+.1f} [{100 * difference.low:+.1f}, {100 * difference.high:+.1f}]"
    tone = {"better": "good", "worse": "bad"}.get(difference.verdict, "")
    return [Cell(text), Cell(difference.verdict, tone=tone)]


def _other_probe(run: Evaluation) -> str:
    return "" if run.main_probe == "linear" else f" ({run.main_probe} probe)"


def average_table(run: Evaluation) -> Table:
    """Averages by type over the tasks that *every* column of a row has, so that no column averages other tasks."""
    rows, probe = [], run.main_probe
    counted = [task for task in run.tasks if task.in_averages]
    for kind in (*TASK_TYPES, "all"):
        of_type = [t for t in counted if kind in ("all", t.type)]
        full = {m: _scores(run, of_type, m, probe) for m in run.methods}
        complete = {m: s for m, s in full.items() if of_type and len(s) == len(of_type)}
        if not of_type:
            continue
        best = max((round(100 * float(np.mean(s)), 1) for s in complete.values()), default=None)
        cells = []
        for m in run.methods:
            mean = float(np.mean(complete[m])) if m in complete else None
            cells.append(Cell(percent(mean), strong=mean is not None and round(100 * mean, 1) == best))
        rows.append([Cell(kind), Cell(", ".join(t.name for t in of_type)), *cells])
    note = (
        "Mean over the tasks named in the row, each by its first split. A method that does not apply to one of them "
        "has no average: columns are never averaged over different tasks."
    )
    return Table("Averages by type of task" + _other_probe(run), ["type", "tasks", *run.methods], rows, note)


def _scores(run: Evaluation, tasks: list[LoadedTask], method: str, probe: str) -> list[float]:
    scores = []
    for task in tasks:
        splits = run.splits(task.name)
        entry = run.find(task.name, method, splits[0], probe) if splits else None
        if entry is not None:
            scores.append(entry.result.top1_mean)
    return scores


def published_table(run: Evaluation) -> Table | None:
    """The paper's own figures for the tasks that were run, for the eye; its data and weights are not ours."""
    keys = {"random": "random", "model": "paper's model", "mfcc": "MFCC", "clip": "CLIP", "dino": "DINOv3"}
    tasks = [task for task in run.tasks if task.published]
    if not tasks:
        return None
    rows = [
        [Cell(t.title), *[Cell(f"{t.published[k]:.1f}" if k in t.published else NONE) for k in keys]] for t in tasks
    ]
    note = "As printed in the paper, linear probe, percent. With a stand-in data set the figures do not compare."
    return Table("Published figures", ["task", *keys.values()], rows, note)


def cost_table(costs: list[Cost], on: str) -> Table:
    """Parameters, MACs by two conventions, time and memory."""
    rows = []
    for cost in costs:
        macs = cost.macs or {}
        every = next((v for k, v in macs.items() if k.endswith("_all")), None)
        fvcore = next((v for k, v in macs.items() if k.endswith("_fvcore")), None)
        rows.append(
            [
                Cell(cost.method),
                Cell(f"{cost.parameters / 1e6:.2f} M" if cost.parameters else "0"),
                Cell(f"{every / 1e6:.1f} M" if every else NONE),
                Cell(f"{fvcore / 1e6:.1f} M" if fvcore else NONE),
                Cell(f"{cost.milliseconds:.1f}" if cost.milliseconds is not None else cost.why_not or NONE),
                Cell(f"{cost.peak_mb:.0f}" if cost.peak_mb is not None else NONE),
            ]
        )
    header = ["method", "parameters", "MACs, all operations", "MACs as fvcore counts", "ms per item", "peak memory, MB"]
    note = (
        f"Measured in this run on items of {on}, reading and preparing included. MACs are for one segment of 5,120 "
        "samples; fvcore leaves out several operators. Memory is the growth while running."
    )
    return Table("Cost", header, rows, note)


def skipped_table(run: Evaluation) -> Table | None:
    """What was not run, and why."""
    if not run.skipped:
        return None
    rows = [[Cell(task), Cell(method), Cell(why)] for task, method, why in run.skipped]
    return Table("Not run", ["task", "method", "why"], rows)
