"""Random-weight ridge probes over configuration changes: a compass for every choice that needs no training.

    python -m benchmarks.random_probe --data DIR [--seeds 0 1 2] [--limit 600] [--tasks mnist] [--rows default paper]

Each row is one change of :class:`planformer.PlanFormerConfig`; each column the mean ridge-probe accuracy of frozen
random weights on one public set, over the seeds. The effective rank of the embeddings stands beside it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from planformer.config import PlanFormerConfig, Start
from planformer.evaluation.ridge import ridge_probe
from planformer.evaluation.tasks import TaskData, get_task
from planformer.models.planformer import PlanFormer
from planformer.signals import PreprocessConfig

TASKS = ("fsdd-speaker", "fsdd-digit", "mnist", "tinysol-instrument", "quake", "text-topic", "bloodcells")
ROWS: dict[str, dict[str, Any]] = {
    "default": {},
    "spectral pooling": {"pooling": "frequency"},
    "cross-window after pooling": {"cross_window_position": "after_pooling"},
    "centring over tokens": {"centring": "tokens"},
    "torch's start values": {"start": "torch"},
    "sharp start values": {"start": "sharp"},
    "level start values": {"start": "level"},
    "open start values": {"start": "open"},
    "balanced start values": {"start": "balanced"},
    "short signals tiled": {"preprocess": PreprocessConfig(short="tile")},
    "short signals resampled": {"preprocess": PreprocessConfig(short="resample")},
    "normalise the signal": {"preprocess": PreprocessConfig(normalise="signal")},
    "mean kept": {"preprocess": PreprocessConfig(remove_mean=False)},
}


def configuration(row: str, start: Start) -> PlanFormerConfig:
    """The configuration of a row, ``start`` where it names no other; ``paper``: all of the paper's choices at once."""
    return PlanFormerConfig.paper() if row == "paper" else PlanFormerConfig(**{"start": start, **ROWS[row]})


def effective_rank(features: npt.NDArray[np.float32]) -> float:
    """exp of the entropy of the covariance's normalised eigenvalues."""
    values = np.linalg.svd(features - features.mean(axis=0), compute_uv=False) ** 2
    share = values[values > 0] / values.sum()
    return float(np.exp(-np.sum(share * np.log(share))))


def load(name: str, folder: Path, limit: int) -> TaskData:
    """A task's items, thinned to ``limit`` at random but always the same ones."""
    data = get_task(name).load(folder)
    if len(data) <= limit:
        return data
    return data.subset(np.sort(np.random.default_rng(0).permutation(len(data))[:limit]))


def probe(config: PlanFormerConfig, data: TaskData, seed: int) -> tuple[float, float]:
    """Accuracy and effective rank of one set under one random network."""
    features = PlanFormer.random(seed, config).embed_many(
        list(data.items), rate=data.rate, kind=data.kind, **data.read_options
    )
    return ridge_probe(features, data.labels, groups=data.groups, seed=0), effective_rank(features)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--limit", type=int, default=600, help="items of each set")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--rows", nargs="+", default=[*ROWS, "paper"], choices=[*ROWS, "paper"])
    parser.add_argument("--start", default=PlanFormerConfig().start, choices=get_args(Start), help="of all rows")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    sets = {name: load(name, options.data, options.limit) for name in options.tasks}
    console = Console(width=160)
    table = Table("row", *sets, "mean", "rank", "s")
    results = {}
    for row in options.rows:
        started = time.perf_counter()
        found = np.array(
            [[probe(configuration(row, options.start), data, seed) for data in sets.values()] for seed in options.seeds]
        )
        accuracy = 100 * found[..., 0]  # (seeds, tasks)
        cells = [f"{m:.1f} ±{s:.1f}" for m, s in zip(accuracy.mean(0), accuracy.std(0), strict=True)]
        seconds = f"{time.perf_counter() - started:.0f}"
        table.add_row(row, *cells, f"{accuracy.mean():.1f}", f"{found[..., 1].mean():.0f}", seconds)
        results[row] = {"accuracy": accuracy.tolist(), "rank": found[..., 1].tolist(), "tasks": list(sets)}
        console.print(f"{row}: {', '.join(cells)}")
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
