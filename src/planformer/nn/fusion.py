"""Learned domain transformation and gated cross-domain fusion (paper, Appendix A.5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from planformer.nn.glu import GLU


class SequenceMap(nn.Module):
    """A 1x1 convolution with the sequence as its channels: ``[B, N_in, D] -> [B, N_out, D]``.

    >>> SequenceMap(80, 16)(torch.randn(2, 80, 8)).shape
    torch.Size([2, 16, 8])
    """

    def __init__(self, in_length: int, out_length: int) -> None:
        super().__init__()
        linear = nn.Linear(in_length, out_length)  # the same start values as a 1x1 convolution
        self.weight = linear.weight
        self.bias = linear.bias

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.matmul(self.weight, tokens) + self.bias[:, None]


class FusionGLU(nn.Module):
    """Each domain's own features and the other's, transformed into its shape, through one GLU per domain.

    ``to_time`` and ``to_frequency`` map the other domain's features: sequence maps for tokens, linear for latents.
    """

    def __init__(self, dim: int, to_time: nn.Module, to_frequency: nn.Module) -> None:
        super().__init__()
        self.to_time = to_time
        self.to_frequency = to_frequency
        self.time_glu = GLU(2 * dim, dim)
        self.frequency_glu = GLU(2 * dim, dim)

    def forward(self, time: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
        fused_time = self.time_glu(torch.cat((time, self.to_time(frequency)), -1))
        fused_frequency = self.frequency_glu(torch.cat((frequency, self.to_frequency(time)), -1))
        return fused_time, fused_frequency


def token_fusion(dim: int, num_time_tokens: int, num_frequency_tokens: int) -> FusionGLU:
    """Fusion of token sequences ``[B, Nt, D]`` and ``[B, Nf, D]``."""
    to_time = SequenceMap(num_frequency_tokens, num_time_tokens)
    return FusionGLU(dim, to_time, SequenceMap(num_time_tokens, num_frequency_tokens))


def latent_fusion(dim: int) -> FusionGLU:
    """Fusion of pooled latents ``[B, D]``."""
    return FusionGLU(dim, nn.Linear(dim, dim), nn.Linear(dim, dim))
