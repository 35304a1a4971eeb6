"""How well ridge probes, each fitted to a batch without one of its signals, describe that signal: our addition.

A frozen probe is fitted to one data set, whose signals share a rate, a converter, a kind, by a few hundred examples.
Here a batch stands for the data set: its descriptors are standardised within it, and a ridge regression from the
embedding predicts each signal from all the others. What raises this is what raises a probe on few examples.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def leave_one_out(embedding: Tensor, target_gram: Tensor, ridge: float = 0.1) -> Tensor:
    """Mean squared leave-one-out error of ridge regression, in units of the targets' variance (scalar).

    ``embedding`` ``[n, d]`` is standardised over the batch. Of the targets ``[n, k]`` only their centred products
    ``T T'`` ``[n, n]`` are needed. About 1 is what the others' mean gives, 0 is perfect. All n regressions come from
    one solution: leaving row i out divides its residual by one minus its leverage.

    >>> z = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> t = z - z.mean(0)
    >>> bool(leave_one_out(z, t @ t.T, ridge=1e-6) < 1e-6)
    True
    """
    n, d = embedding.shape
    z = embedding - embedding.mean(0)
    z = z / z.square().mean(0).clamp_min(1e-12).sqrt()
    identity = torch.eye(n, dtype=z.dtype, device=z.device)
    kernel = z @ z.T / d  # mean of its diagonal: 1
    # I - H, where H maps targets to fitted values, the mean of the batch included.
    residual = ridge * torch.linalg.inv(kernel + ridge * identity) - 1 / n
    leverage = 1 - residual.diagonal()
    errors = (residual @ target_gram * residual).sum(1) / (1 - leverage).square()
    return errors.sum() / target_gram.diagonal().sum()


def compressed_gram(targets: Tensor, power: float) -> Tensor:
    """Products ``[n, n]`` of the centred targets ``[n, k]``, their principal components' variances raised to ``power``.

    1 keeps them, 0 makes every component count alike.
    """
    centred = (targets - targets.mean(0)).double()
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    values = torch.where(values > 1e-9 * values[-1], values, 0.0)
    raised = torch.where(values > 0, values.clamp_min(1e-300) ** power, 0.0)
    return ((vectors * raised) @ vectors.T).to(targets.dtype)


def add_classes(gram: Tensor, labels: Tensor, share: float) -> Tensor:
    """Let the probes tell classes apart as well: their indicators' products beside those of the other targets.

    Both are brought to a total variance of one before the classes get their share.
    """
    classes = class_gram(labels).to(gram.dtype)
    parts = [part / part.diagonal().sum().clamp_min(1e-12) for part in (gram, classes)]
    return parts[0] + share * parts[1]


def class_gram(labels: Tensor) -> Tensor:
    """Products ``[n, n]`` of the centred indicators of the classes."""
    indicators = (labels[:, None] == labels.unique()).double()
    centred = indicators - indicators.mean(0)
    return centred @ centred.T


def standardised(values: Tensor) -> Tensor:
    """One group of descriptors ``[n, k]`` at unit deviation over the batch, clipped at five; its total power is one.

    A descriptor that hardly varies here stays small: what is the same in all signals of a batch says nothing.
    """
    deviation = values.std(0, correction=0)
    scale = deviation.clamp_min(0.05 * deviation.mean() + 1e-6)
    return ((values - values.mean(0)) / scale).clamp(-5, 5) / math.sqrt(values.shape[1])
