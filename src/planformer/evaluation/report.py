"""The report: ``results.json``, ``results.md`` and one self-contained ``index.html``."""

from __future__ import annotations

import html
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from planformer import __version__
from planformer.evaluation import figures, tables
from planformer.evaluation.cache import write_atomically
from planformer.evaluation.cost import Cost
from planformer.evaluation.run import AGAINST, Evaluation, LoadedTask

STYLE = """
:root { color-scheme: light; --ink:#1d2733; --soft:#5b6775; --line:#dde3ea; --accent:#1b5fa8; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0; background: #fff; }
main { max-width: 1320px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 34px 0 8px; }
h3 { font-size: 16px; margin: 24px 0 6px; }
.banner { border-left: 5px solid var(--accent); background: #eef4fb; padding: 10px 14px; margin: 14px 0; }
.banner.untrained { border-color: #b35c00; background: #fff4e5; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 5px 8px; border-bottom: 1px solid var(--line); text-align: left; font-weight: 400; }
th, td { white-space: nowrap; }
thead th { font-weight: 600; border-bottom: 2px solid var(--line); } .strong { font-weight: 700; }
.good { color: #14733b; font-weight: 600; } .bad { color: #b3261e; font-weight: 600; }
.note, .meta { color: var(--soft); font-size: 13px; } figure { display: inline-block; margin: 6px 12px 6px 0; }
figure img { width: 500px; max-width: 100%; height: auto; }
pre { background: #f5f7f9; padding: 10px 12px; overflow-x: auto; font-size: 13px; }
"""


@dataclass(frozen=True, eq=False)
class Section:
    """A titled part with text and pictures, e.g. the symmetry report."""

    title: str
    text: str = ""
    pictures: Sequence[tuple[str, bytes]] = ()  # (alternative text, PNG)
    table: tables.Table | None = None


@dataclass(frozen=True, eq=False)
class Report:
    """Everything the three files are made of."""

    run: Evaluation
    weights: str  # "trained (…)" or "random (untrained)": printed first
    trained: bool
    commands: Sequence[str]
    title: str = "PlanFormer evaluation"
    costs: Sequence[Cost] = ()
    cost_items: str = ""
    sections: Sequence[Section] = ()
    tsne: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


def write_report(report: Report, folder: Path) -> Path:
    """Write the three files; returns the path of the HTML page."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "results.json": json.dumps(record(report), indent=1, allow_nan=False),
        "results.md": markdown(report),
        "index.html": page(report),
    }
    for name, text in contents.items():
        data = text.encode("utf-8")
        write_atomically(folder / name, lambda handle, data=data: handle.write(data))
    return folder / "index.html"


def record(report: Report) -> dict[str, Any]:
    """The JSON form: one record per task, method, split and probe."""
    run = report.run
    by_name = {task.name: task for task in run.tasks}
    results = [
        {
            "task": entry.task,
            "model": entry.method,
            "split": entry.split,
            "probe": entry.probe,
            "type": by_name[entry.task].type,
            **entry.result.record(),
            "features": entry.width,
            "seconds": entry.embed_seconds + entry.probe_seconds,
            "embed_seconds": entry.embed_seconds,
            "probe_seconds": entry.probe_seconds,
            "cached": entry.cached,
        }
        for entry in run.entries
    ]
    return {
        "planformer": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "weights": report.weights,
        "trained": report.trained,
        "judged": run.model,
        "settings": report.settings,
        "commands": list(report.commands),
        "tasks": [_task_record(task) for task in run.tasks],
        "results": results,
        "difference_to_random": _differences(run),
        "difference_to_other_weights": _differences(run, AGAINST),
        "costs": [asdict(cost) for cost in report.costs],
        "skipped": [{"task": t, "model": m, "why": w} for t, m, w in run.skipped],
    }


def _differences(run: Evaluation, against: str | None = None) -> list[dict[str, Any]]:
    """One record a task and split, then the means over the first and over the grouped splits."""
    found = [
        {"task": task.name, "split": split, **asdict(difference), "verdict": difference.verdict}
        for task in run.tasks
        for split in run.splits(task.name)
        if (difference := run.difference(task, split, against=against)) is not None
    ]
    means = [
        {"task": "mean", "split": kind, "tasks": count, **asdict(difference), "verdict": difference.verdict}
        for kind, (count, difference) in run.mean_differences(against).items()
    ]
    return found + means


def _task_record(task: LoadedTask) -> dict[str, Any]:
    return {
        "name": task.name,
        "title": task.title,
        "type": task.type,
        "domain": task.domain,
        "items": len(task.data),
        "classes": len(task.data.class_names),
        "notes": list(task.data.notes),
        "published": dict(task.published),
    }


def report_tables(report: Report) -> list[tables.Table]:
    run = report.run
    probes = list(dict.fromkeys(e.probe for e in run.entries))
    found: list[tables.Table | None] = [tables.main_table(run, probe) for probe in probes]
    found.append(tables.difference_table(run))
    if AGAINST in run.methods:
        found.append(tables.difference_table(run, AGAINST))
    found += [tables.average_table(run), tables.published_table(run)]
    if report.costs:
        found.append(tables.cost_table(list(report.costs), report.cost_items))
    found.append(tables.skipped_table(run))
    return [table for table in found if table is not None and table.rows]


def markdown(report: Report) -> str:
    """The tables, the notes and the commands."""
    parts = [f"## {report.title}", "", f"Weights: {report.weights}", ""]
    parts += [table.markdown() for table in report_tables(report)]
    parts += [section.table.markdown() for section in report.sections if section.table is not None]
    notes = [f"- {task.name}: {note}" for task in report.run.tasks for note in task.data.notes]
    if notes:
        parts += ["### Notes", "", *notes, ""]
    parts += ["### To repeat this", "", "```", *report.commands, "```", ""]
    return "\n".join(parts)


def page(report: Report) -> str:
    """One HTML page without any other file."""
    tone = "banner" if report.trained else "banner untrained"
    body = [f"<h1>{html.escape(report.title)}</h1>", f"<p class='{tone}'>Weights: {html.escape(report.weights)}</p>"]
    body += [table.html() for table in report_tables(report)]
    body += [_section(section) for section in report.sections]
    body += ["<section><h2>Tasks</h2>", *[_task_html(report, task) for task in report.run.tasks], "</section>"]
    commands = html.escape("\n".join(report.commands))
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    body.append(f"<section><h2>To repeat this</h2><pre>{commands}</pre>")
    body.append(f"<p class='meta'>PlanFormer {__version__}, {html.escape(platform.platform())}, {made}</p></section>")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(report.title)}</title><style>{STYLE}</style></head><body><main>"
        + "\n".join(body)
        + "</main></body></html>\n"
    )


def _section(section: Section) -> str:
    table = section.table.html() if section.table is not None else ""
    heading = "" if section.table is not None else f"<h2>{html.escape(section.title)}</h2>"
    text = f"<p>{html.escape(section.text)}</p>" if section.text else ""
    return f"<section>{heading}{table}{text}{''.join(_picture(*p) for p in section.pictures)}</section>"


def _picture(alternative: str, png: bytes) -> str:
    return f"<figure><img alt='{html.escape(alternative, quote=True)}' src='{figures.data_uri(png)}'></figure>"


def _task_html(report: Report, task: LoadedTask) -> str:
    run = report.run
    names = task.data.class_names
    pictures = []
    for split in run.splits(task.name):
        entry = run.find(task.name, run.model, split)
        if entry is not None:
            title = f"{split}: {100 * entry.result.top1_mean:.1f} %"
            picture = figures.confusion_figure(entry.result.confusion, names, title)
            pictures.append((f"confusion matrix, {task.name}, {split}", picture))
    if report.tsne and task.name in run.features:
        picture = figures.tsne_figure(run.features[task.name], task.data.labels, "t-SNE")
        pictures.append((f"t-SNE, {task.name}", picture))
    notes = "".join(f"<p class='note'>{html.escape(note)}</p>" for note in task.data.notes)
    about = f"{len(task.data)} items, {len(names)} classes, {task.type}, {task.domain}"
    return (
        f"<h3 id='{html.escape(task.name, quote=True)}'>{html.escape(task.title)}</h3>"
        f"<p class='meta'>{html.escape(about)}; pictures of {html.escape(run.model)}</p>{notes}"
        + "".join(_picture(*p) for p in pictures)
    )
