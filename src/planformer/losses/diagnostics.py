"""Cheap health figures of a batch, from the tensors that the losses already have (no gradient).

They show what a falling loss can hide: collapse (effective rank, per-dimension deviation), redundancy (off-diagonal
covariance), alignment against uniformity, and focal weights that have saturated and no longer focus on anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from planformer.losses.config import FocalConfig, IsoFICRegConfig
from planformer.losses.focal import focal_weights
from planformer.losses.isoficreg import PAIRS, focal_factor, pair_weights, squared_distances, standardise
from planformer.losses.led import code_errors


def effective_rank(x: Tensor) -> float:
    """Exponential of the entropy of the covariance's eigenvalues, between 1 and min(B - 1, d), for ``[B, d]``.

    >>> round(effective_rank(torch.eye(5) - 0.2), 3)
    4.0
    """
    x = (x - x.mean(0)).double()
    gram = x @ x.T if x.shape[0] < x.shape[1] else x.T @ x  # the smaller of the two has the same spectrum
    eigenvalues = torch.linalg.eigvalsh(gram).clamp_min(0)
    total = eigenvalues.sum()
    if total <= 0:
        return 1.0
    share = eigenvalues / total
    return float(torch.exp(-torch.xlogy(share, share).sum()))


def spread(x: Tensor) -> dict[str, float]:
    """Standard deviations per dimension and mean absolute off-diagonal correlation of ``[B, d]``."""
    deviation = x.std(0, correction=0)
    z = standardise(x, 1e-12)
    correlation = (z.T @ z / max(x.shape[0] - 1, 1)).abs()
    dim = x.shape[1]
    off_diagonal = (correlation.sum() - correlation.diagonal().sum()) / max(dim * (dim - 1), 1)
    return {
        "std_mean": float(deviation.mean()),
        "std_min": float(deviation.min()),
        "off_diagonal": float(off_diagonal),
    }


def alignment_uniformity(a: Tensor, b: Tensor, labels: Tensor) -> tuple[float, float]:
    """Mean squared distance of same-emitter pairs on the unit sphere, and log of the mean Gaussian potential."""
    a, b = torch.nn.functional.normalize(a, dim=-1), torch.nn.functional.normalize(b, dim=-1)
    weights = pair_weights(labels, "all")
    aligned = (weights.positive * squared_distances(a, b)).sum()
    own = squared_distances(a, a)
    others = ~torch.eye(len(a), dtype=torch.bool, device=a.device)
    potential = torch.exp(-2 * own[others])
    uniform = potential.mean().log() if potential.numel() else own.new_zeros(())
    return float(aligned), float(uniform)


def pair_focal_weights(views: Tensor, labels: Tensor, config: IsoFICRegConfig) -> dict[str, float]:
    """Mean and deviation of the invariance's and repulsion's focal weights, and the mean positive distance."""
    z = standardise(views.float(), config.eps)
    first, second = PAIRS["time"]
    normalised = squared_distances(z[first], z[second]) / views.shape[-1]
    distance = normalised if config.normalise_distance else normalised * views.shape[-1]
    weights = pair_weights(labels, config.pairs)
    positive = focal_factor(distance, config.invariance_gamma)[weights.positive > 0]
    result = {
        "focal/invariance_mean": float(positive.mean()),
        "focal/invariance_std": float(positive.std(correction=0)),
        "distance/positive": float((weights.positive * normalised).sum()),
    }
    if bool((weights.negative > 0).any()):
        chosen = weights.negative > 0
        violation = torch.relu(config.margin - normalised)[chosen]
        negative = focal_factor(violation, config.repulsion_gamma)
        result["focal/repulsion_mean"] = float(negative.mean())
        result["focal/repulsion_std"] = float(negative.std(correction=0))
        result["distance/negative"] = float(normalised[chosen].mean())
    return result


@torch.no_grad()
def diagnose(
    rows: Mapping[str, Tensor], views: Tensor, labels: Tensor, isoficreg: IsoFICRegConfig, focal: FocalConfig
) -> dict[str, float]:
    """All figures for gathered rows: latents ``clean`` and ``augmented``, codes, LED distances, views ``[4, B, d]``."""
    clean, augmented = rows["clean"].float(), rows["augmented"].float()
    aligned, uniform = alignment_uniformity(augmented, clean, labels)
    result = {
        "rank/embedding": effective_rank(clean),
        "rank/projection_time": effective_rank(views[0].float()),
        "alignment": aligned,
        "uniformity": uniform,
        **{f"embedding/{name}": value for name, value in spread(clean).items()},
        **pair_focal_weights(views, labels, isoficreg),
    }
    weights = focal_weights(rows["input_linear"], focal)
    result["focal/led_mean"] = float(weights.mean())
    result["focal/led_std"] = float(weights.std(correction=0))
    for branch in ("input", "latent"):
        for name, error in code_errors(rows[f"predicted_{branch}"], rows["code"]).items():
            result[f"led_{branch}/{name}"] = float(error)
    return result
