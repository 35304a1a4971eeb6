"""The similarity index: exact and approximate answers, duplicates, replaced rows, crashes, damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from planformer.deploy import index as index_module
from planformer.deploy.index import Index, Item, content_hash, item_vector
from planformer.deploy.search import Approximate, exact_search, graph_file, prepare_vectors
from planformer.errors import InputError

WIDTH = 8


def item(name: str, content: str | None = None) -> Item:
    return Item(name, content or f"sha of {name}", "audio", 1, 1)


def make(folder: Path, count: int = 5, **options: int) -> Index:
    index = Index.create(folder, fingerprint="f", width=WIDTH, **options)
    rows = np.random.default_rng(0).standard_normal((count, WIDTH))
    with index.writer() as writer:
        for i, row in enumerate(rows):
            writer.add(item(f"{i}.wav"), row)
    return index


def test_search_equals_a_slow_reference(tmp_path: Path) -> None:
    index = make(tmp_path / "idx", 50)
    query = np.random.default_rng(1).standard_normal(WIDTH)
    slow = sorted(
        (
            (float(row @ query / np.linalg.norm(row) / np.linalg.norm(query)), i)
            for i, row in enumerate(index.vectors.astype(float))
        ),
        reverse=True,
    )
    answer = index.search(query, k=7)
    assert [hit.item.path for hit in answer.hits] == [f"{i}.wav" for _, i in slow[:7]]
    assert [hit.score for hit in answer.hits] == pytest.approx([score for score, _ in slow[:7]], abs=1e-6)
    assert (answer.searched, answer.recall) == (50, None)
    assert len(index.search(query, k=1000).hits) == 50


def test_ties_come_in_the_order_of_adding() -> None:
    rows = np.ones((6, 2), np.float32)
    assert exact_search(rows, rows[0], 3)[0].tolist() == [0, 1, 2]


def test_scale_does_not_matter_and_zero_is_harmless(tmp_path: Path) -> None:
    index = make(tmp_path / "idx")
    first = index.search(index.vectors[2] * 1000, k=1).hits[0]
    assert first.item.path == "2.wav"
    assert first.score == pytest.approx(1)
    assert len(index.search(np.zeros(WIDTH), k=2).hits) == 2


def test_same_content_is_stored_once_and_a_changed_file_replaces_its_row(tmp_path: Path) -> None:
    index = make(tmp_path / "idx")
    with index.writer() as writer:
        assert writer.duplicate_of("sha of 1.wav") == "1.wav"
        writer.add(item("copy.wav", "sha of 1.wav"), np.ones(WIDTH))
        writer.add(item("2.wav", "new content"), np.full(WIDTH, 3.0))
        writer.add(item("other.wav", "sha of 2.wav"), np.full(WIDTH, 4.0))  # free again: 2.wav holds something else
    for opened in (index, Index(tmp_path / "idx")):
        assert sorted(i.path for i in opened.items) == ["0.wav", "1.wav", "2.wav", "3.wav", "4.wav", "other.wav"]
        place = [i.path for i in opened.items].index("2.wav")
        assert opened.vectors[place].tolist() == [3.0] * WIDTH


def test_a_reader_sees_what_another_process_added(tmp_path: Path) -> None:
    index = make(tmp_path / "idx")
    reader = Index(tmp_path / "idx")
    assert not reader.refresh()
    with index.writer() as writer:
        writer.add(item("late.wav"), np.ones(WIDTH))
    assert reader.refresh()
    assert reader.search(np.ones(WIDTH), 1).hits[0].item.path == "late.wav"


def test_many_parts_are_merged_and_an_interrupted_merge_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "_MAX_PARTS", 3)
    index = make(tmp_path / "idx", 2)
    for i in range(2):
        with index.writer() as writer:
            writer.add(item(f"more{i}"), np.full(WIDTH, i + 1.0))
    before = {i.path: tuple(v) for i, v in zip(index.items, index.vectors, strict=True)}
    monkeypatch.setattr(Path, "unlink", stop)
    with pytest.raises(KeyboardInterrupt), index.writer() as writer:
        writer.add(item("last"), np.full(WIDTH, 9.0))
    monkeypatch.undo()
    opened = Index(tmp_path / "idx")
    assert len(opened.parts()) == 5  # the four, and the merged one
    assert {i.path: tuple(v) for i, v in zip(opened.items, opened.vectors, strict=True)} == {
        **before,
        "last": (9.0,) * WIDTH,
    }


def stop(path: Path, missing_ok: bool = False) -> None:
    if path.name.startswith("part-"):
        raise KeyboardInterrupt
    os.unlink(path) if path.exists() else None  # noqa: PTH108


def test_killed_in_the_middle_keeps_every_flushed_row(tmp_path: Path) -> None:
    code = f"""
import itertools, numpy as np
from planformer.deploy import index as m
m._PART_ROWS = 4
index = m.Index.create({str(tmp_path / "idx")!r}, fingerprint="f", width={WIDTH})
with index.writer() as writer:
    for i in itertools.count():
        writer.add(m.Item(str(i), "sha" + str(i)), np.full({WIDTH}, i + 1.0))
        if i == 21:
            print("ready", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    index = Index(tmp_path / "idx")
    assert len(index) >= 20
    assert len(index) % 4 == 0
    assert [row[0] for row in index.vectors] == [i + 1.0 for i in range(len(index))]
    with index.writer() as writer:  # the dead process holds no lock
        writer.add(item("after"), np.ones(WIDTH))
    assert index.items[-1].path == "after"


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    index = make(tmp_path / "idx")
    with index.writer(), pytest.raises(InputError, match="another process"), Index(tmp_path / "idx").writer():
        pass


def test_an_error_keeps_what_was_added_before_it(tmp_path: Path) -> None:
    index = make(tmp_path / "idx", 0)
    with pytest.raises(InputError, match=r"b: an embedding has 8"), index.writer() as writer:
        writer.add(item("a"), np.ones(WIDTH))
        writer.add(item("b"), np.full(WIDTH, np.nan))
    assert [i.path for i in Index(tmp_path / "idx").items] == ["a"]


def test_approximate_search_reports_its_recall(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    index = make(tmp_path / "idx", 400, exact_limit=300)
    exact = Index(tmp_path / "idx")
    queries = np.random.default_rng(2).standard_normal((20, WIDTH))
    same = [
        len({h.item.path for h in index.search(q, 10).hits} & {h.item.path for h in exact.search(q, 10).hits})
        for q in queries
    ]
    recall = index.search(queries[0]).recall
    assert recall is not None
    assert recall > 0.9
    assert sum(same) / 200 == pytest.approx(recall, abs=0.1)
    first, second = index.search(queries[0], 5).hits, exact.search(queries[0], 5).hits
    assert first[0] == second[0]


def test_one_item_beyond_the_limit_is_searched_by_the_graph(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    assert index_module.EXACT_LIMIT == 100_000
    make(tmp_path / "idx", 40)
    query = np.ones(WIDTH)
    assert Index(tmp_path / "idx", exact_limit=40).search(query).recall is None
    assert Index(tmp_path / "idx", exact_limit=39).search(query).recall == 1.0  # so few are all looked at


@pytest.mark.slow
def test_more_than_100_000_items(tmp_path: Path) -> None:
    """The limit that users have, not a lowered one: the graph answers, and says how often it is right."""
    pytest.importorskip("usearch")
    count = 100_001
    index = make(tmp_path / "idx", 0)
    rows = np.random.default_rng(0).standard_normal((count, WIDTH)).astype(np.float32)
    index_module._write_part(index.folder, [item(f"{i}.wav") for i in range(count)], list(rows))
    opened = Index(tmp_path / "idx")
    prepared, found = prepare_vectors(rows), 0
    for query in np.random.default_rng(1).standard_normal((30, WIDTH)).astype(np.float32):
        answer = opened.search(query, 10)
        assert answer.searched == count
        exact, _ = exact_search(prepared, prepare_vectors(query), 10)
        found += len({hit.item.path for hit in answer.hits} & {f"{i}.wav" for i in exact})
    assert answer.recall is not None
    assert answer.recall > 0.9
    assert found / 300 == pytest.approx(answer.recall, abs=0.1)


def test_the_graph_is_kept_until_the_rows_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch")
    folder, query = tmp_path / "idx", np.ones(WIDTH)
    index = make(folder, 60, exact_limit=50)
    assert index.must_build
    first = index.search(query)
    (graph,) = folder.glob("graph-*.usearch")
    with monkeypatch.context() as never:
        never.setattr(Approximate, "_measure", lambda *_: pytest.fail("built again"))
        opened = Index(folder, exact_limit=50)
        assert not opened.must_build
        assert opened.search(query) == first
    with opened.writer() as writer:
        writer.add(item("new.wav"), -query)
    assert opened.must_build
    assert opened.search(-query).hits[0].item.path == "new.wav"
    assert not graph.exists()  # the graph of the old rows is of no use any more
    assert len(list(folder.glob("graph-*"))) == 2


@pytest.mark.parametrize("harm", ["junk", "empty", "notes", "other rows"])
def test_a_damaged_graph_is_made_again(tmp_path: Path, harm: str) -> None:
    pytest.importorskip("usearch")
    rng = np.random.default_rng(0)
    rows, others = (prepare_vectors(rng.standard_normal((200, WIDTH)).astype(np.float32)) for _ in range(2))
    Approximate.stored(others if harm == "other rows" else rows, tmp_path, "x")
    graph = graph_file(tmp_path, "x")
    if harm in ("junk", "empty"):
        graph.write_bytes(b"junk" * 100 * (harm == "junk"))
    if harm == "notes":
        graph.with_suffix(".json").write_text("[]")
    assert Approximate._open(rows, graph) is None
    again = Approximate.stored(rows, tmp_path, "x")
    assert again.search(rows[7], 1)[0].tolist() == [7]
    assert Approximate._open(rows, graph) is not None


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    rows = prepare_vectors(np.random.default_rng(0).standard_normal((100, WIDTH)).astype(np.float32))
    found = Approximate.stored(rows, tmp_path / "absent", "x")
    assert found.search(rows[3], 1)[0].tolist() == [3]


def test_candidates_are_doubled_until_the_recall_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tight clusters: the fewest candidates find 97 % of the neighbours, and 99 % are asked for."""
    pytest.importorskip("usearch")
    monkeypatch.setattr("planformer.deploy.search.WANTED_RECALL", 0.99)
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((30, 64)).astype(np.float32)
    rows = centres[rng.integers(30, size=6000)] + rng.standard_normal((6000, 64)).astype(np.float32)
    graph = Approximate(prepare_vectors(rows))
    assert graph.candidates > 64
    rng = np.random.default_rng(0)  # the queries that the constructor asked, in its order
    needed, graph.candidates = graph.candidates, 64
    while graph.candidates < needed:
        assert graph._measure(rng) < 0.99
        graph.candidates *= 2
    assert graph._measure(rng) >= 0.99


def test_recall_is_measured_not_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch")
    rows = prepare_vectors(np.random.default_rng(0).standard_normal((500, WIDTH)).astype(np.float32))
    wrong = Approximate(rows)
    monkeypatch.setattr(wrong, "search", lambda query, k: (np.arange(k), np.zeros(k)))
    assert wrong._measure(np.random.default_rng(0)) < 0.3


def test_content_hash_covers_both_files_of_a_recording(tmp_path: Path) -> None:
    meta, data = tmp_path / "r.sigmf-meta", tmp_path / "r.sigmf-data"
    meta.write_text("{}")
    data.write_bytes(b"1234")
    first = content_hash(meta)
    data.write_bytes(b"1235")
    assert content_hash(meta) != first
    with pytest.raises(InputError, match=r"gone\.wav"):
        content_hash(tmp_path / "gone.wav")


def test_channels_are_averaged() -> None:
    assert item_vector(np.array([1, 2, 3, 4], np.float32), 2).tolist() == [2, 3]


def test_what_is_no_index_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="planformer index add"):
        Index(tmp_path / "none")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not an empty folder"):
        Index.create(tmp_path / "full", fingerprint="f", width=WIDTH)
    index = make(tmp_path / "idx")
    with pytest.raises(InputError, match="other weights"):
        Index.create(tmp_path / "idx", fingerprint="g", width=WIDTH)
    with pytest.raises(InputError, match="8 numbers, not 3"):
        index.search(np.ones(3))
    with pytest.raises(InputError, match="at least 1"):
        index.search(np.ones(WIDTH), k=0)
    index.parts()[0].write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="damaged part"):
        Index(tmp_path / "idx")
    (tmp_path / "idx" / "index.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        Index(tmp_path / "idx")
