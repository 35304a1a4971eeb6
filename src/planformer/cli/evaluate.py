"""`planformer evaluate`: the paper's table on the data you have, every baseline beside the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import typer

from planformer.errors import InputError

if TYPE_CHECKING:
    from planformer.evaluation.console import ConsoleReporter
    from planformer.evaluation.featurisers import Featuriser
    from planformer.evaluation.models import JudgedModel
    from planformer.evaluation.report import Report, Section
    from planformer.evaluation.run import Evaluation, LoadedTask

app = typer.Typer(add_completion=False)


@app.command()
def evaluate(
    data: Path = typer.Option(Path("data"), "--data", "-d", help="Folder that holds the data sets."),
    tasks: str = typer.Option("present", "--tasks", "-t", help="Comma-separated names; 'present' runs what is there."),
    model: str = typer.Option(
        None, "--model", "-m", help="A weights folder, or random:SEED. Default: shipped weights."
    ),
    baselines: str = typer.Option(
        "random,raw,log-spectrum,mfcc,rocket,majority",
        "--baselines",
        "-b",
        help="Comma-separated; also random-balanced (untrained with other start values), clip, dino, none.",
    ),
    probes: str = typer.Option("linear", "--probes", help="linear, rbf, or both with a comma."),
    out: Path = typer.Option(Path("report"), "--out", "-o", help="Folder for results.json, results.md and index.html."),
    limit: int = typer.Option(
        None, "--limit", min=50, help="At most this many items of each task (stated in the report)."
    ),
    against: str = typer.Option(
        None, "--against", help="Other weights (a folder or random:SEED) beside the model, with the difference to them."
    ),
    random_seeds: int = typer.Option(3, "--random-seeds", min=1, help="Untrained encoders to compare with."),
    symmetry: bool = typer.Option(False, "--symmetry", help="Add the symmetry report (about two minutes)."),
    cache: bool = typer.Option(True, "--cache/--no-cache", help="Keep embeddings on disk for the next run."),
    validation: Path = typer.Option(
        None,
        "--validation",
        metavar="RADIO",
        help="To choose weights, not to report: no test rows, and the radio tasks of the folder that "
        "`planformer simulate eval --seed 1 --out RADIO` wrote.",
    ),
    list_tasks: bool = typer.Option(False, "--list", help="Print the tasks, where to get them and what is present."),
    seed: int = typer.Option(0, "--seed", help="Of the folds."),
) -> None:
    """Probe the frozen encoder on every task whose data is present and write the report.

    Example: planformer evaluate --data data --tasks mnist,fsdd-speaker --limit 3000 --out report
    """
    if list_tasks:
        _list(data)
        return
    loaded = load_tasks(data, tasks, limit, validation)
    command = f"planformer evaluate --data {data} --tasks {tasks} --baselines {baselines} --probes {probes}"
    command += f" --out {out} --random-seeds {random_seeds} --seed {seed}"
    command += (f" --limit {limit}" if limit else "") + (f" --model {model}" if model else "")
    command += f" --validation {validation}" if validation else ""
    command += f" --against {against}" if against else ""
    title = "PlanFormer evaluation" if validation is None else "PlanFormer validation (no test rows)"
    plan = Plan(loaded, model, baselines, probes, out, cache, seed, command, title, random_seeds, symmetry, against)
    run_and_report(plan)


@dataclass(frozen=True)
class Plan:
    """What `evaluate` and `probe` have in common."""

    tasks: list[LoadedTask]
    model: str | None
    baselines: str
    probes: str
    out: Path
    cache: bool
    seed: int
    command: str
    title: str = "PlanFormer evaluation"
    random_seeds: int = 3
    symmetry: bool = False
    against: str | None = None


def load_tasks(data: Path, names: str, limit: int | None, validation: Path | None = None) -> list[LoadedTask]:
    """Load the named tasks, or all that are present; with ``validation`` what may be chosen by (radio from there)."""
    from planformer.evaluation.run import LoadedTask, limit_rows
    from planformer.evaluation.splits import check_classes, encode_labels
    from planformer.evaluation.tasks import TASKS, get_task
    from planformer.evaluation.validation import RADIO, validation_task

    if not data.is_dir():
        raise InputError(f"{data}: no such folder; `planformer evaluate --list` says what belongs there")
    wanted = list(TASKS) if names == "present" else [name.strip() for name in names.split(",") if name.strip()]
    chosen = [get_task(name) for name in wanted]
    if names == "present":
        chosen = [task for task in chosen if task.present(data) or (validation is not None and task.name in RADIO)]
    if not chosen:
        raise InputError(f"{data}: no known data set here; `planformer evaluate --list` says what is looked for")
    loaded = []
    for task in chosen:
        whole = task.load(data) if validation is None else validation_task(task, data, validation)
        remark = task.count_note(whole)
        items = limit_rows(replace(whole, notes=(*whole.notes, remark)) if remark else whole, limit)
        check_classes(*encode_labels(items.labels if items.test is None else items.labels[~items.test]))
        loaded.append(
            LoadedTask(task.name, task.title, task.type, task.domain, items, dict(task.published), task.in_averages)
        )
    return loaded


def run_and_report(plan: Plan) -> None:
    """Run the plan, print the table, write the report and say where it is."""
    from planformer.evaluation.cache import FeatureCache, default_cache
    from planformer.evaluation.console import ConsoleReporter, print_differences, print_scores
    from planformer.evaluation.models import load_model, other_weights
    from planformer.evaluation.report import write_report
    from planformer.evaluation.run import evaluate as run_evaluation

    names = _baseline_names(plan.baselines)
    probes = [probe.strip() for probe in plan.probes.split(",")]
    judged = load_model(plan.model)
    typer.echo(f"Weights: {judged.weights}", err=True)
    methods = _methods(judged, names, plan.random_seeds)
    if plan.against is not None:
        methods.append(other_weights(plan.against))
    with ConsoleReporter() as reporter:
        run = run_evaluation(
            plan.tasks,
            methods,
            model=judged.name,
            majority="majority" in names,
            probes=probes,
            cache=FeatureCache(default_cache() if plan.cache else None),
            seed=plan.seed,
            reporter=reporter,
        )
        report = _report(plan, judged, run, methods, reporter)
        reporter.start("drawing the report", 1)
        page = write_report(report, plan.out)
    for probe in probes:
        print_scores(run, probe)
    print_differences(run)
    typer.echo(f"Report: {page}")


def _baseline_names(text: str) -> list[str]:
    from planformer.evaluation.baselines import ALL

    names = [] if text == "none" else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in ALL:
            raise InputError(f"there is no baseline {name!r}: choose from {', '.join(ALL)}")
    return names


def _methods(judged: JudgedModel, names: list[str], random_seeds: int) -> list[Featuriser]:
    from planformer.config import Start
    from planformer.evaluation.baselines import RANDOM, get_baseline
    from planformer.evaluation.models import random_encoders

    methods: list[Featuriser] = list(judged.readouts())
    if "random" in names:
        methods += random_encoders(judged, random_seeds)
    for start in get_args(Start):
        if f"random-{start}" in names:
            methods += random_encoders(judged, random_seeds, start=start)
    return methods + [get_baseline(name) for name in names if name not in (*RANDOM, "majority")]


def _report(
    plan: Plan, judged: JudgedModel, run: Evaluation, methods: list[Featuriser], reporter: ConsoleReporter
) -> Report:
    from planformer.evaluation.cost import measure_costs
    from planformer.evaluation.report import Report

    reporter.start("measuring cost", 1)
    first = plan.tasks[0]
    # A method without any result (missing weights or packages) has no cost to measure either.
    ran = {entry.method for entry in run.entries}
    costs = measure_costs([method for method in methods if method.name in ran], first.data)
    return Report(
        run,
        judged.weights,
        judged.trained,
        [plan.command],
        plan.title,
        costs,
        first.title,
        _sections(judged, plan, reporter),
        settings={"probes": plan.probes, "baselines": plan.baselines, "seed": plan.seed},
    )


def _sections(judged: JudgedModel, plan: Plan, reporter: ConsoleReporter) -> list[Section]:
    from planformer.evaluation.models import random_encoders
    from planformer.evaluation.reconstruction import reconstruction_section
    from planformer.evaluation.symmetry import symmetry_section

    reporter.start("reconstructions", 1)
    strips = reconstruction_section(judged.model.encoder, judged.folder, plan.tasks)
    sections = [strips] if strips is not None else []
    if plan.symmetry:
        reporter.start("symmetry report", 1)
        models = {judged.name: judged.model}
        models |= {encoder.name: encoder.model for encoder in random_encoders(judged, 2)[:1]}
        sections.append(symmetry_section(models))
    return sections


def _list(data: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from planformer.evaluation.tasks import TASKS, get_task

    table = Table(title=f"Tasks (looked for in {data})", show_lines=True)
    for column in ("name", "present", "type", "layout", "where to get it", "licence", "checked on load"):
        table.add_column(column, overflow="fold")
    for name in TASKS:
        task = get_task(name)
        here = "yes" if data.is_dir() and task.present(data) else "no"
        table.add_row(name, here, task.type, task.layout, task.source, task.licence, task.checks)
    Console().print(table)
