"""Noise sink: estimate noise, subtract it, compensate the lost power (paper, Appendix A.4.2, "Noise Sink Module").

Features are ``[M, L, C]``; a token of the power compensation is two complex samples of all channels, 4C numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.nn.channels_last import conv
from planformer.nn.paired import RMSNorm
from planformer.nn.sink_kernels import attention_power, compensate, normalise

TOKEN_LENGTH = 4  # interleaved positions of one token: two complex samples
POWER_EPS = 1e-8
MAX_POWER_RATIO = 2.0


@dataclass
class SinkOutput:
    """Cleaned features ``[M, L, C]``, noise power ``[M]`` and decorrelation ``[M]`` (None where not asked for)."""

    features: Tensor
    noise_power: Tensor
    decorrelation: Tensor | None


class PowerPooler(nn.Module):
    """Power of the attention-weighted mean token: tokens ``[M, N, D] -> [M]``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.logit = nn.Linear(dim, 1)  # a 1x1 convolution D -> 1

    def forward(self, tokens: Tensor) -> Tensor:
        return attention_power(tokens, self.logit.weight, self.logit.bias)


class NoiseSink(nn.Module):
    """``x -> RMSNorm(gamma (x - n) + beta)``: noise ``n`` estimated from x, gamma and beta from the power ratio.

    >>> NoiseSink(16)(torch.randn(3, 64, 16)).features.shape
    torch.Size([3, 64, 16])
    """

    def __init__(self, channels: int, kernel: int = 5) -> None:
        super().__init__()
        self.channels = channels
        dim = TOKEN_LENGTH * channels
        narrow = channels // 4
        self.squeeze = nn.Conv1d(channels, narrow, kernel, bias=False)
        self.expand = nn.Conv1d(narrow, channels, kernel, bias=False)
        self.pooler = PowerPooler(dim)
        self.affine = nn.Sequential(nn.Linear(1, dim), nn.ReLU(), nn.Linear(dim, 2 * dim))
        self.norm = RMSNorm(dim)

    def forward(self, x: Tensor, *, return_aux: bool = True) -> SinkOutput:
        noise = self.estimate(x)
        tokens, noise_tokens = self.tokens(x), self.tokens(noise)
        noise_power, signal_power = self.pooler(noise_tokens), self.pooler(tokens)
        ratio = (noise_power / (signal_power + POWER_EPS)).clamp(0, MAX_POWER_RATIO)
        gamma, beta = self.affine(ratio[:, None]).unsqueeze(1).chunk(2, -1)  # (M, 1, 4C) each
        if not return_aux and not torch.is_grad_enabled():
            output = normalise(tokens - noise_tokens, gamma, beta, self.norm.weight)
            return SinkOutput(output.view_as(x), noise_power, None)
        output, correlation = compensate(tokens, noise_tokens, gamma, beta, self.norm.weight)
        return SinkOutput(output.view_as(x), noise_power, correlation if return_aux else None)

    @staticmethod
    def absent(x: Tensor, *, return_aux: bool = True) -> SinkOutput:
        """What a network without sinks has in their place: the features as they are, and no noise found."""
        nothing = x.new_zeros(x.shape[0])
        return SinkOutput(x, nothing, nothing if return_aux else None)

    def estimate(self, x: Tensor) -> Tensor:
        """The noise in ``x``: a bottleneck of two convolutions."""
        return conv(F.gelu(conv(x, self.squeeze.weight)), self.expand.weight)

    @staticmethod
    def tokens(x: Tensor) -> Tensor:
        """``[M, L, C] -> [M, L/4, 4C]``, a view."""
        return x.reshape(x.shape[0], x.shape[1] // TOKEN_LENGTH, -1)
