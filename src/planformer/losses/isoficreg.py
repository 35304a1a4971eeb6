"""Isotropic focal invariance and covariance regularisation (paper, Appendix C, "IsoFICReg").

Four views of a batch (augmented and latent-transformed, each in time and frequency) are Z-scored; all six pairs of
views give an invariance and a repulsion term from one distance matrix each, every view one covariance term.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from planformer.losses.config import IsoFICRegConfig
from planformer.losses.distributed import at_least_single

VIEWS = ("augmented_time", "augmented_frequency", "latent_time", "latent_frequency")
# In-domain pairs join augmented with latent only; across domains all four combinations are taken.
PAIRS = {
    "time": (0, 2),
    "frequency": (1, 3),
    "cross_augmented": (0, 1),
    "cross_latent": (2, 3),
    "cross_augmented_latent": (0, 3),
    "cross_latent_augmented": (2, 1),
}
NUM_IN_DOMAIN = 2  # the first two of PAIRS


def standardise(x: Tensor, eps: float) -> Tensor:
    """Z-scores over the batch axis (the second last), per dimension, with the unbiased variance."""
    centred = x - x.mean(-2, keepdim=True)
    variance = centred.square().sum(-2, keepdim=True) / max(x.shape[-2] - 1, 1)
    return centred * torch.rsqrt(variance + eps)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """``|a_i - b_j|^2`` for ``[..., B, d]`` by one matrix product, without a ``[B, B, d]`` difference."""
    products = a @ b.transpose(-1, -2)
    norms = a.square().sum(-1).unsqueeze(-1) + b.square().sum(-1).unsqueeze(-2)
    return (norms - 2 * products).clamp_min(0)


def focal_factor(x: Tensor, gamma: float) -> Tensor:
    """``(1 - exp(-x))^gamma`` for x >= 0."""
    if gamma == 0:
        return torch.ones_like(x)
    return (-torch.expm1(-x)).pow(gamma)


@dataclass
class PairWeights:
    """Weights of the pairs (i, j) of a batch: ``positive`` sums to 1 over classes, ``negative`` to 1 (or 0)."""

    positive: Tensor  # [B, B]
    negative: Tensor  # [B, B]


def pair_weights(labels: Tensor, pairs: str = "triangle") -> PairWeights:
    """Same-emitter pairs averaged within each emitter, then over emitters; different-emitter pairs averaged.

    "triangle" takes i <= j: the N-choose-2 pairs across the branches and each sample with itself; "all" every
    ordered pair, which makes the loss symmetric in its two branches.
    """
    same = labels.unsqueeze(0) == labels.unsqueeze(1)  # (B, B)
    members = same.sum(1).to(torch.get_default_dtype())
    num_classes = members.reciprocal().sum()
    count = members * (members + 1) / 2 if pairs == "triangle" else members.square()
    chosen = same.triu() if pairs == "triangle" else same
    positive = chosen / (count * num_classes).unsqueeze(1)
    different = ~same
    return PairWeights(positive, different / different.sum().clamp_min(1))


def focal_invariance(distance: Tensor, weights: PairWeights, gamma: float) -> Tensor:
    """``[..., B, B]`` distances -> one invariance loss per leading index."""
    return (weights.positive * focal_factor(distance, gamma) * distance).sum((-2, -1))


def focal_repulsion(distance: Tensor, weights: PairWeights, margin: float, gamma: float) -> Tensor:
    """``log(1 + repulsion)`` of width-normalised distances; zero when all samples are of one emitter."""
    violation = torch.relu(margin - distance)
    return torch.log1p((weights.negative * focal_factor(violation, gamma) * violation).sum((-2, -1)))


def focal_covariance(z: Tensor, gamma: float, scale: str = "pairs") -> Tensor:
    """Focal sum of squared off-diagonal covariances (i < j) of Z-scores ``[..., B, d]``, one per leading index."""
    batch, dim = z.shape[-2:]
    covariance = z.transpose(-1, -2) @ z / max(batch - 1, 1)  # (..., d, d)
    squared = covariance.square()
    squared = squared - torch.diag_embed(squared.diagonal(dim1=-2, dim2=-1))
    divisor = dim * (dim - 1) if scale == "pairs" else dim
    return (focal_factor(squared, gamma) * squared).sum((-2, -1)) / (2 * divisor)


def isoficreg(views: Tensor, labels: Tensor, config: IsoFICRegConfig) -> dict[str, Tensor]:
    """All terms for projections ``[4, B, d]`` in the order of VIEWS, unweighted except for the domain weights.

    >>> terms = isoficreg(torch.randn(4, 8, 16), torch.arange(8) % 4, IsoFICRegConfig())
    >>> sorted(terms)[:2]
    ['covariance', 'invariance_cross']
    """
    z = standardise(at_least_single(views), config.eps)
    weights = pair_weights(labels, config.pairs)
    first, second = (list(side) for side in zip(*PAIRS.values(), strict=True))
    distance = squared_distances(z[first], z[second])  # (6, B, B)
    normalised = distance / views.shape[-1]
    attraction = normalised if config.normalise_distance else distance
    invariance = focal_invariance(attraction, weights, config.invariance_gamma)  # (6,)
    repulsion = focal_repulsion(normalised, weights, config.margin, config.repulsion_gamma)
    covariance = focal_covariance(z, config.covariance_gamma, config.covariance_scale)  # (4,)
    terms = {}
    for name, value in (("invariance", invariance), ("repulsion", repulsion)):
        terms[f"{name}_time"] = config.in_domain_weight * value[0]
        terms[f"{name}_frequency"] = config.in_domain_weight * value[1]
        terms[f"{name}_cross"] = config.cross_domain_weight * value[NUM_IN_DOMAIN:].sum()
    # Each view takes part in one in-domain and two cross-domain pairs, and each pair adds both views' covariance.
    multiplicity = config.in_domain_weight + 2 * config.cross_domain_weight
    terms["covariance"] = multiplicity * covariance.sum()
    return terms
