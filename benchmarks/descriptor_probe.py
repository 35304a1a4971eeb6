"""The teacher beside the pupil: ridge probes of the physical descriptors themselves on the compass's validation rows.

    python -m benchmarks.descriptor_probe --data DIR [--groups amplitudes phase_steps]

What an embedding trained by :mod:`planformer.losses.descriptors` could reach if a linear map read all of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.table import Table

from planformer.evaluation.compass import EmbedFunction, Segments, compass
from planformer.losses.descriptors import Descriptors, descriptor_sizes
from planformer.models.planformer import PlanFormer


def reader(groups: list[str]) -> EmbedFunction:
    """The named groups of one segment's descriptors as features."""
    descriptors = Descriptors()

    def features(segments: Segments) -> npt.NDArray[np.floating]:
        pieces = torch.from_numpy(np.ascontiguousarray(segments[:, 0])).split(64)
        found = [descriptors(piece) for piece in pieces]
        return torch.cat([torch.cat([part[name] for name in groups], 1) for part in found]).numpy()

    return features


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--groups", nargs="+", default=["amplitudes", "phase_steps"], choices=list(descriptor_sizes()))
    options = parser.parse_args()
    rows: dict[str, EmbedFunction] = {"shipped weights": PlanFormer.from_pretrained().embed_segments}
    rows["all descriptors"] = reader(list(descriptor_sizes()))
    rows |= {name: reader([name]) for name in options.groups}
    table: Table | None = None
    for name, features in rows.items():
        result = compass(features, options.data)
        table = table or Table("features", *result)
        table.add_row(name, *(f"{100 * value:.1f}" for value in result.values()))
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
