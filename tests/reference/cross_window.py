"""Causal cross-window focus with all the paper's transforms, one pair of windows at a time, on ``[B, C, L]``."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer import iq
from planformer.nn.positions import sinusoidal_positions
from reference.focus import focus, head_orthogonality, heads, rms_norm, soft_abs_floor
from reference.parseval import merge


def to_tokens(x: Tensor) -> Tensor:
    """``[B, C, 2n] -> [B, n, 2C]``, all I, then all Q."""
    batch, channels, length = x.shape
    return x.view(batch, channels, length // 2, 2).permute(0, 2, 3, 1).reshape(batch, length // 2, 2 * channels)


def to_channels(tokens: Tensor) -> Tensor:
    batch, count, width = tokens.shape
    return tokens.view(batch, count, 2, width // 2).permute(0, 3, 1, 2).reshape(batch, width // 2, 2 * count)


def transform(tokens: Tensor, inverse: bool) -> Tensor:
    """(I)FFT over the tokens of ``[B, n, 2C]``."""
    channels = to_channels(tokens)
    return to_tokens(iq.ifft(channels) if inverse else iq.fft(channels))


def down(module: nn.Module, x: Tensor) -> Tensor:
    """Tokens in the frequency domain, 1x1 convolution with stride."""
    tokens = to_tokens(iq.fft(x) if module.domain == "time" else x)
    weight = module.down.weight[..., None]
    return F.conv1d(tokens.transpose(1, 2), weight, module.down.bias, stride=module.stride).transpose(1, 2)


def up(module: nn.Module, tokens: Tensor) -> Tensor:
    if module.domain == "time":
        tokens = transform(tokens, inverse=False)
    weight = module.up.weight.T[..., None]  # a transposed convolution stores (in, out, kernel)
    padding = module.stride - 1
    expanded = F.conv_transpose1d(
        tokens.transpose(1, 2), weight, module.up.bias, stride=module.stride, output_padding=padding
    )
    x = to_channels(expanded.transpose(1, 2))
    return iq.ifft(x) if module.domain == "time" else x


def cross_window(module: nn.Module, x: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """One window with the one before it: new features and the head orthogonality's weights."""
    current_tokens, previous_tokens = down(module, x), down(module, previous)
    count, dim = current_tokens.shape[1:]
    if module.domain == "time":
        current_tokens = transform(current_tokens, inverse=True)
        previous_tokens = transform(previous_tokens, inverse=True)
        both = torch.cat((previous_tokens, current_tokens), 1) + sinusoidal_positions(2 * count, dim)
        previous_tokens, current_tokens = both[:, :count], both[:, count:]
    else:
        current_tokens = current_tokens + sinusoidal_positions(count, dim)
        previous_tokens = previous_tokens + sinusoidal_positions(count, dim)
    current_tokens = rms_norm(current_tokens, module.norm.weight)
    previous_tokens = rms_norm(previous_tokens, module.norm.weight)
    q = heads(soft_abs_floor(module.queries(current_tokens)), module.num_heads)
    k, v = module.keys_values(previous_tokens).chunk(2, -1)
    k, v = heads(soft_abs_floor(k), module.num_heads), heads(v, module.num_heads)
    output, weights = focus(q, k, v, module.network, 0, module.centring)
    return x + up(module, merge(output)), weights


def all_windows(module: nn.Module, windows: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Each window with the one before; the first passes. Orthogonality over all pairs together."""
    results = [cross_window(module, x, previous) for previous, x in itertools.pairwise(windows)]
    orthogonality = torch.stack([head_orthogonality(weights) for _, weights in results]).mean()
    return [windows[0], *[x for x, _ in results]], orthogonality
