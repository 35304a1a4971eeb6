"""Focal Huber regression with an adaptive exponent, and its circular variant (paper, Appendix C, "Equivariance Loss").

A term is built in two steps: a distance per sample (or token), which each rank computes alone, and the focal mean
over all distances of the joined batch, whose weights need the batch's mean and spread.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from planformer.losses.config import FocalConfig

PHASE_EPS = 1e-6  # squared magnitude below which the slope of an angle is damped
VARIANCE_EPS = 1e-16  # keeps the slope of a standard deviation finite for equal distances


def huber_distance(prediction: Tensor, target: Tensor, config: FocalConfig) -> Tensor:
    """Huber error averaged over the last axis: ``[B, ..., d] -> [B, ...]``.

    >>> huber_distance(torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2), FocalConfig(delta=1.0))
    tensor([0.2500])
    """
    if prediction.shape != target.shape:
        raise ValueError(f"prediction {tuple(prediction.shape)} and target {tuple(target.shape)} differ in shape")
    return F.huber_loss(prediction, target, reduction="none", delta=config.delta).mean(-1)


def focal_weights(distance: Tensor, config: FocalConfig) -> Tensor:
    """``max(floor, (d / mean d)^gamma_adaptive)``; the exponent grows with the spread of the distances."""
    normalised = distance / (distance.mean() + config.eps)
    spread = torch.sqrt(distance.var() + VARIANCE_EPS) if distance.numel() > 1 else distance.new_zeros(())
    gamma = config.gamma * (1 + torch.log1p(spread))
    return normalised.pow(gamma).clamp_min(config.floor)


def focal_mean(distance: Tensor, config: FocalConfig) -> Tensor:
    """Mean of the distances weighted by how hard each is within the batch."""
    if config.detach_weights:
        with torch.no_grad():
            weights = focal_weights(distance, config)
    else:
        weights = focal_weights(distance, config)
    return (weights * distance).mean()


def focal_huber(prediction: Tensor, target: Tensor, config: FocalConfig) -> Tensor:
    """Both steps in one, for a single rank.

    >>> focal_huber(torch.ones(4, 2), torch.ones(4, 2), FocalConfig())
    tensor(0.)
    """
    return focal_mean(huber_distance(prediction, target, config), config)


def wrap(angle: Tensor) -> Tensor:
    """Map an angle to ``[-pi, pi)``."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def circular_distance(prediction: Tensor, target: Tensor, config: FocalConfig) -> Tensor:
    """Huber distance in radians between codes of a full turn in ``[0, 1]``: ``[B, d] -> [B]``.

    >>> bool(circular_distance(torch.tensor([[0.0]]), torch.tensor([[1.0]]), FocalConfig()) < 1e-9)
    True
    """
    error = wrap(2 * math.pi * (target - prediction))
    return huber_distance(error, torch.zeros_like(error), config)


class _Angle(torch.autograd.Function):
    """Angle of real and imaginary parts; the slope 1 / m^2 is damped to 1 / (m^2 + eps), zero at the origin."""

    @staticmethod
    def forward(ctx: Any, real: Tensor, imaginary: Tensor) -> Tensor:
        ctx.save_for_backward(real, imaginary)
        return torch.atan2(imaginary, real)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        real, imaginary = ctx.saved_tensors
        scaled = grad / (real.square() + imaginary.square() + PHASE_EPS)
        return -imaginary * scaled, real * scaled


def phase_error(prediction: Tensor, target: Tensor) -> Tensor:
    """Wrapped angle from prediction to target for interleaved ``[B, 2n]``: ``[B, n]`` in ``[-pi, pi]``.

    It is the angle of target times conjugate prediction, so it needs no wrapping, and where either is zero, a phase
    being meaningless there, error and gradient are zero.
    """
    p, t = prediction.unflatten(-1, (-1, 2)), target.unflatten(-1, (-1, 2))  # (B, n, 2)
    real = (p * t).sum(-1)
    imaginary = p[..., 0] * t[..., 1] - p[..., 1] * t[..., 0]
    angle: Tensor = _Angle.apply(real, imaginary)
    return angle
