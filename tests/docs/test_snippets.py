"""Every Python block of a documentation page runs, in order, in a folder that holds the files the pages talk about."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Pages whose blocks need data or names that a page can't make: their imports must work, the rest is read, not run.
IMPORTS_ONLY = {"data.md", "decoder.md", "evaluation.md", "objectives.md", "signals.md"}
SLOW = {"onnx.md"}  # an export of the full encoder


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text("utf-8"))


def pages() -> list[object]:
    found = [page for page in sorted(DOCS.glob("*.md")) if blocks(page)]
    return [pytest.param(p, id=p.name, marks=[pytest.mark.slow] if p.name in SLOW else []) for p in found]


@pytest.mark.parametrize("page", pages())
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", np.random.default_rng(0).standard_normal((6000, 2)) / 10, 16_000)
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page):
        source = imports(block) if page.name in IMPORTS_ONLY else block
        exec(compile(source, str(page), "exec"), namespace)


def imports(block: str) -> str:
    lines = [line for line in block.splitlines() if line.startswith(("import ", "from "))]
    assert ast.parse("\n".join(lines)).body
    return "\n".join(lines)
