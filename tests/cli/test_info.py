"""``planformer info``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.main import main
from planformer.models import pretrained
from planformer.models.restoration import Restorer, save_decoder

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)

RUN = {"run": {"name": "tiny"}, "step": 4, "sequences_seen": 32}


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["info", *args])
    return int(caught.value.code or 0)


def test_json_has_live_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"]["encoder"] == {"total": 1_990_478, "trainable": 1_978_190, "fixed": 12_288}
    assert facts["macs"]["encoder_all"] > 0
    assert {"planformer", "torch", "device", "extras", "weights"} <= facts.keys()


def test_text_is_readable_and_names_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("planformer.models.inventory.mac_counts", lambda: {"encoder_all": 2_000_000})
    monkeypatch.setattr(pretrained, "SHIPPED", tmp_path / "none")
    assert run() == 0
    text = capsys.readouterr().out
    assert "1,990,478" in text
    assert "none shipped" in text
    assert "2.00 M" in text
    folder = PlanFormer.random(seed=0, config=SMALL).save_pretrained(tmp_path / "w")
    assert run("--weights", str(folder)) == 0
    text = capsys.readouterr().out
    assert "sha256" in text and "no decoder" in text
    save_decoder(folder, Restorer.random(0, SMALL).decoder, {"decoder": RUN})
    assert run("--weights", str(folder)) == 0
    text = capsys.readouterr().out
    assert "beside the encoder: decoder" in text and "decoder's run tiny: 4 steps" in text


def began(hour: int, steps: int) -> dict[str, Any]:
    """What a run says of itself that began at that hour."""
    return {"run": {"name": "tiny", "started": f"2026-01-01T{hour:02}:00:00+00:00"}, "step": steps}


@pytest.mark.parametrize(
    ("provenance", "shown"),
    [
        ({"continues": [RUN | {"step": 80}], **RUN}, ["run tiny: 80 steps", "run tiny: 4 steps, 32 sequences"]),
        ({"average_of": [RUN, RUN]}, ["run tiny: 4 steps, 32 sequences"] * 2),
        (
            {"continues": [{"average_of": [RUN, RUN | {"step": 9, "continues": [RUN]}]}], **RUN | {"step": 20}},
            ["run tiny: 4 steps", "run tiny: 9 steps", "run tiny: 20 steps"],
        ),
        (
            {"average_of": [{"average_of": [RUN, RUN | {"run": {"name": "tiny", "seed": 1}}]}, RUN | {"step": 9}]},
            ["run tiny: 4 steps", "run tiny: 4 steps", "run tiny: 9 steps"],
        ),
        (
            {
                "average_of": [
                    {"continues": [began(12, 2)], **began(13, 3)},
                    {"continues": [began(7, 0)], **began(11, 1)},
                ]
            },
            [f"run tiny: {steps} steps" for steps in range(4)],
        ),
        ({"continues": 5, "run": "x"}, []),
        ({"continues": [None, "x", {"run": []}]}, []),
    ],
)
def test_the_runs_behind_the_weights_are_listed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    provenance: dict[str, Any],
    shown: list[str],
) -> None:
    monkeypatch.setattr("planformer.models.inventory.mac_counts", dict)
    folder = PlanFormer.random(seed=0, config=SMALL).save_pretrained(tmp_path / "w", provenance=provenance)
    assert run("--weights", str(folder)) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  run ")]
    assert len(lines) == len(shown) and all(text in line for text, line in zip(shown, lines, strict=True))


def test_damaged_weights_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert run("--weights", str(tmp_path)) == 2
    assert "not a weights folder" in capsys.readouterr().err
