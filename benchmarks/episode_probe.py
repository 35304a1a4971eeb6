"""Probes on made-up data sets of radio: how well weights tell classes apart that no evaluation set knows.

    python -m benchmarks.episode_probe --radio RADIO [--weights runs/a/last runs/b/last] [--episodes 24]

Episodes (:mod:`planformer.data.episodes`) from the parts of the recordings that never train, the same for all rows of
the table; the figure is the error of ridge probes, each fitted without the member it names, in percent of guessing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from planformer.data.recordings import RecordingSet
from planformer.data.scenes import NAMES
from planformer.errors import PlanFormerError
from planformer.iq import deinterleave
from planformer.losses.batch_probe import class_gram, leave_one_out, standardised
from planformer.losses.descriptors import Descriptors
from planformer.models.planformer import PlanFormer
from planformer.training.recipe import load_recipe
from planformer.training.stream import BatchStream

RECIPE = Path(__file__).parents[1] / "recipes" / "episodes.yaml"
Features = Callable[[Tensor], Tensor]  # interleaved segments [B, 2n] -> [B, d]


def described() -> Features:
    """All descriptors, each standardised within the episode."""
    descriptors = Descriptors()
    return lambda x: torch.cat([standardised(values) for values in descriptors(deinterleave(x)).values()], 1)


def embedded(model: PlanFormer) -> Features:
    return lambda x: model.encoder(x, return_aux=False).embedding


@torch.no_grad()
def errors(rows: dict[str, Features], radio: Path, episodes: int, size: int, seed: int) -> dict[str, list[float]]:
    """For each of the rows the mean error of each kind of episode, and of all of them."""
    data = RecordingSet.from_folder(radio, "validation")
    found: dict[str, list[float]] = {name: [] for name in rows}
    for kind in track(NAMES, description="episodes"):
        shares = [f"scenes.{name}={float(name == kind)}" for name in NAMES]
        settings = [f"scenes.size={size}", f"data.batch_size={size}", f"seed={seed}"]
        stream = BatchStream(data, load_recipe(RECIPE, [*shares, *settings, "data.emitters_per_batch=2"]))
        batches = [stream.batch(step) for step in range(episodes)]
        for name, features in rows.items():
            scores = [leave_one_out(features(b.clean).double(), class_gram(b.kinds)) for b in batches]
            found[name].append(float(torch.stack(scores).clamp_max(2.0).mean()))
    return {name: [*values, float(np.mean(values))] for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radio", type=Path, required=True, help="folder of recordings (planformer simulate all)")
    parser.add_argument("--weights", nargs="+", default=[], help="weights folders beside the shipped ones")
    parser.add_argument("--episodes", type=int, default=24, help="of each kind")
    parser.add_argument("--size", type=int, default=32, help="members of an episode")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.episodes < 1:
        parser.error("--episodes is 1 or more")
    rows: dict[str, Features] = {"shipped weights": embedded(PlanFormer.from_pretrained())}
    try:
        rows |= {name: embedded(PlanFormer.load(name)) for name in [*options.weights, "random:0"]}
        rows["all descriptors"] = described()
        found = errors(rows, options.radio, options.episodes, options.size, options.seed)
    except PlanFormerError as error:
        parser.error(str(error))
    table = Table("features", *NAMES, "mean")
    for name, values in found.items():
        table.add_row(name, *(f"{100 * value:.1f}" for value in values))
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
