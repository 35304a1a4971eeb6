"""Two-stage causal cross-window focus with latent conditioning (paper, Appendix B.3.4).

Stage 1: every window but the first focuses on the window before it. Stage 2: every window focuses on itself with the
projected latent prepended. Both work on 4x compressed tokens and return as residuals.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from planformer.iq import token_fft
from planformer.nn.multihead_focus import MultiHeadFocus, heads_for, join_orthogonality
from planformer.nn.paired import RMSNorm
from planformer.nn.positions import sinusoidal_positions
from planformer.nn.spectral_upsampling import Domain, UpsamplingAxis


class TokenCompression(nn.Module):
    """Learned compression of tokens ``[..., n, D]`` by ``stride`` and its counterpart back.

    ``axis="frequency"``: a 1x1 convolution over every stride-th *bin*. For a time sequence that equals folding it by
    the stride, a small transform, the linear map and the small inverse transform; back, tiling. ``axis="native"``: the
    same maps on the mean of neighbouring samples (or bins), and repetition back, so that position keeps its meaning.

    >>> short = TokenCompression(8, 4, domain="time", axis="native").down(torch.zeros(2, 64, 8))
    >>> short.shape
    torch.Size([2, 16, 8])
    """

    def __init__(self, dim: int, stride: int, *, domain: Domain, axis: UpsamplingAxis) -> None:
        super().__init__()
        self.stride, self.native = stride, axis == "native"
        self.through_spectrum = domain == "time" and axis == "frequency"
        self.compress = nn.Linear(dim, dim)
        self.restore = nn.Linear(dim, dim, bias=False)
        nn.init.normal_(self.restore.weight, std=0.1 * dim**-0.5)  # a residual that starts near zero

    def down(self, tokens: Tensor) -> Tensor:
        if self.native:
            return self.compress(tokens.unflatten(-2, (-1, self.stride)).mean(dim=-2))
        if not self.through_spectrum:
            return self.compress(tokens[..., :: self.stride, :])
        folded = tokens.unflatten(-2, (self.stride, -1)).sum(dim=-3) * self.stride**-0.5  # every stride-th bin
        return token_fft(self.compress(token_fft(folded)), inverse=True)

    def up(self, tokens: Tensor) -> Tensor:
        if self.native:
            return self.restore(tokens).repeat_interleave(self.stride, dim=-2)
        if not self.through_spectrum:
            spread = torch.nn.functional.pad(self.restore(tokens).unsqueeze(-2), (0, 0, 0, self.stride - 1))
            return spread.flatten(-3, -2)  # (..., n/s, s, D) -> (..., n, D), zero between the bins
        small = token_fft(self.restore(token_fft(tokens)), inverse=True) * self.stride**-0.5
        return small.repeat(*[1] * (small.dim() - 2), self.stride, 1)


class CausalLatentFocus(nn.Module):
    """Tokens ``[B, W, n, D]`` and latent ``[B, Z]`` -> tokens; window k depends on windows k-1 and k only.

    >>> focus = CausalLatentFocus(8, length=64, latent_dim=6, domain="time")
    >>> focus(torch.zeros(2, 5, 64, 8), torch.zeros(2, 6), aux=False)[0].shape
    torch.Size([2, 5, 64, 8])
    """

    positions: Tensor

    def __init__(
        self,
        dim: int,
        *,
        length: int,
        latent_dim: int,
        domain: Domain,
        axis: UpsamplingAxis = "frequency",
        stride: int = 4,
    ) -> None:
        super().__init__()
        self.domain: Domain = domain
        self.num_tokens = length // stride
        self.register_buffer("positions", sinusoidal_positions(2 * self.num_tokens, dim), persistent=False)
        self.cross_resample = TokenCompression(dim, stride, domain=domain, axis=axis)
        self.cross_norm = RMSNorm(dim)
        self.cross = MultiHeadFocus(dim, heads_for(dim))
        self.self_resample = TokenCompression(dim, stride, domain=domain, axis=axis)
        self.latent = nn.Linear(latent_dim, dim)
        self.self_norm = RMSNorm(dim)
        self.self_focus = MultiHeadFocus(dim, heads_for(dim))

    def forward(self, tokens: Tensor, latent: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        tokens, first = self.cross_window(tokens, aux=aux)
        tokens, second = self.with_latent(tokens, latent, aux=aux)
        return tokens, join_orthogonality(first, second)

    def cross_window(self, tokens: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        """Stage 1. Time positions run on over both windows; a bin keeps its position in each."""
        n = self.num_tokens
        short = self.cross_resample.down(tokens)  # (B, W, n/s, D)
        current_at = self.positions[n:] if self.domain == "time" else self.positions[:n]
        previous = self.cross_norm(short[:, :-1] + self.positions[:n])
        current = self.cross_norm(short[:, 1:] + current_at)
        context, orthogonality = self.cross(current, previous, aux=aux)
        restored = self.cross_resample.up(context)
        return torch.cat([tokens[:, :1], tokens[:, 1:] + restored], dim=1), orthogonality

    def with_latent(self, tokens: Tensor, latent: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        """Stage 2. The latent's token is read from, and dropped."""
        short = self.self_resample.down(tokens)
        guide = self.latent(latent)[:, None, None].expand(-1, short.shape[1], -1, -1)  # (B, W, 1, D)
        joint = self.self_norm(torch.cat([guide, short], dim=2) + self.positions[: self.num_tokens + 1])
        context, orthogonality = self.self_focus(joint[:, :, 1:], joint, aux=aux)
        return tokens + self.self_resample.up(context), orthogonality
