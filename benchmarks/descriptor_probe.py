"""The teacher beside the pupil: ridge probes of the physical descriptors themselves on the compass's validation rows.

    python -m benchmarks.descriptor_probe --data DIR [--groups amplitudes phase_steps]
    python -m benchmarks.descriptor_probe --data DIR --radio RADIO --recipes recipes/transfer.yaml --size medium

What an embedding trained by :mod:`planformer.losses.descriptors` could reach if a linear map read all of them, and what
the whitened components hold that a recipe asks for (calibrated on its own stream of radio).
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.table import Table

from planformer.data.recordings import RecordingSet
from planformer.evaluation.compass import EmbedFunction, Segments, Size, compass
from planformer.losses.descriptors import GROUPS, Descriptors
from planformer.models.encoder import Encoder
from planformer.models.planformer import PlanFormer
from planformer.training.extra import ExtraTerms
from planformer.training.recipe import load_recipe
from planformer.training.stream import BatchStream


def reader(groups: list[str]) -> EmbedFunction:
    """The named groups of one segment's descriptors as features."""
    descriptors = Descriptors(groups=groups)

    def features(segments: Segments) -> npt.NDArray[np.floating]:
        pieces = torch.from_numpy(np.ascontiguousarray(segments[:, 0])).split(64)
        found = [descriptors(piece) for piece in pieces]
        return torch.cat([torch.cat([part[name] for name in groups], 1) for part in found]).numpy()

    return features


def component_reader(recipe_file: Path, radio: Path) -> EmbedFunction:
    """The components that training by the recipe on these recordings asks for."""
    recipe = load_recipe(recipe_file, [f"data.folder={radio}", "networks.symmetry=false"])
    stream = BatchStream(RecordingSet.from_folder(radio, "train"), recipe)
    encoder = Encoder(recipe.model)
    extra = ExtraTerms(recipe, encoder)
    if extra.descriptors is None or extra.descriptor_loss is None:
        raise SystemExit(f"error: {recipe_file} does not use descriptors")
    extra.calibrate((stream.batch(step) for step in itertools.count()), encoder)
    describe, loss = extra.descriptors, extra.descriptor_loss

    def features(segments: Segments) -> npt.NDArray[np.floating]:
        pieces = torch.from_numpy(np.ascontiguousarray(segments[:, 0])).split(64)
        return torch.cat([loss.targets(describe(piece)) for piece in pieces]).numpy()

    return features


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--groups", nargs="+", default=["amplitudes", "phase_steps"], choices=GROUPS)
    parser.add_argument("--size", default="small", choices=get_args(Size), help="how many rows of each task")
    parser.add_argument("--recipes", nargs="+", type=Path, default=[], help="probe these recipes' components, too")
    parser.add_argument("--radio", type=Path, help="folder of recordings that the recipes train on")
    options = parser.parse_args()
    if options.recipes and options.radio is None:
        parser.error("--recipes needs --radio, the recordings that fix their components")
    rows: dict[str, EmbedFunction] = {"shipped weights": PlanFormer.from_pretrained().embed_segments}
    rows["all descriptors"] = reader(list(GROUPS))
    rows |= {name: reader([name]) for name in options.groups}
    rows |= {path.stem: component_reader(path, options.radio) for path in options.recipes}
    table: Table | None = None
    for name, features in rows.items():
        result = compass(features, options.data, options.size)
        table = table or Table("features", *result)
        table.add_row(name, *(f"{100 * value:.1f}" for value in result.values()))
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
