"""A user's own labelled data: a folder per class, or a CSV of path,label[,group]."""

from __future__ import annotations

import csv
from pathlib import Path

from planformer.errors import InputError, PlanFormerError
from planformer.evaluation.run import LoadedTask
from planformer.evaluation.tasks import TaskData
from planformer.evaluation.tasks.base import as_labels

# Written beside another file and read through it.
COMPANIONS = (".sigmf-data",)


def load_labelled(
    source: Path, *, kind: str | None = None, rate: float | None = None, keep_going: bool = False
) -> LoadedTask:
    """The items of a folder or CSV, each tried once; unreadable ones are an error, or left out with ``keep_going``."""
    if not source.exists():
        raise InputError(f"{source}: no such file or folder; give a folder with one subfolder per class, or a CSV")
    rows = _from_csv(source) if source.is_file() else _from_folder(source)
    good, failures, kinds = [], list[str](), set[str]()
    for path, label, group in rows:
        try:
            kinds.add(first_look(path, kind, rate))
            good.append((path, label, group))
        except PlanFormerError as error:
            failures.append(str(error) if path.name in str(error) else f"{path}: {error}")
    if failures and not keep_going:
        more = f" (and {len(failures) - 3} more)" if len(failures) > 3 else ""
        raise InputError(
            f"{len(failures)} of {len(rows)} files can't be read: {'; '.join(failures[:3])}{more}. "
            "Remove them, or leave them out with --keep-going"
        )
    if not good:
        raise InputError(f"{source}: no readable file with a label")
    groups = as_labels([group for *_, group in good]) if all(group is not None for *_, group in good) else None
    notes = tuple(f"left out, unreadable: {failure}" for failure in failures)
    data = TaskData(
        items=[path for path, *_ in good],
        labels=as_labels([label for _, label, _ in good]),
        kind=kinds.pop() if len(kinds) == 1 else "",  # a mix: each file is read as what it is
        rate=rate,
        groups=groups,
        group_name="group",
        notes=notes,
    )
    return LoadedTask(source.stem or "folder", source.name or str(source), "yours", "any", data)


def first_look(path: Path, kind: str | None, rate: float | None) -> str:
    """The kind of a file that can be read to its end; :class:`InputError` says what is wrong with others."""
    from planformer.signals.reading import open_source

    try:
        source = open_source(path, kind, rate=rate)  # type: ignore[arg-type]
        for _ in source.complex_blocks():
            pass
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    return str(source.kind)


def _from_folder(folder: Path) -> list[tuple[Path, str, str | None]]:
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise InputError(f"{folder}: no subfolders; make one for each class and put its files there, or give a CSV")
    rows: list[tuple[Path, str, str | None]] = []
    for sub in classes:
        files = sorted(p for p in sub.rglob("*") if p.is_file() and not p.name.startswith("."))
        files = [p for p in files if p.suffix not in COMPANIONS]
        if not files:
            raise InputError(f"{sub}: this class has no files; add some or remove the folder")
        rows += [(path, sub.name, None) for path in files]
    return rows


def _from_csv(table: Path) -> list[tuple[Path, str, str | None]]:
    try:
        with table.open(newline="", encoding="utf-8-sig") as handle:
            lines = list(csv.DictReader(handle))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{table}: not a readable CSV ({error})") from error
    if not lines or "path" not in lines[0] or "label" not in lines[0]:
        raise InputError(f"{table}: the first line must name the columns path,label and, if known, group")
    rows = []
    for number, line in enumerate(lines, start=2):
        path, label = line.get("path"), line.get("label")
        if not path or not label:
            raise InputError(f"{table}: line {number} has no path or no label")
        rows.append((table.parent / path, label, line.get("group") or None))
    return rows
