"""Multi-head Parseval focus and its transformer block, one view and one direction after the other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from reference.focus import (
    covariance,
    focus,
    focus_factor,
    glu,
    head_orthogonality,
    heads,
    rms_norm,
    soft_abs_floor,
)


def merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def token_transform(tokens: Tensor, inverse: bool) -> Tensor:
    """De-interleave the width, (I)FFT over the tokens, re-interleave."""
    z = torch.complex(tokens[..., 0::2], tokens[..., 1::2])
    z = torch.fft.ifft(z, dim=1, norm="ortho") if inverse else torch.fft.fft(z, dim=1, norm="ortho")
    return torch.stack((z.real, z.imag), -1).flatten(2)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    m = (p + q) / 2
    eps = 1e-12
    first = (p * torch.log2((p + eps) / (m + eps))).sum(-1)
    second = (q * torch.log2((q + eps) / (m + eps))).sum(-1)
    return (first + second) / 2


def projections(module: nn.Module, tokens: Tensor, view: int) -> list[Tensor]:
    """Queries (self, cross), keys (self, cross), values (self, cross) of one view, split into heads."""
    all_of_them = tokens @ module.projection.weight[view] + module.projection.bias[view]
    parts = [heads(x, module.num_heads) for x in all_of_them.chunk(6, -1)]
    return [soft_abs_floor(x) for x in parts[:4]] + parts[4:]


def cross_scores(q: Tensor, k: Tensor, module: nn.Module) -> Tensor:
    scores = covariance(q, k, module.centring)
    return scores / (math.sqrt(q.shape[-1]) * focus_factor(scores, module.cross_network))


def diversity(own: Tensor, crossed: Tensor) -> Tensor:
    own = own / (own.norm(dim=-1, keepdim=True) + 1e-8)
    crossed = crossed / (crossed.norm(dim=-1, keepdim=True) + 1e-8)
    return ((own * crossed).sum(-1) ** 2).mean()


def parseval_focus(module: nn.Module, time: Tensor, frequency: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    q_t, q_tf, k_t, k_ft, v_t, v_ft = projections(module, time, 0)
    q_f, q_ft, k_f, k_tf, v_f, v_tf = projections(module, frequency, 1)
    own_t, weights_t = focus(q_t, k_t, v_t, module.self_network, 0, module.centring)
    own_f, weights_f = focus(q_f, k_f, v_f, module.self_network, 1, module.centring)
    s_tf, s_ft = cross_scores(q_tf, k_tf, module), cross_scores(q_ft, k_ft, module)
    p_tf, p_ft = torch.softmax(s_tf, -1), torch.softmax(s_ft, -1)
    jsd_t = jensen_shannon(p_tf, torch.softmax(s_ft.transpose(-1, -2), -1))
    jsd_f = jensen_shannon(p_ft, torch.softmax(s_tf.transpose(-1, -2), -1))
    gate_t, gate_f = (1 - jsd_t, 1 - jsd_f) if module.gate else (torch.ones_like(jsd_t), torch.ones_like(jsd_f))
    cross_t = merge((s_tf * gate_t[..., None]) @ v_tf)
    cross_f = merge((s_ft * gate_f[..., None]) @ v_ft)
    own_t, own_f = merge(own_t), merge(own_f)
    fusion = module.view_fusion
    fused = [
        glu(torch.cat(pair, -1), fusion.norm_weight[i], fusion.projection.weight[i], fusion.projection.bias[i])
        for i, pair in enumerate(((own_t, cross_t), (own_f, cross_f)))
    ]
    last = module.final_fusion
    output = glu(torch.cat(fused, -1), last.norm.weight, last.projection.weight.T, last.projection.bias)
    dim = math.sqrt(own_t.shape[-1])
    aux = {
        "orthogonality/self_time": head_orthogonality(weights_t),
        "orthogonality/self_frequency": head_orthogonality(weights_f),
        "orthogonality/cross": head_orthogonality(p_tf) + head_orthogonality(p_ft),
        "parseval_jsd/time": jsd_t.mean(),
        "parseval_jsd/frequency": jsd_f.mean(),
        "focus_diversity/time": diversity(own_t, cross_t),
        "focus_diversity/frequency": diversity(own_f, cross_f),
    }
    named = {"self_time": own_t, "cross_time": cross_t, "self_frequency": own_f, "cross_frequency": cross_f}
    return output, aux | {f"focus_norm/{k}": torch.relu(dim - x.norm(dim=-1)).mean() for k, x in named.items()}


def parseval_transformer(module: nn.Module, tokens: Tensor, domain: str) -> tuple[Tensor, dict[str, Tensor]]:
    normed = rms_norm(tokens, module.focus_norm.weight)
    if domain == "time":
        output, aux = parseval_focus(module.focus, normed, token_transform(normed, inverse=False))
    else:
        output, aux = parseval_focus(module.focus, token_transform(normed, inverse=True), normed)
    tokens = tokens + output
    return tokens + module.feed_forward(rms_norm(tokens, module.feed_forward_norm.weight)), aux
