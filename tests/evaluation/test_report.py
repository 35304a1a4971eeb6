"""From tasks to the three files: splits, averages, differences, escaping, honesty."""

from __future__ import annotations

import json
import mmap
import shutil
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from planformer.evaluation import tables
from planformer.evaluation.cost import Cost, PeakMemory, measure_costs
from planformer.evaluation.featurisers import Advance, Features, Featuriser
from planformer.evaluation.report import Report, write_report
from planformer.evaluation.run import AGAINST, Evaluation, LoadedTask, evaluate, limit_rows, task_splits
from planformer.evaluation.tasks import TaskData
from planformer.evaluation.tasks.base import as_labels


class Noisy(Featuriser):
    """The label's code plus noise: how much says how good the method is."""

    def __init__(self, name: str, noise: float, only: str | None = None) -> None:
        self.name = self.title = name
        self.noise, self.only = noise, only

    @property
    def identity(self) -> str:
        return f"{self.name}:{self.noise}"

    def not_applicable(self, data: TaskData) -> str | None:
        return None if self.only in (None, data.kind) else f"{self.only} only"

    def features(self, data: TaskData, advance: Advance | None = None) -> Features:
        rng = np.random.default_rng(len(self.name))
        codes = np.unique(data.labels, return_inverse=True)[1]
        return (np.eye(codes.max() + 1)[codes] + self.noise * rng.standard_normal((len(data), codes.max() + 1))).astype(
            np.float32
        )


def task(name: str, kind: str, type_: str, *, grouped: bool = False, fixed: bool = False) -> LoadedTask:
    labels = as_labels(np.repeat(["<b>one</b>", "two"], 20))
    groups = as_labels(np.tile(np.arange(10), 4)) if grouped else None
    test = np.tile([True, False, False, False], 10) if fixed else None
    items = np.zeros((40, 8), np.float32) if kind != "image" else np.zeros((40, 4, 4), np.uint8)
    data = TaskData(items, labels, kind, 8000.0, groups=groups, group_name="speaker", test=test, notes=("a <note>",))
    return LoadedTask(name, f"{name} & co", type_, "1-D", data, {"model": 90.0})


@pytest.fixture(scope="module")
def run() -> Evaluation:
    tasks = [task("sound", "audio", "physical", grouped=True), task("picture", "image", "mixed", fixed=True)]
    methods = [Noisy("planformer", 0.2), Noisy("random:0", 1.0), Noisy("random:1", 1.5), Noisy("mfcc", 0.1, "audio")]
    return evaluate(tasks, methods, model="planformer")


def test_splits_follow_what_is_known() -> None:
    assert list(task_splits(task("x", "audio", "mixed", grouped=True).data)) == [
        "random 5-fold", "grouped 5-fold by speaker",
    ]  # fmt: skip
    assert list(task_splits(task("x", "audio", "mixed", fixed=True).data)) == ["fixed test set"]


def test_every_method_has_every_cell_or_a_reason(run: Evaluation) -> None:
    assert ("picture", "mfcc", "audio only") in run.skipped
    assert run.find("picture", "mfcc", "fixed test set") is None
    majority = run.find("sound", "majority", "random 5-fold")
    assert majority is not None and majority.result.top1_mean == pytest.approx(0.5)


def test_difference_to_random_has_an_interval_and_a_verdict(run: Evaluation) -> None:
    found = run.difference(run.tasks[0], "random 5-fold")
    assert found is not None and found.low <= found.mean <= found.high and found.units == 40
    assert found.verdict == "better"
    grouped = run.difference(run.tasks[0], "grouped 5-fold by speaker")
    assert grouped is not None and grouped.units == 10


def test_the_mean_difference_weights_tasks_equally_and_the_table_ends_with_it(run: Evaluation) -> None:
    means = run.mean_differences()
    assert list(means) == ["first"], "one grouped split is no mean"
    count, found = means["first"]
    single = [run.difference(task, run.splits(task.name)[0]) for task in run.tasks]
    assert count == 2 and found.units == 40 + 10
    assert found.mean == pytest.approx(np.mean([part.mean for part in single if part is not None]))
    last = tables.difference_table(run).rows[-1]
    assert last[0].text == "mean of 2 first splits" and last[3].text.startswith(f"{100 * found.mean:+.1f} [")


def test_other_weights_have_a_table_of_their_own_and_are_no_baseline(run: Evaluation) -> None:
    assert run.difference(run.tasks[0], "random 5-fold", against=AGAINST) is None
    methods = [Noisy("planformer", 0.2), Noisy("random:0", 1.5), Noisy(AGAINST, 0.2)]
    both = evaluate(run.tasks, methods, model="planformer")
    table = tables.difference_table(both, AGAINST)
    assert table.title == "Is it better than the other weights?" and table.header[3] == "difference to against [95 %]"
    assert {row[4].text for row in table.rows} == {"no clear difference"}
    assert all(not row[5].text.startswith(AGAINST) for row in table.rows)
    assert {row[4].text for row in tables.difference_table(both).rows} >= {"better"}


def test_averages_never_mix_task_sets(run: Evaluation) -> None:
    table = tables.average_table(run)
    column = table.header.index("mfcc")
    by_type = {row[0].text: row[column].text for row in table.rows}
    assert by_type["physical"] != tables.NONE and by_type["mixed"] == by_type["all"] == tables.NONE
    assert "semantic" not in by_type


def test_a_run_with_the_other_probe_only_has_its_own_differences_and_averages(run: Evaluation) -> None:
    other = replace(run, entries=[e if e.method == "majority" else replace(e, probe="rbf") for e in run.entries])
    assert (run.main_probe, other.main_probe) == ("linear", "rbf")
    average, expected = tables.average_table(other), tables.average_table(run)
    assert average.title == "Averages by type of task (rbf probe)"
    column = average.header.index("mfcc")
    assert [row[column].text for row in average.rows] == [row[column].text for row in expected.rows]
    assert other.difference(other.tasks[0], "random 5-fold") == run.difference(run.tasks[0], "random 5-fold")


def test_the_best_of_a_row_is_marked_even_if_it_is_a_baseline(run: Evaluation) -> None:
    table = tables.main_table(run)
    sound = table.rows[0]
    strong = {table.header[k] for k, cell in enumerate(sound) if cell.strong}
    scores = {name: float(sound[k].text.split()[0]) for k, name in enumerate(table.header) if name in run.methods}
    assert strong == {name for name, score in scores.items() if score == max(scores.values())}


class Check(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.images, self.links, self.open = 0, list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.images += tag == "img"
        self.links += [v for k, v in values.items() if k in ("src", "href") and v and not v.startswith("data:")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_files(run: Evaluation, tmp_path: Path) -> None:
    cost = Cost("planformer", 1_990_478, {"encoder_all": 157_000_000}, 20.0, 30.0)
    report = Report(
        run, "RANDOM: untrained", False, ["planformer evaluate --data 'x & y'"], costs=[cost], cost_items="s"
    )
    page = write_report(report, tmp_path / "out")
    text = page.read_text()
    check = Check()
    check.feed(text)
    assert check.open == [] and check.links == []  # well-formed, and nothing from elsewhere
    assert check.images == 3 + 2  # confusion matrices of three splits, two t-SNE plots
    assert "<b>one</b>" not in text and "a <note>" not in text and "sound &amp; co" in text
    assert "RANDOM: untrained" in text and "untrained'" in text
    record = json.loads((page.parent / "results.json").read_text())
    assert not record["trained"] and len(record["results"]) == len(run.entries)
    needed = {"task", "model", "split", "top1_mean", "top1_std", "top3_mean", "n", "classes", "type", "seconds"}
    assert all(needed <= set(entry) for entry in record["results"])
    markdown = (page.parent / "results.md").read_text()
    assert "| sound & co | random 5-fold |" in markdown and "planformer evaluate --data" in markdown
    assert page.stat().st_mode & 0o044  # readable by others, not a private temporary file


def test_limit_keeps_shares_and_says_so() -> None:
    data = task("x", "audio", "mixed", fixed=True).data
    fewer = limit_rows(data, 20)
    assert len(fewer) == 20 and fewer.test is not None and 4 <= fewer.test.sum() <= 6
    assert "20 of 40 items" in fewer.notes[-1]
    assert limit_rows(data, 100) is data


def test_costs_are_measured_on_the_same_items() -> None:
    costs = measure_costs([Noisy("a", 1.0), Noisy("mfcc", 1.0, "image")], task("x", "audio", "mixed").data)
    assert costs[0].milliseconds is not None and costs[0].milliseconds >= 0
    assert costs[1].milliseconds is None and costs[1].why_not == "image only"


def test_peak_memory_sees_a_large_array() -> None:
    with PeakMemory() as memory, mmap.mmap(-1, 64 << 20) as fresh:  # pages that no allocator has kept from before
        fresh.write(b"x" * len(fresh))
        time.sleep(0.05)
    assert memory.growth_mb is None or memory.growth_mb > 30


@pytest.mark.browser
def test_the_page_opens_in_a_browser_without_asking_for_anything_else(run: Evaluation, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    playwright = pytest.importorskip("playwright.sync_api")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    page_path = write_report(Report(run, "trained", True, ["planformer evaluate"]), tmp_path)
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        trouble: list[str] = []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else trouble.append(r.url))
        page.goto(page_path.as_uri())
        drawn = page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        fits = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        heading = page.inner_text("h1")
        browser.close()
    assert not trouble and drawn and fits and heading == "PlanFormer evaluation"
