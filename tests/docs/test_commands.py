"""Every command that the pages on deployment show runs as it stands, on small files and a narrow network."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import soundfile
from PIL import Image

from loopback import running
from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)
LINE = re.compile(r"^ {4,}(\S.*?)(?:\s+#.*)?$", re.MULTILINE)


def commands(page: str, program: str) -> list[str]:
    """Indented lines of a page that call ``program``, continued lines joined."""
    text = (DOCS / page).read_text("utf-8").replace("\\\n", " ")
    return [line for line in LINE.findall(text) if re.search(rf"(^|\| |[A-Z]=\S+ ){program} ", line)]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that the pages name, and a network that takes no time."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for folder in ("recordings", "pictures", "archive", "corpus"):
        Path(folder).mkdir()
    for name in ("a.wav", "new.wav", "recordings/r.wav", "archive/s.wav", "corpus/t.wav"):
        soundfile.write(name, rng.standard_normal(3000) / 10, 8000)
    Image.fromarray(rng.integers(0, 255, (9, 9, 3), np.uint8)).save("pictures/p.png")
    (rng.standard_normal(4000).astype(np.float32)).tofile("capture.cf32")
    model = PlanFormer.random(seed=0, config=SMALL)
    monkeypatch.setattr(PlanFormer, "load", classmethod(lambda cls, source=None: model))
    yield


def run(line: str) -> int:
    """The part of a line that is ours, in this process, with the shell's variables and file names."""
    words = shlex.split(line.rpartition("| ")[2])
    ours = words.index("planformer")
    settings = dict(word.split("=", 1) for word in words[:ours])
    arguments = [
        name for word in words[ours + 1 :] for name in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
    ]
    with patch.dict(os.environ, settings), pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


def test_search() -> None:
    lines = commands("search.md", "planformer")
    assert len(lines) == 5
    assert [run(line) for line in lines] == [0] * 5


def test_streaming(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = commands("streaming.md", "planformer")
    assert len(lines) == 3
    for line in lines:
        data = np.random.default_rng(0).integers(0, 255, 70_000, np.uint8).tobytes()  # 2.2 s of sound
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert run(line) == 0
        assert capsys.readouterr().out.startswith('{"start"')


def test_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """The export itself has tests of its own; here the command's options are what is looked at."""
    pytest.importorskip("onnxruntime")
    from planformer.deploy import onnx

    monkeypatch.setattr(onnx, "export_onnx", lambda model, path, opset: path.write_bytes(b"x") and {"radio": 0.0})
    lines = commands("onnx.md", "planformer")
    assert lines
    assert [run(line) for line in lines] == [0] * len(lines)


def test_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself is tested beside its module; here the plain rows stand for it."""
    from planformer.deploy import corpus, scale

    monkeypatch.setattr(scale, "import_ray", lambda: None)
    monkeypatch.setattr(
        scale, "ray_rows", lambda model, paths, options, workers: corpus.embed_rows(model, paths, options)
    )
    lines = [line.replace("/shared/", "") for line in commands("scale.md", "planformer")]
    assert len(lines) == 3
    assert [run(line) for line in lines] == [0] * 3


@pytest.fixture
def address() -> Iterator[str]:
    pytest.importorskip("fastapi")
    from planformer.deploy.service import create_app
    from planformer.deploy.service_limits import Limits

    app = create_app(PlanFormer.load(), limits=Limits(readers=1))
    with running(app) as found:
        yield found


def test_curl(address: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    lines = commands("service.md", "curl")
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line.replace("http://127.0.0.1:8000", address))
        answer = subprocess.run(
            [words[0], "--silent", "--fail", *words[1:]], capture_output=True, text=True, check=True
        )
        assert answer.stdout.startswith('{"embedding":[')


def test_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the point where the server would start."""
    pytest.importorskip("fastapi")
    assert run("planformer index add a.wav --to idx") == 0
    uvicorn = pytest.importorskip("uvicorn")
    started: list[Any] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: started.append(options))
    lines = commands("service.md", "planformer")
    assert [run(line) for line in lines] == [0] * len(lines)
    assert len(started) == len(lines) == 4
