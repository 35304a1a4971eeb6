"""What a recipe's likeness asks for, probed as the report probes embeddings: what weights could reach at the most.

    python -m benchmarks.target_probe --data DATA --validation RADIO1 --radio RADIO --recipe recipes/tokens.yaml \
        --weights WEIGHTS [--limit 600]

The target of :mod:`planformer.losses.likeness` is computed instead of learned, on the rows of `planformer evaluate
--validation RADIO1`; its components are fixed on the recordings in RADIO, as a run that begins from WEIGHTS fixes them.
A data set takes the kind of scene that it resembles. The weights' own embedding and tokens stand beside it.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from planformer.cli.evaluate import load_tasks
from planformer.data.recordings import RecordingSet
from planformer.data.scenes import NAMES
from planformer.errors import PlanFormerError
from planformer.evaluation.cache import FeatureCache, default_cache
from planformer.evaluation.featurisers import Features, SegmentFeatures, Segments
from planformer.evaluation.models import load_model
from planformer.evaluation.run import Evaluation, evaluate
from planformer.iq import interleave
from planformer.training.extra import ExtraTerms
from planformer.training.recipe import load_recipe
from planformer.training.stream import BatchStream
from planformer.training.trainee import build_encoder

SCENES = {"iq": "recorded", "image": "picture", "video": "picture", "text": "letters", "audio": "voice"}
TONES = ("tinysol", "gtzan")  # sound that is no speech
MOST_SEGMENTS = 4  # of a signal, evenly spread: the target is their mean


class TargetFeatures(SegmentFeatures):
    """The target of one kind of scene."""

    name, title = "target", "what the recipe asks for"

    def __init__(self, terms: ExtraTerms, scene: str) -> None:
        super().__init__()
        self.terms, self.scene = terms, NAMES.index(scene)

    @torch.no_grad()
    def channel_features(self, segments: Segments, *, analytic: bool) -> Features:
        channels, count, length = segments.shape
        chosen = np.linspace(0, count - 1, min(count, MOST_SEGMENTS)).astype(int)
        x = torch.from_numpy(np.ascontiguousarray(segments[:, chosen].reshape(-1, length)))
        assert self.terms.likeness is not None
        nobody = torch.zeros(len(x), dtype=torch.int64)
        described = self.terms.describe(interleave(x))
        found = self.terms.likeness.target(described, nobody, nobody, torch.full_like(nobody, self.scene))
        return found.unflatten(0, (channels, -1)).mean(1).numpy()


def scene_of(task: str, kind: str) -> str:
    """The kind of scene that a task's signals resemble; general where none does.

    >>> scene_of("tinysol-family", "audio"), scene_of("fsdd-digit", "audio"), scene_of("quake", "seismic")
    ('tone', 'voice', 'general')
    """
    return "tone" if task.startswith(TONES) else SCENES.get(kind, "general")


def calibrated(recipe_file: Path, radio: Path, weights: str) -> ExtraTerms:
    """The extra terms of a run that begins from ``weights``, fixed on its own batches."""
    recipe = load_recipe(recipe_file, [f"networks.init_from={weights}"])
    encoder = build_encoder(recipe).eval()
    terms = ExtraTerms(recipe, encoder)
    if terms.likeness is None:
        raise PlanFormerError(f"{recipe_file}: it has no likeness (extra.likeness_weight)")
    stream = BatchStream(RecordingSet.from_folder(radio, "train"), recipe)
    batches = math.ceil(recipe.extra.descriptors_calibration / recipe.data.batch_size)
    steps = track(range(batches), description="fixing the components")
    terms.calibrate((stream.batch(step) for step in steps), encoder)
    return terms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--validation", type=Path, required=True, help="`planformer simulate eval --seed 1` wrote it")
    parser.add_argument("--radio", type=Path, required=True, help="recordings that fix the components")
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--weights", required=True, help="folder of weights that the recipe would begin from")
    parser.add_argument("--limit", type=int, default=600, help="items of each task at the most")
    parser.add_argument("--tasks", default="present", help="comma-separated names")
    options = parser.parse_args()
    try:
        terms = calibrated(options.recipe, options.radio, options.weights)
        tasks = load_tasks(options.data, options.tasks, options.limit, options.validation)
        judged = load_model(options.weights)
    except PlanFormerError as error:
        parser.error(str(error))
    runs: list[Evaluation] = []
    cache = FeatureCache(default_cache())  # not for the target: its key would have to hold recipe and recordings
    for task in track(tasks, description="probing"):
        kind = "image" if task.data.is_images else task.data.kind
        target = TargetFeatures(terms, scene_of(task.name, kind))
        runs.append(evaluate([task], [target], model="target", majority=False))
        runs[-1].entries += evaluate([task], judged.readouts(), model="target", majority=False, cache=cache).entries
    names = list(dict.fromkeys(entry.method for run in runs for entry in run.entries))
    table = Table("features", *(task.name for task in tasks), "mean", "grouped mean")
    for name in names:
        cells, first, grouped = [], [], []
        for run in runs:
            found = [100 * e.result.top1_mean for e in run.entries if e.method == name]
            cells.append(" / ".join(f"{value:.1f}" for value in found))
            first.append(found[0])
            grouped += found[1:]
        table.add_row(name, *cells, f"{np.mean(first):.1f}", f"{np.mean(grouped):.1f}" if grouped else "-")
    Console(width=230).print(table)


if __name__ == "__main__":
    main()
