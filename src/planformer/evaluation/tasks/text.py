"""Text tasks (Appendix "Text Tasks"): papers as byte streams, by sub-discipline or by field."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from planformer.evaluation.tasks.base import Task, TaskData, as_labels, files_under

# ccdv/arxiv-classification numbers its eleven classes in this order; the paper uses nine of mathematics and computing.
ARXIV_CLASSES = (
    "math.AC", "cs.CV", "cs.AI", "cs.SY", "math.GR", "cs.CE", "cs.PL", "cs.IT", "cs.DS", "cs.NE", "math.ST",
)  # fmt: skip
# cs.SY and cs.CE carry engineering contents and are the two that are left out; give another choice to the class.
ARXIV_NINE = tuple(name for name in ARXIV_CLASSES if name not in ("cs.SY", "cs.CE"))


class ArxivTopic(Task):
    name = "arxiv-topic"
    title = "Paper sub-discipline (arXiv)"
    type = "semantic"
    domain = "1-D"
    folders = ("arxiv-classification", "arxiv")
    layout = "{train,validation,test}*.parquet with columns text and label, or <split>/<class>/*.txt"
    source = "https://huggingface.co/datasets/ccdv/arxiv-classification"
    licence = "arXiv's non-exclusive licence or CC BY, by paper"
    checks = "columns, known labels; the set has eleven classes, nine are kept"

    def __init__(self, keep: tuple[str, ...] = ARXIV_NINE) -> None:
        self.keep = keep

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        items: list[Any] = []
        labels: list[str] = []
        test: list[bool] = []
        for item, label, split in self._rows(root):
            if label in self.keep:
                items.append(item)
                labels.append(self.label(label))
                test.append(split == "test")
        if not items:
            raise self.wrong(root, f"no papers of the classes {', '.join(self.keep)}")
        notes = (f"classes kept: {', '.join(self.keep)}; validation part counted as training",)
        return TaskData(items, as_labels(labels), "text", test=np.array(test), notes=notes)

    def label(self, topic: str) -> str:
        return topic

    def _rows(self, root: Path) -> Iterator[tuple[Any, str, str]]:
        tables = files_under(root, ".parquet")
        for table in tables:
            yield from self._parquet(table)
        if tables:
            return
        for split in ("train", "validation", "test"):
            for path in files_under(root / split, ".txt") if (root / split).is_dir() else []:
                yield path, path.parent.name, split

    def _parquet(self, table: Path) -> Iterator[tuple[Any, str, str]]:
        import pyarrow.parquet

        columns = pyarrow.parquet.read_schema(table).names
        if "text" not in columns or "label" not in columns:
            raise self.wrong(table, f"columns {', '.join(columns)} instead of text and label")
        split = "test" if "test" in table.stem else "train"
        rows = pyarrow.parquet.read_table(table, columns=["text", "label"]).to_pydict()
        for text, label in zip(rows["text"], rows["label"], strict=True):
            if isinstance(label, int) and not 0 <= label < len(ARXIV_CLASSES):
                raise self.wrong(table, f"label {label} beyond the {len(ARXIV_CLASSES)} classes")
            yield text.encode(), ARXIV_CLASSES[label] if isinstance(label, int) else str(label), split


class ArxivField(ArxivTopic):
    name = "arxiv-field"
    title = "Paper field (arXiv)"
    type = "mixed"

    def label(self, topic: str) -> str:
        return topic.split(".")[0]


class TextTopic(Task):
    name = "text-topic"
    title = "Document topic (Stacks, D2L, Rust book)"
    type = "semantic"
    domain = "1-D"
    folders = ("text",)
    layout = "labels.csv with path, field, topic, split"
    source = (
        "https://github.com/stacks/stacks-project, https://github.com/d2l-ai/d2l-en, https://github.com/rust-lang/book"
    )
    licence = "GFDL 1.2; CC BY-SA 4.0; MIT or Apache-2.0"
    checks = "every file of labels.csv exists"
    column = "topic"

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        table = root / "labels.csv"
        if not table.is_file():
            raise self.missing(data_dir, table)
        with table.open(newline="", encoding="utf-8") as handle:
            rows = list(csv.DictReader(handle))
        if not rows or not {"path", self.column, "split"} <= set(rows[0]):
            raise self.wrong(table, f"no columns path, {self.column}, split")
        paths = [root / row["path"] for row in rows]
        for path in paths:
            if not path.is_file():
                raise self.wrong(path, "named in labels.csv, but there is no such file")
        test = np.array([row["split"] == "test" for row in rows])
        return TaskData(paths, as_labels([row[self.column] for row in rows]), "text", test=test)


class TextField(TextTopic):
    name = "text-field"
    title = "Document field: mathematics or computing"
    type = "mixed"
    column = "field"
