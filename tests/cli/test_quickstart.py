"""The quickstart must run without data or weights and say plainly what the weights are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planformer.cli.main import main
from planformer.evaluation.demo import SOUNDS, digits, modulations, sounds


def test_demo_tasks_have_what_they_promise() -> None:
    assert digits(10).data.items.shape == (100, 8, 8) and digits(10).data.items.max() > 200
    radio = modulations(20).data
    assert len(radio.class_names) == 8 and radio.items.shape == (160, 5120) and np.iscomplexobj(radio.items)
    assert radio.groups is not None and len(set(radio.groups)) == 40
    loud = sounds(10).data
    assert loud.class_names == sorted(SOUNDS) and np.isfinite(loud.items).all()
    np.testing.assert_array_equal(loud.items, sounds(10).data.items)  # the same every time


@pytest.mark.slow
def test_quickstart_ends_with_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["quickstart", "--out", str(tmp_path / "report"), "--per-class", "10"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert out.count("Weights: ") == 2 and out.rstrip().endswith("index.html")
    record = json.loads((tmp_path / "report" / "results.json").read_text())
    assert record["trained"] == ("RANDOM" not in out)
    assert {r["task"] for r in record["results"]} == {"digits", "modulations", "sounds"}
    best = {}
    for r in record["results"]:
        if r["model"] == record["judged"]:
            best[r["task"]] = max(best.get(r["task"], 0.0), r["top1_mean"])
    assert all(score > 0.3 for score in best.values())
