"""`planformer probe`: how well a linear probe reads your own labels from the embedding."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def probe(
    source: Path = typer.Argument(..., help="A folder with one subfolder per class, or a CSV of path,label[,group]."),
    out: Path = typer.Option(Path("probe-report"), "--out", "-o", help="Folder for the report."),
    model: str = typer.Option(
        None, "--model", "-m", help="A weights folder, or random:SEED. Default: shipped weights."
    ),
    baselines: str = typer.Option(
        "random,log-spectrum,majority", "--baselines", help="Comma-separated; 'none' for the model alone."
    ),
    probes: str = typer.Option("linear", "--probes", help="linear, rbf, or both with a comma."),
    kind: str = typer.Option(
        None, "--kind", help="Read every file as iq, audio, seismic, image, video, text or array."
    ),
    rate: float = typer.Option(None, "--rate", help="Samples per second, for files that do not say."),
    keep_going: bool = typer.Option(False, "--keep-going", help="Leave out unreadable files instead of stopping."),
    cache: bool = typer.Option(True, "--cache/--no-cache", help="Keep embeddings on disk for the next run."),
    seed: int = typer.Option(0, "--seed", help="Of the folds."),
) -> None:
    """Embed labelled files, cross-validate a linear probe on them, and write a report with baselines beside it.

    Example: planformer probe recordings/ --out report
    """
    from planformer.cli.evaluate import Plan, run_and_report
    from planformer.evaluation.folder import load_labelled
    from planformer.evaluation.splits import check_classes, encode_labels

    task = load_labelled(source, kind=kind, rate=rate, keep_going=keep_going)
    check_classes(*encode_labels(task.data.labels))
    for note in task.data.notes:
        typer.echo(note, err=True)
    command = f"planformer probe {source} --out {out} --baselines {baselines} --probes {probes} --seed {seed}"
    run_and_report(
        Plan(
            tasks=[task],
            model=model,
            baselines=baselines,
            probes=probes,
            out=out,
            cache=cache,
            seed=seed,
            command=command + (f" --model {model}" if model else ""),
            title=f"PlanFormer probe: {source.name}",
            random_seeds=1,
        )
    )
