"""POWDER in miniature: which recordings train, which are held out, and the checks on its metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planformer.data.conversion import convert
from planformer.data.heldout import evaluation_sets, write_evaluation
from planformer.data.powder import find_powder
from planformer.data.recordings import RecordingSet
from planformer.data.seeding import complex_normal, generator
from planformer.errors import InputError


def add(root: Path, stem: str, *, n: int = 700, transmitter: str | None = None, **header: Any) -> Path:
    place = root / "GlobecomPOWDER"
    place.mkdir(parents=True, exist_ok=True)
    data = place / f"{stem}.bin"
    (complex_normal(generator(stem), n) * 0.01).astype(np.complex64).tofile(data)
    annotations = {"transmitter": {"core:location": transmitter or f"base station {stem.split('_')[3]}"}}
    document = {"global": {"core:datatype": "cf32"} | header, "annotations": annotations}
    data.with_suffix(".json").write_text(json.dumps(document))
    return data


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for protocol in ("4G", "5G", "Wifi"):
        for day in (1, 2):
            for station in ("bes", "browning", "honors", "meb"):
                for session in (1, 4):
                    add(tmp_path, f"{protocol}_Day_{day}_{station}_s{session}", n=12_000)
    return tmp_path


def test_subsets_are_the_papers(tree: Path) -> None:
    train, held = find_powder(tree, "train"), find_powder(tree, "held out")
    assert {(r.labels["protocol"], r.labels["day"]) for r in train} == {("WiFi", 1), ("4G", 1)}
    assert {(r.labels["protocol"], r.labels["day"]) for r in held} == {("5G", 1), ("5G", 2), ("WiFi", 2), ("4G", 2)}
    assert len(train) + len(held) == len(find_powder(tree, "all")) == 48
    assert {r.labels["emitter"] for r in train} == {f"powder-{name}" for name in ("bes", "browning", "honors", "meb")}
    assert {r.rate for r in train if r.labels["protocol"] == "WiFi"} == {5e6}
    assert {r.rate for r in train if r.labels["protocol"] == "4G"} == {7.69e6}


def test_one_label_for_all_protocols_of_a_station(tree: Path, tmp_path: Path) -> None:
    for recording in find_powder(tree, "train"):
        convert(recording, tmp_path / "out")
    data = RecordingSet.from_folder(tmp_path / "out")
    assert len(data.emitters) == 4
    protocols = {(label, protocol) for label, protocol in zip(data.labels.tolist(), data.protocols, strict=True)}
    assert protocols == {(label, protocol) for label in range(4) for protocol in ("WiFi", "4G")}
    sizes = {str(file.label("protocol")): file.samples for file in data.files}
    assert sizes["4G"] == 12_000  # native rate: not resampled
    assert sizes["WiFi"] == pytest.approx(12_000 * 7.69 / 5, abs=2)


def test_real_day_two_becomes_the_fingerprint_set(tree: Path, tmp_path: Path) -> None:
    list(write_evaluation(tmp_path / "eval", sequences=1, recordings=2, powder=tree))
    part = evaluation_sets(tmp_path / "eval")["fingerprint"]
    assert part.classes == ["powder-bes", "powder-browning", "powder-honors", "powder-meb"]
    assert set(part.protocols) == {"4G", "5G", "WiFi"}
    assert 0 < part.test.sum() < part.test.size
    assert not set(part.groups[part.test]) & set(part.groups[~part.test])


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="looked for GlobecomPOWDER"):
        find_powder(tmp_path)
    data = add(tmp_path, "4G_Day_1_bes_s1", transmitter="honors")
    with pytest.raises(InputError, match=r"4G_Day_1_bes_s1.json: names the transmitter 'honors'"):
        find_powder(tmp_path)
    add(tmp_path, "4G_Day_1_bes_s1", **{"core:sample_rate": 20e6})
    with pytest.raises(InputError, match=r"4G_Day_1_bes_s1.json: sample rate"):
        find_powder(tmp_path)
    data.with_suffix(".json").unlink()
    with pytest.raises(InputError, match=r"4G_Day_1_bes_s1.json: missing"):
        find_powder(tmp_path)
    data.unlink()
    add(tmp_path, "4G_Day_1_nowhere_s1")
    with pytest.raises(InputError, match="nowhere is none of POWDER's stations"):
        find_powder(tmp_path)
    with pytest.raises(InputError, match="subset 'train' \\(1 others\\)"):
        (tmp_path / "GlobecomPOWDER/4G_Day_1_nowhere_s1.bin").rename(tmp_path / "GlobecomPOWDER/5G_Day_1_bes_s1.bin")
        find_powder(tmp_path)


def test_missing_annotations_are_fine_and_silence_is_not(tmp_path: Path) -> None:
    data = add(tmp_path, "4G_Day_1_bes_s1")
    data.with_suffix(".json").write_text(json.dumps({"global": {"core:datatype": "cf32"}}))
    assert len(find_powder(tmp_path)) == 1
    np.zeros(4000, np.complex64).tofile(data)
    with pytest.raises(InputError, match=r"bes_s1.bin"):
        find_powder(tmp_path)
