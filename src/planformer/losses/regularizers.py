"""Regularisers of sinks and focus layers (paper, Appendix A "Noise Sink" (a), (b); Appendix B "Skip Sinks" (1)-(3)).

Terms that need a layer's inner tensors (head orthogonality, Parseval consistency, focus diversity and norm, noise
decorrelation) are computed inside the layer and arrive as ``aux`` scalars named "group/term"; here they are collected
by group. The terms across layers and those of the skip sinks are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from planformer.errors import ConfigError
from planformer.losses.inputs import SinkPair

AUX_GROUPS = ("orthogonality", "parseval_jsd", "focus_diversity", "focus_norm", "noise_decorrelation")
SINK_TERMS = ("skip_decorrelation", "sink_latent_decorrelation", "target_alignment")
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


def snr_distance(reconstructed: Tensor, target: Tensor, estimated: Tensor, injected: Tensor, floor: float) -> Tensor:
    """Squared error of the log SNR per sample, ``[B]``; all arguments are powers ``[B]``.

    ``log(reconstructed / estimated noise) - log(target / injected noise)``. Signal and noise need not be in one scale,
    since each is compared with its own truth. The floor keeps logarithms finite, and beyond it (40 dB for 1e-4) an SNR
    is neither demanded nor rewarded.
    """
    signal = torch.log(reconstructed + floor) - torch.log(target + floor)
    noise = torch.log(estimated + floor) - torch.log(injected + floor)
    return (signal - noise).square()


def mean_token(features: Tensor) -> Tensor:
    """Interleaved features ``[B, W, C, 2n]`` -> their mean complex sample ``[B, 2C]``."""
    return features.unflatten(-1, (-1, 2)).mean((1, -2)).flatten(1)


def guided_correlation(features: Tensor, guide: Tensor) -> Tensor:
    """Correlation ``[B]`` of the features' mean token with the guiding latent, averaged to the same width."""
    token = mean_token(features)
    if guide.shape[-1] != token.shape[-1]:
        guide = F.adaptive_avg_pool1d(guide.unsqueeze(1), token.shape[-1]).squeeze(1)
    return pearson(token, guide)


def sink_rows(sinks: Sequence[SinkPair], reduction: str) -> dict[str, Tensor]:
    """The three terms of all skip sinks per sample ``[B]``, in the order of SINK_TERMS.

    What is removed should be uncorrelated with what is kept and with the latent; what is kept should follow the latent.
    """
    if not sinks:
        raise ConfigError("the decoder returned no skip sinks")
    rows = (
        torch.stack([pearson(s.sink, s.kept).abs() for s in sinks]),
        torch.stack([guided_correlation(s.sink, s.guide).abs() for s in sinks]),
        torch.stack([1 - guided_correlation(s.kept, s.guide) for s in sinks]),
    )
    reduced = [row.sum(0) if reduction == "sum" else row.mean(0) for row in rows]
    return dict(zip(SINK_TERMS, reduced, strict=True))
