"""`planformer quickstart`: three small tasks that need no download, with baselines and a report."""

from __future__ import annotations

import time
from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def quickstart(
    out: Path = typer.Option(Path("planformer-quickstart"), "--out", "-o", help="Folder for the report."),
    model: str = typer.Option(None, "--model", help="A weights folder, or random:SEED. Default: the shipped weights."),
    per_class: int = typer.Option(20, "--per-class", min=10, max=100, help="Items of each class."),
) -> None:
    """Embed images, radio and sounds, probe them beside simple baselines, and write an HTML report.

    Example: planformer quickstart --out my-first-report
    """
    began = time.perf_counter()
    typer.echo("PlanFormer quickstart: any signal to 256 numbers, probed on three small tasks.")
    from planformer.evaluation.baselines import get_baseline
    from planformer.evaluation.console import ConsoleReporter, print_scores
    from planformer.evaluation.cost import measure_costs
    from planformer.evaluation.demo import demo_tasks
    from planformer.evaluation.models import load_model, random_encoders
    from planformer.evaluation.reconstruction import reconstruction_section
    from planformer.evaluation.report import Report, write_report
    from planformer.evaluation.run import evaluate

    judged = load_model(model, fall_back=True)
    typer.echo(f"Weights: {judged.weights}")
    methods = [*judged.readouts(), *random_encoders(judged, seeds=2)[:1]]
    baselines = [get_baseline(name) for name in ("raw", "log-spectrum")]
    with ConsoleReporter() as reporter:
        tasks = demo_tasks(per_class)
        run = evaluate(tasks, [*methods, *baselines], model=judged.name, reporter=reporter)
        reporter.start("measuring cost", 1)
        costs = measure_costs([*methods, *baselines], tasks[2].data, items=16)
        reporter.start("reconstructions", 1)
        strips = reconstruction_section(judged.model.encoder, judged.folder, tasks)
        report = Report(
            run,
            judged.weights,
            judged.trained,
            [f"planformer quickstart --out {out}" + (f" --model {model}" if model else "")],
            title="PlanFormer quickstart",
            costs=costs,
            cost_items=tasks[2].title.lower(),
            sections=[] if strips is None else [strips],
            settings={"per_class": per_class},
        )
        page = write_report(report, out)
    print_scores(run)
    typer.echo(f"Weights: {judged.weights}")
    typer.echo(f"{time.perf_counter() - began:.0f} s. Report: {page.resolve()}")
