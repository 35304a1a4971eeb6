"""Scaled covariance focus as the paper writes it: every matrix formed, nothing fused."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-6) * weight


def glu(x: Tensor, norm: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``weight [in, 2 out]``: value, then gate."""
    value, gate = (rms_norm(x, norm) @ weight + bias).chunk(2, -1)
    return value * torch.sigmoid(gate)


def soft_abs_floor(x: Tensor, eps: float = 1e-4) -> Tensor:
    return x + torch.sign(x) * eps * torch.sigmoid(-torch.abs(x) / eps)


def heads(x: Tensor, count: int) -> Tensor:
    batch, length, dim = x.shape
    return x.view(batch, length, count, dim // count).transpose(1, 2)


def covariance(q: Tensor, k: Tensor, centring: str) -> Tensor:
    dim = -1 if centring == "features" else -2
    return (q - q.mean(dim, keepdim=True)) @ (k - k.mean(dim, keepdim=True)).transpose(-1, -2)


def focus_factor(scores: Tensor, network: nn.Module, index: int = 0) -> Tensor:
    """Steps 1 to 5 of the dynamic focus mechanism on ``[B, H, Nq, Nk]`` -> ``[B, H, 1, 1]``."""
    length = scores.shape[-1]
    variance = scores.var(-2, unbiased=False)
    snr = variance / (variance.sum(-1, keepdim=True) - variance + 1e-8)
    high = (snr > snr.median(-1, keepdim=True).values).float().mean(-1)
    x = torch.stack((snr.mean(-1), high), -1)
    hidden = torch.relu(x @ network.hidden.weight[index] + network.hidden.bias[index])
    share = torch.sigmoid(hidden @ network.output.weight[index] + network.output.bias[index])
    return (1 + (length - 1) * share)[..., None]


def focus(q: Tensor, k: Tensor, v: Tensor, network: nn.Module, index: int, centring: str) -> tuple[Tensor, Tensor]:
    scores = covariance(q, k, centring)
    factor = focus_factor(scores, network, index)
    weights = torch.softmax(scores * k.shape[-2] / (math.sqrt(q.shape[-1]) * factor), -1)
    return weights @ v, weights


def head_orthogonality(weights: Tensor) -> Tensor:
    batch, count, queries, keys = weights.shape
    rows = weights.permute(0, 2, 1, 3).reshape(batch * queries, count, keys)
    rows = rows - rows.mean(-1, keepdim=True)
    similarity = torch.abs(rows @ rows.transpose(-1, -2))
    diagonal = torch.diagonal(similarity, dim1=-2, dim2=-1)
    off = similarity - torch.diag_embed(diagonal)
    return off.abs().mean() + torch.relu(1 - torch.sqrt(diagonal + 1e-4)).mean()
