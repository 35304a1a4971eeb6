"""Scaled covariance focus (paper, Appendix A.6: "Scaled Covariance Focus", "Head Orthogonalization Regularization").

Shapes: queries ``[..., H, Nq, dk]``, keys and values ``[..., H, Nk, dk]``; one focus factor per sample and head.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.nn.paired import PairedLinear

Centring = Literal["features", "tokens"]

FLOOR = 1e-4  # SoftAbsFloor's epsilon
SNR_EPS = 1e-8
ORTHOGONALITY_EPS = 1e-4


def soft_abs_floor(x: Tensor, floor: float = FLOOR) -> Tensor:
    """``x + sign(x) floor sigmoid(-|x| / floor)``: keeps projections away from a collapse to zero.

    >>> soft_abs_floor(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if torch.is_grad_enabled() and x.requires_grad:
        return _SoftAbsFloor.apply(x, floor)
    return torch.addcmul(x, x.sign(), torch.sigmoid(x.abs() * (-1 / floor)), value=floor)


class _SoftAbsFloor(torch.autograd.Function):
    """The same with its derivative 1 - s (1 - s), s = sigmoid(|x| / floor): saves one tensor instead of five."""

    @staticmethod
    def forward(ctx, x: Tensor, floor: float) -> Tensor:  # type: ignore[no-untyped-def]
        gate = torch.sigmoid(x.abs().mul_(-1 / floor))
        ctx.save_for_backward(gate)
        return torch.addcmul(x, x.sign(), gate, value=floor)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        (gate,) = ctx.saved_tensors
        slope = torch.addcmul(gate, gate, gate, value=-1)  # gate (1 - gate)
        return torch.addcmul(grad, grad, slope, value=-1), None


def centre(queries: Tensor, keys: Tensor, centring: Centring) -> tuple[Tensor, Tensor]:
    """Queries and keys whose product is the centred one, ``(Q - mean)(K - mean)^T``.

    Over features, centring is a projection, so centring the keys alone gives the same scores.
    """
    if centring == "features":
        return queries, keys - keys.mean(-1, keepdim=True)
    return queries - queries.mean(-2, keepdim=True), keys - keys.mean(-2, keepdim=True)


def column_variance(queries: Tensor, keys: Tensor) -> Tensor:
    """Variance over the queries of each key's scores, ``[..., H, Nk]``, without the scores.

    ``Var_j(q_j . k_i) = k_i^T Cov(Q) k_i``: dk x dk instead of Nq x Nk numbers.
    """
    spread = queries - queries.mean(-2, keepdim=True)
    covariance = spread.transpose(-1, -2) @ spread / queries.shape[-2]  # (..., H, dk, dk)
    return ((keys @ covariance) * keys).sum(-1).clamp_min(0)


def score_statistics(variance: Tensor) -> Tensor:
    """The focus network's input ``[..., H, 2]``: mean SNR of the tokens, and the share of tokens above the median."""
    total = variance.sum(-1, keepdim=True)
    snr = variance / (total - variance).clamp_min(0).add(SNR_EPS)
    with torch.no_grad():
        high = (snr > snr.median(-1, keepdim=True).values).to(snr.dtype).mean(-1)
    return torch.stack((snr.mean(-1), high), -1)


class FocusNetwork(nn.Module):
    """``f_theta``: score statistics -> focus factor in [1, L]; two inputs, 64 hidden units, one output.

    ``count`` networks side by side, one for each index of the leading axis (the paper's time and frequency views).
    """

    def __init__(self, count: int = 1, hidden: int = 64) -> None:
        super().__init__()
        self.hidden = PairedLinear(2, hidden, count)
        self.output = PairedLinear(hidden, 1, count)

    def forward(self, variance: Tensor) -> Tensor:
        """Column variances ``[count or any, ..., H, L]`` -> K_focus ``[..., H, 1, 1]``."""
        length = variance.shape[-1]
        statistics = score_statistics(variance)  # (..., H, 2)
        rows = statistics.reshape(self.hidden.weight.shape[0], -1, 2)
        share = torch.sigmoid(self.output(torch.relu(self.hidden(rows)))).reshape(variance.shape[:-1])
        return (1 + (length - 1) * share)[..., None, None]


def focus_scores(queries: Tensor, keys: Tensor, factor: Tensor, length: int) -> Tensor:
    """``Q K^T length / (sqrt(dk) K_focus)`` for centred queries and keys; the scale goes on the smaller operand."""
    return (queries * (length / (math.sqrt(queries.shape[-1]) * factor))) @ keys.transpose(-1, -2)


def covariance_focus(
    queries: Tensor, keys: Tensor, values: Tensor, factor: Tensor, *, weights: bool
) -> tuple[Tensor, Tensor | None]:
    """``softmax(Q K^T L / (sqrt(dk) K_focus)) V`` for centred Q and K, and the weights if asked for.

    Without the weights it is plain attention on scaled queries, so the fused kernel does it.
    """
    length = keys.shape[-2]
    if weights:
        attention = torch.softmax(focus_scores(queries, keys, factor, length), -1)
        return attention @ values, attention
    scaled = queries * (length / factor)
    return F.scaled_dot_product_attention(scaled, keys, values), None


def head_orthogonality(attention: Tensor) -> Tensor:
    """Covariance between heads and lack of variance within each, for weights ``[B, H, Nq, Nk]`` whose rows sum to 1."""
    return head_orthogonalities(attention[None])[0]


def head_orthogonalities(attention: Tensor) -> Tensor:
    """:func:`head_orthogonality` of each index of the leading axis: ``[K, B..., H, Nq, Nk] -> [K]``."""
    attention = attention.flatten(1, -4) if attention.dim() > 5 else attention
    if torch.is_grad_enabled() and attention.requires_grad:
        return _HeadOrthogonality.apply(attention)
    return _orthogonality(_by_query(attention))[0]


def _by_query(attention: Tensor) -> Tensor:
    """``[K, B, H, Nq, Nk] -> [K, B Nq, H, Nk]``, a copy: one small product per query afterwards."""
    return attention.transpose(2, 3).flatten(1, 2).contiguous()


def _orthogonality(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Loss ``[K]`` of weights ``[K, B Nq, H, Nk]`` and its derivative by their product ``[K, B Nq, H, H]``.

    Each row's mean is 1/Nk, so the centred product is ``A A^T - 1/Nk``: no centred copy is needed.
    """
    heads, length = rows.shape[-2:]
    product = (rows.flatten(0, 1) @ rows.flatten(0, 1).transpose(-1, -2)).view(*rows.shape[:2], heads, heads)
    covariance = product - 1 / length
    variance = covariance.diagonal(dim1=-2, dim2=-1).abs()  # (K, B Nq, H)
    spread = torch.sqrt(variance + ORTHOGONALITY_EPS)
    shortfall = F.relu(1 - spread)
    count = covariance[0].numel()
    loss = (covariance.abs().sum((1, 2, 3)) - variance.sum((1, 2))) / count + shortfall.mean((1, 2))
    slope = covariance.sign() / count
    inner = -0.5 * heads * (shortfall > 0) / spread / count
    slope.diagonal(dim1=-2, dim2=-1).copy_(inner)
    return loss, slope


class _HeadOrthogonality(torch.autograd.Function):
    """The product per query and its derivative, each one batched product of H x H by H x Nk."""

    @staticmethod
    def forward(ctx, attention: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        rows = _by_query(attention)
        loss, slope = _orthogonality(rows)
        ctx.save_for_backward(rows, slope)
        ctx.batch = attention.shape[1]
        return loss

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        rows, slope = ctx.saved_tensors
        slope = slope * (2 * grad)[:, None, None, None]  # the product is symmetric: both factors contribute
        rows_grad = slope.flatten(0, 1) @ rows.flatten(0, 1)
        return rows_grad.view(rows.shape[0], ctx.batch, -1, *rows.shape[2:]).transpose(2, 3)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """``[..., N, H dk] -> [..., H, N, dk]``."""
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """``[..., H, N, dk] -> [..., N, H dk]``."""
    return x.transpose(-3, -2).flatten(-2)
