"""Regularisers of sinks and focus layers (paper, Appendix A "Noise Sink" (a), (b); Appendix B "Skip Sinks" (1)-(3)).

Terms that need a layer's inner tensors (head orthogonality, Parseval consistency, focus diversity and norm, noise
decorrelation, the skip sinks' correlations) are computed inside the layer and arrive as ``aux`` scalars named
"group/term"; here they are collected by group. The terms across layers are computed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from planformer.errors import ConfigError

ENCODER_GROUPS = ("orthogonality", "parseval_jsd", "focus_diversity", "focus_norm", "noise_decorrelation")
DECODER_GROUPS = ("skip_decorrelation", "sink_latent_decorrelation", "target_alignment")
PEARSON_EPS = 1e-12


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """Correlation per sample over all other axes, ``[B]``; zero with finite slope for a constant input.

    >>> pearson(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2.0, 4.0, 6.0]]))
    tensor([1.])
    """
    a, b = a.flatten(1), b.flatten(1)
    a, b = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
    power = a.square().mean(1) * b.square().mean(1)
    return (a * b).mean(1) * torch.rsqrt(power + PEARSON_EPS)


def collect_groups(aux: Mapping[str, Tensor], expected: Iterable[str], reduction: str) -> dict[str, Tensor]:
    """Sum (or average) the scalars of each group; an unknown or a missing group is an error.

    >>> collect_groups({"orthogonality/a": torch.tensor(1.0)}, ["orthogonality"], "sum")
    {'orthogonality': tensor(1.)}
    """
    expected = list(expected)
    groups: dict[str, list[Tensor]] = {name: [] for name in expected}
    for key, value in aux.items():
        group = key.partition("/")[0]
        if group not in groups:
            raise ConfigError(f"aux term {key!r} belongs to no known regulariser ({', '.join(expected)})")
        if value.ndim:
            raise ConfigError(f"aux term {key!r} is a tensor of shape {tuple(value.shape)}, not a scalar")
        groups[group].append(value)
    missing = [name for name, values in groups.items() if not values]
    if missing:
        raise ConfigError(f"no aux term for {', '.join(missing)}: run the modules with return_aux=True")
    collected = {}
    for name, values in groups.items():
        stacked = torch.stack(values)
        collected[name] = stacked.sum() if reduction == "sum" else stacked.mean()
    return collected


def power_distance(estimated: Tensor, injected: Tensor) -> Tensor:
    """``|sum of sunk power - injected power|`` per sample, ``[B]``."""
    return (estimated - injected).abs()


def log_ratio(signal: Tensor, noise: Tensor, floor: float) -> Tensor:
    """``log(signal) - log(noise)`` of powers, finite at zero power."""
    return torch.log(signal + floor) - torch.log(noise + floor)


def snr_distance(reconstructed: Tensor, estimated: Tensor, signal: Tensor, injected: Tensor, floor: float) -> Tensor:
    """Squared error of the log SNR per sample, ``[B]``; all arguments are powers ``[B]``.

    Estimate and truth have the same floor, so an SNR beyond it (40 dB for 1e-4) is neither demanded nor rewarded.
    """
    error = log_ratio(reconstructed, estimated, floor) - log_ratio(signal, injected, floor)
    return error.square()


def snr_db_to_log(snr_db: Tensor) -> Tensor:
    """Decibels to the natural logarithm that the SNR regression works in."""
    return snr_db * (math.log(10) / 10)
