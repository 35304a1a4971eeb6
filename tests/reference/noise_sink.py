"""The noise sink's algorithm line by line, on ``[B, C, L]``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reference.focus import rms_norm


def to_tokens(x: Tensor) -> Tensor:
    """``[B, C, L] -> [B, L/4, 4C]``: position in the token first, then the channel."""
    batch, channels, length = x.shape
    return x.view(batch, channels, length // 4, 4).permute(0, 2, 3, 1).reshape(batch, length // 4, 4 * channels)


def to_channels(tokens: Tensor, channels: int) -> Tensor:
    batch, count, _ = tokens.shape
    return tokens.view(batch, count, 4, channels).permute(0, 3, 1, 2).reshape(batch, channels, count * 4)


def pearson(first: Tensor, second: Tensor) -> Tensor:
    first, second = first.flatten(1), second.flatten(1)
    first = (first - first.mean(1, keepdim=True)) / (first.std(1, unbiased=False, keepdim=True) + 1e-12)
    second = (second - second.mean(1, keepdim=True)) / (second.std(1, unbiased=False, keepdim=True) + 1e-12)
    return (first * second).mean(1).abs()


def power(module: nn.Module, tokens: Tensor) -> Tensor:
    logits = tokens @ module.logit.weight.T + module.logit.bias
    pooled = (torch.softmax(logits, 1) * tokens).sum(1)
    return (pooled**2).sum(1)


def noise_sink(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cleaned features, noise power ``[B]``, decorrelation ``[B]``."""
    noise = F.conv1d(F.gelu(F.conv1d(x, module.squeeze.weight, padding="same")), module.expand.weight, padding="same")
    subtracted = x - noise
    decorrelation = pearson(noise, subtracted)
    noise_power, signal_power = power(module.pooler, to_tokens(noise)), power(module.pooler, to_tokens(x))
    ratio = torch.clamp(noise_power / (signal_power + 1e-8), 0, 2)
    gamma, beta = module.affine(ratio[:, None])[:, None].chunk(2, -1)
    tokens = rms_norm(gamma * to_tokens(subtracted) + beta, module.norm.weight)
    return to_channels(tokens, x.shape[1]), noise_power, decorrelation
