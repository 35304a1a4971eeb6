"""The journal and the three output formats."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from planformer.deploy.table import Journal
from planformer.errors import InputError


def row(seed: int, size: int = 256) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def fill(target: Path, sizes: dict[str, int], **settings: object) -> None:
    with Journal(target, settings) as journal:
        for i, (name, size) in enumerate(sizes.items()):
            journal.append(name, {"kind": "audio", "channels": size // 256, "segments": 1}, row(i, size))
        journal.finish(list(sizes))


def test_parquet_keeps_every_bit_and_ragged_rows(tmp_path: Path) -> None:
    fill(tmp_path / "o.parquet", {"a": 256, "b": 768}, weights="x")
    table = pq.read_table(tmp_path / "o.parquet")
    assert table["path"].to_pylist() == ["a", "b"]
    for i, size in enumerate((256, 768)):
        np.testing.assert_array_equal(np.float32(table["embedding"][i].as_py()), row(i, size))
    assert b'"weights": "x"' in table.schema.metadata[b"planformer"]
    assert [p.name for p in tmp_path.iterdir()] == ["o.parquet"]


def test_csv_gives_float32_back_exactly(tmp_path: Path) -> None:
    fill(tmp_path / "o.csv", {"a,1": 256, "b": 512})
    with (tmp_path / "o.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0]["path"] == "a,1"
    assert rows[0]["e256"] == ""
    np.testing.assert_array_equal(np.float32([rows[1][f"e{i}"] for i in range(512)]), row(1, 512))


def test_npy_has_names_beside_it_and_refuses_ragged_rows(tmp_path: Path) -> None:
    fill(tmp_path / "o.npy", {"a": 256, "b": 256})
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), np.stack([row(0), row(1)]))
    assert (tmp_path / "o.paths.txt").read_text().split() == ["a", "b"]
    with pytest.raises(InputError, match="b: 768 numbers, but a has 256"):
        fill(tmp_path / "p.npy", {"a": 256, "b": 768})
    assert not (tmp_path / "p.npy").exists()


def test_resumes_after_any_cut(tmp_path: Path) -> None:
    target = tmp_path / "o.parquet"
    with Journal(target, {"w": 1}) as journal:
        for i in range(3):
            journal.append(f"f{i}", {}, row(i), stamp="s")
    whole = journal.path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in {0, 1, *ends, *(e - 1 for e in ends), *(e + 1 for e in ends[:-1])}:
        journal.path.write_bytes(whole[:cut])
        with Journal(target, {"w": 1}) as again:
            kept = sum(end <= cut for end in ends[1:])
            assert len(again) == kept
            assert all(again.has(f"f{i}", "s") for i in range(kept))
            for i in range(kept, 3):
                again.append(f"f{i}", {}, row(i), stamp="s")
        assert again.path.read_bytes() == whole


def test_a_changed_file_counts_as_new(tmp_path: Path) -> None:
    with Journal(tmp_path / "o.csv", {}) as journal:
        journal.append("a", {}, row(0), stamp="1")
        assert journal.has("a", "1")
        assert not journal.has("a", "2")
        journal.append("a", {}, row(1), stamp="2")
        assert journal.finish(["a"]) == 1


def test_other_settings_are_refused_unless_restarted(tmp_path: Path) -> None:
    with Journal(tmp_path / "o.csv", {"w": 1}) as journal:
        journal.append("a", {}, row(0))
    with pytest.raises(InputError, match="--restart"):
        Journal(tmp_path / "o.csv", {"w": 2})
    with Journal(tmp_path / "o.csv", {"w": 2}, restart=True) as fresh:
        assert len(fresh) == 0


@pytest.mark.parametrize("name", ["o.xls", "o", "nowhere/o.csv"])
def test_bad_targets(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        Journal(tmp_path / name, {})


def test_nothing_is_left_behind_when_nothing_was_embedded(tmp_path: Path) -> None:
    with pytest.raises(InputError), Journal(tmp_path / "out.parquet", {"weights": "w"}):
        raise InputError("a.wav: no such file")
    assert list(tmp_path.iterdir()) == []
