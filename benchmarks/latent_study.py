"""What the two latents hold, trained beside random: why images gain less than sound.

    python -m benchmarks.latent_study --data DIR [--model FOLDER] [--sets mnist fsdd-digit] [--seeds 0 1]

For each set of the compass (validation rows only) and each encoder: the effective rank of the latents, how many tokens
the attentional pooling really uses, how much of the frequency latent a linear map reads from the time latent, and
ridge probes of each latent, both, and the plain mean of the tokens. The encoder has no batch normalisation, so its
statistics can't be the cause.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.random_probe import effective_rank
from planformer.evaluation.compass import CompassSet, compass_sets
from planformer.evaluation.ridge import ridge_probe
from planformer.iq import interleave
from planformer.models.encoder import Encoder
from planformer.models.planformer import PlanFormer

Floats = npt.NDArray[np.float32]
SETS = ("mnist", "fashion-mnist", "bloodcells", "fsdd-digit", "tinysol-instrument")


@torch.inference_mode()
def readings(encoder: Encoder, segments: npt.NDArray[np.complex64]) -> dict[str, Floats]:
    """Latents, token means and the pooling's weights of ``[n, 5120]`` segments."""
    parts: dict[str, list[torch.Tensor]] = {}
    for piece in torch.from_numpy(np.ascontiguousarray(segments)).split(32):
        out = encoder(interleave(piece), return_aux=False)
        found = {
            "time": out.time_latent,
            "frequency": out.frequency_latent,
            "tokens": torch.cat((out.time_tokens.mean(1), out.frequency_tokens.mean(1)), 1),
            "time_weights": encoder.time_pooling.logits(out.time_tokens)[..., 0].softmax(-1),
            "frequency_weights": encoder.frequency_pooling.logits(out.frequency_tokens)[..., 0].softmax(-1),
        }
        for name, value in found.items():
            parts.setdefault(name, []).append(value)
    return {name: torch.cat(values).numpy() for name, values in parts.items()}


def tokens_used(weights: Floats) -> float:
    """exp of the mean entropy of the pooling's weights: all of them if it is a plain mean, one if it has collapsed."""
    return float(np.exp(-(weights * np.log(weights + 1e-12)).sum(1).mean()))


def explained(source: Floats, target: Floats, penalty: float = 10.0) -> float:
    """R² of a ridge map from one latent to the other on held-out rows (every fifth)."""
    held = np.arange(len(source)) % 5 == 0
    mean, scale = source[~held].mean(0), source[~held].std(0) + 1e-9
    rows = (source - mean) / scale
    centre = target[~held].mean(0)
    gram = rows[~held].T @ rows[~held] + penalty * np.eye(rows.shape[1])
    linear = np.linalg.solve(gram, rows[~held].T @ (target[~held] - centre))
    error = np.square(rows[held] @ linear + centre - target[held]).sum()
    return float(1 - error / np.square(target[held] - centre).sum())


def study(encoder: Encoder, name: str, part: CompassSet) -> dict[str, float]:
    count = len(part.segments)
    found = readings(encoder, part.segments[:, :, 0].reshape(-1, part.segments.shape[-1]))
    labels, groups = part.targets[name]

    def probe(*names: str) -> float:
        features = np.concatenate([found[key].reshape(count, -1) for key in names], 1)
        return 100 * ridge_probe(features, labels, groups=groups)

    both = np.concatenate((found["time"], found["frequency"]), 1)
    return {
        "rank, time": effective_rank(found["time"]),
        "rank, frequency": effective_rank(found["frequency"]),
        "rank, both": effective_rank(both),
        "time tokens used": tokens_used(found["time_weights"]),
        "frequency tokens used": tokens_used(found["frequency_weights"]),
        "R² time to frequency": explained(found["time"], found["frequency"]),
        "probe time": probe("time"),
        "probe frequency": probe("frequency"),
        "probe both": probe("time", "frequency"),
        "probe token means": probe("tokens"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--model", default=None, help="weights folder; default: the shipped ones")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of the random encoders")
    options = parser.parse_args()
    models = {f"random:{seed}": PlanFormer.random(seed) for seed in options.seeds}
    models["trained"] = PlanFormer.from_pretrained(options.model) if options.model else PlanFormer.from_pretrained()
    sets = compass_sets(options.data, "small", tasks=tuple(options.sets))
    jobs = [(set_name, model_name) for set_name in sets for model_name in models]
    table: Table | None = None
    for set_name, model_name in track(jobs, console=Console(stderr=True)):
        row = study(models[model_name].encoder.eval(), set_name, sets[set_name])
        if table is None:
            table = Table("set", "encoder", *row)
        table.add_row(
            set_name, model_name, *(f"{value:.2f}" if abs(value) < 1 else f"{value:.1f}" for value in row.values())
        )
    if table is not None:
        Console(width=180).print(table)


if __name__ == "__main__":
    main()
