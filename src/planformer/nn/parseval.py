"""Multi-head Parseval focus and the transformer block around it (paper, Appendix A.6 and A.7).

Axes: the leading pair is (time view, frequency view); B batch, H heads, N tokens, D width, dk = D / H.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.iq import token_fft
from planformer.nn.focus import (
    Centring,
    FocusNetwork,
    centre,
    column_variance,
    covariance_focus,
    focus_scores,
    head_orthogonalities,
    merge_heads,
    soft_abs_floor,
)
from planformer.nn.glu import GLU, PairedGLU
from planformer.nn.paired import PairedLinear, RMSNorm

Domain = Literal["time", "frequency"]
Aux = dict[str, Tensor]
VIEWS = ("time", "frequency")
RATIO_EPS = 1e-30
NORM_EPS = 1e-8


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Jensen-Shannon divergence in bits between the distributions on the last axis, in [0, 1].

    >>> jensen_shannon(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    tensor(1.)
    """
    return _divergence(first, second)[0]


def _divergence(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The divergence, and the logarithms of both ratios to the mean distribution."""
    double_mean = (first + second).clamp_min_(RATIO_EPS)
    first_log = (first / double_mean).mul_(2).clamp_min_(RATIO_EPS).log_()
    second_log = (second / double_mean).mul_(2).clamp_min_(RATIO_EPS).log_()
    divergence = (first * first_log).sum(-1) + (second * second_log).sum(-1)
    return (divergence / (2 * math.log(2))).clamp_(0, 1), first_log, second_log


def consistency(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of both directions ``[2, B, H, N, N]`` -> weights ``softmax(S)``, divergence ``[2, B, H, N]`` of each
    query's row from the other direction's, ``softmax(S'^T)``.
    """
    if torch.is_grad_enabled() and scores.requires_grad:
        return _Consistency.apply(scores)
    attention, opposite = torch.softmax(scores, -1), torch.softmax(_opposite(scores), -1)
    return attention, _divergence(attention, opposite)[0]


def _opposite(scores: Tensor) -> Tensor:
    """The other direction's scores, transposed before the softmax so that both share one event space."""
    return scores.flip(0).transpose(-1, -2)


class _Consistency(torch.autograd.Function):
    """The derivative of the divergence by a distribution is half its log-ratio; the constants cancel in the softmax."""

    @staticmethod
    def forward(ctx, scores: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
        attention = torch.softmax(scores, -1)
        opposite = torch.softmax(_opposite(scores).contiguous(), -1)
        divergence, attention_log, opposite_log = _divergence(attention, opposite)
        ctx.save_for_backward(attention, opposite, attention_log, opposite_log)
        return attention, divergence

    @staticmethod
    def backward(ctx, attention_grad: Tensor, divergence_grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        attention, opposite, attention_log, opposite_log = ctx.saved_tensors
        half = (divergence_grad / (2 * math.log(2)))[..., None]
        inner = torch.addcmul(attention_grad, attention_log, half)
        grad = torch._softmax_backward_data(inner, attention, -1, attention.dtype)
        other = torch._softmax_backward_data(opposite_log * half, opposite, -1, opposite.dtype)
        return grad.add_(_opposite(other))


def cosine_squared(first: Tensor, second: Tensor) -> Tensor:
    """Mean over all tokens of the squared cosine between two outputs: the diversity loss of one view."""
    cosine = (first * second).sum(-1) / ((first.norm(dim=-1) + NORM_EPS) * (second.norm(dim=-1) + NORM_EPS))
    return cosine.square().mean()


def missing_norm(x: Tensor) -> Tensor:
    """Mean shortfall of the tokens' norms below sqrt(d)."""
    return F.relu(math.sqrt(x.shape[-1]) - x.norm(dim=-1)).mean()


class ParsevalFocus(nn.Module):
    """Self-focus in each view, gated cross-focus between them, and the fusion of all four.

    Both views run as one batch: their weights are stacked on a leading axis of two. ``gate=False`` leaves the
    cross-focus as it is, whether the two directions agree or not.
    """

    def __init__(self, dim: int, num_heads: int = 8, centring: Centring = "features", *, gate: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.gate = gate
        self.centring: Centring = centring
        # From each view's own tokens: queries (self, cross), keys (self, cross), values (self, cross). The cross keys
        # and values of one view serve the other view's queries.
        self.projection = PairedLinear(dim, 6 * dim)
        self.self_network = FocusNetwork(count=2)
        self.cross_network = FocusNetwork()
        self.view_fusion = PairedGLU(2 * dim, dim)
        self.final_fusion = GLU(2 * dim, dim)

    def forward(self, views: Tensor, *, return_aux: bool = True) -> tuple[Tensor, Aux]:
        """Views ``[2, B, N, D]`` -> fused tokens ``[B, N, D]``."""
        queries, keys, values = self.project(views)
        own, own_aux = self.self_focus(queries[0], keys[0], values[0], return_aux)
        crossed, crossed_aux = self.cross_focus(queries[1], keys[1], values[1], return_aux)
        both = torch.cat((own, crossed), -1).flatten(1, 2)  # (2, B N, 2 D)
        fused = self.view_fusion(both).unflatten(1, views.shape[1:3])  # (2, B, N, D)
        output = self.final_fusion(torch.cat((fused[0], fused[1]), -1))
        if not return_aux:
            return output, {}
        return output, own_aux | crossed_aux | diversity_aux(own, crossed)

    def project(self, views: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Views -> centred queries, keys and values, each ``[2 (self, cross), 2 (query's view), B, H, N, dk]``."""
        batch, length = views.shape[1:3]
        projected = self.projection(views.flatten(1, 2))  # (2, B N, 6 D)
        slabs = projected.view(2, batch, length, 6, self.num_heads, -1).permute(3, 0, 1, 4, 2, 5)
        slabs = slabs.contiguous()  # (6, 2, B, H, N, dk)
        floored = soft_abs_floor(slabs[:4])
        keys = torch.stack((floored[2], floored[3].flip(0)))
        values = torch.stack((slabs[4], slabs[5].flip(0)))
        queries, keys = centre(floored[:2], keys, self.centring)
        return queries, keys, values

    def self_focus(self, queries: Tensor, keys: Tensor, values: Tensor, return_aux: bool) -> tuple[Tensor, Aux]:
        """In-domain focus of both views -> ``[2, B, N, D]``."""
        factor = self.self_network(column_variance(queries, keys))  # (2, B, H, 1, 1)
        output, attention = covariance_focus(queries, keys, values, factor, weights=return_aux)
        aux = {}
        if attention is not None:
            orthogonality = head_orthogonalities(attention)
            aux = {f"orthogonality/self_{view}": orthogonality[i] for i, view in enumerate(VIEWS)}
        return merge_heads(output), aux

    def cross_focus(self, queries: Tensor, keys: Tensor, values: Tensor, return_aux: bool) -> tuple[Tensor, Aux]:
        """Scores without softmax, each query's row gated by 1 - JSD between the two directions -> ``[2, B, N, D]``."""
        factor = self.cross_network(column_variance(queries, keys))
        scale = 1 / (math.sqrt(queries.shape[-1]) * factor)
        attention = divergence = None
        if self.gate or return_aux:
            scores = focus_scores(queries, keys, factor, length=1)  # (2, B, H, N, N)
            attention, divergence = consistency(scores)  # (2, B, H, N, N), (2, B, H, N)
        # (gate S) V = gate scale Q (K^T V): the gate and the scale act on rows, so the N x N product is not needed.
        output = (queries * scale) @ (keys.transpose(-1, -2) @ values)
        if self.gate and divergence is not None:
            output = output * (1 - divergence)[..., None]
        if attention is None or divergence is None or not return_aux:
            return merge_heads(output), {}
        aux = {f"parseval_jsd/{view}": divergence[i].mean() for i, view in enumerate(VIEWS)}
        aux["orthogonality/cross"] = head_orthogonalities(attention).sum()
        return merge_heads(output), aux


def diversity_aux(own: Tensor, crossed: Tensor) -> Aux:
    """Redundancy between self- and cross-focus, and their missing magnitude, for both views."""
    aux = {}
    for i, view in enumerate(VIEWS):
        aux[f"focus_diversity/{view}"] = cosine_squared(own[i], crossed[i])
        aux[f"focus_norm/self_{view}"] = missing_norm(own[i])
        aux[f"focus_norm/cross_{view}"] = missing_norm(crossed[i])
    return aux


class ParsevalTransformer(nn.Module):
    """Pre-norm block: Parseval focus and a feed-forward network, each with a residual; 28 d^2 + 29 d + 771 parameters.

    >>> block = ParsevalTransformer(32, num_heads=4)
    >>> tokens, aux = block(torch.randn(2, 10, 32), domain="time")
    >>> tokens.shape
    torch.Size([2, 10, 32])
    """

    def __init__(self, dim: int, num_heads: int = 8, centring: Centring = "features", *, gate: bool = True) -> None:
        super().__init__()
        if dim % num_heads or dim % 2:
            raise ValueError(f"a width of {dim} does not split into {num_heads} heads of IQ pairs")
        self.focus_norm = RMSNorm(dim)
        self.focus = ParsevalFocus(dim, num_heads, centring, gate=gate)
        self.feed_forward_norm = RMSNorm(dim)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, tokens: Tensor, *, domain: Domain, return_aux: bool = True) -> tuple[Tensor, Aux]:
        """Tokens ``[B, N, D]`` of one domain -> the same shape, and the unweighted regularisers."""
        fused, aux = self.focus(self.views(self.focus_norm(tokens), domain), return_aux=return_aux)
        tokens = tokens + fused
        return tokens + self.feed_forward(self.feed_forward_norm(tokens)), aux

    @staticmethod
    def views(tokens: Tensor, domain: Domain) -> Tensor:
        """(time view, frequency view) ``[2, B, N, D]`` of tokens that live in ``domain``."""
        if domain == "time":
            return torch.stack((tokens, token_fft(tokens)))
        return torch.stack((token_fft(tokens, inverse=True), tokens))
