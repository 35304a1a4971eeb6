"""Parseval-focus skip sinks (paper, Appendix B.3.3): filter a skip connection by what the latent asks for.

The Parseval focus over the skip's tokens with the latent prepended seeds a hypernetwork; its gamma, alpha and beta
modulate the skip's spectrum into the sink, which is subtracted. Time skips are cut into windows of 2,048 numbers,
frequency skips are seen whole, several bins to a token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from planformer.iq import token_fft
from planformer.nn.hypernetwork import Hypernetwork, modulate
from planformer.nn.multihead_focus import heads_for
from planformer.nn.paired import RMSNorm
from planformer.nn.parseval import ParsevalFocus
from planformer.nn.power_compensation import PowerCompensation
from planformer.nn.spectral_upsampling import Domain

Aux = dict[str, Tensor]
WINDOW_ELEMENTS = 2048


@dataclass(frozen=True)
class SinkOutput:
    """What a sink took out of a skip connection and what it left, both ``[B, W, C, L]`` in the skip's own domain."""

    domain: Domain
    layer: int
    sink: Tensor
    cleaned: Tensor


class SkipSink(nn.Module):
    """Skip tokens ``[B, W, n, 2C]`` and latent ``[B, Z]`` -> (sink, cleaned, compensated) tokens of the same shape.

    >>> sink = SkipSink(channels=4, length=64, latent_dim=6, domain="time", rank=4)
    >>> taken, left, out, aux = sink(torch.randn(2, 5, 64, 8), torch.zeros(2, 6), aux=False)
    >>> taken.shape == left.shape == out.shape
    True
    """

    def __init__(
        self,
        channels: int,
        *,
        length: int,
        latent_dim: int,
        domain: Domain,
        group: int = 1,
        rank: int | None = None,
    ) -> None:
        """``group`` samples (or bins) make one token of the focus: it costs the square of what it divides."""
        super().__init__()
        dim = 2 * channels
        self.domain: Domain = domain
        self.group = group
        self.tokens_per_window = min(length, WINDOW_ELEMENTS // dim) if domain == "time" else length
        if length % self.tokens_per_window or self.tokens_per_window % group:
            raise ValueError(
                f"{length} tokens don't divide into windows of {self.tokens_per_window}, groups of {group}"
            )
        elements = self.tokens_per_window * dim
        self.latent = nn.Linear(latent_dim, dim)
        self.downsample = nn.Identity() if group == 1 else nn.Linear(group * dim, dim)  # kernel = stride = group
        self.norm = RMSNorm(dim)
        self.focus = ParsevalFocus(dim, heads_for(dim))
        self.hypernetwork = Hypernetwork(elements // group, elements, rank=rank, start_scale=0.5)
        self.compensation = PowerCompensation(channels)

    def forward(self, skip: Tensor, latent: Tensor, *, aux: bool) -> tuple[Tensor, Tensor, Tensor, Aux]:
        windows = skip.unflatten(2, (-1, self.tokens_per_window))  # (B, W, M, n, D), M = 1 in the frequency domain
        context, terms = self.contextualise(windows, latent, aux=aux)  # (B, W, M, elements)
        gamma, alpha, beta = (p.unflatten(-1, windows.shape[-2:]) for p in self.hypernetwork(context))
        if self.domain == "time":  # a product of spectra is a filter, so the modulation acts on the window's spectrum
            sink = token_fft(modulate(token_fft(windows), gamma, alpha, beta), inverse=True)
        else:
            sink = modulate(windows, gamma, alpha, beta)
        sink = sink.flatten(2, 3)
        cleaned = skip - sink
        return sink, cleaned, self.compensation(skip, sink, cleaned), terms

    def contextualise(self, windows: Tensor, latent: Tensor, *, aux: bool) -> tuple[Tensor, Aux]:
        """Parseval focus over each window with the latent's token, which is dropped from the flattened result."""
        lead = windows.shape[:3]
        grouped = windows.unflatten(-2, (-1, self.group)).flatten(-2)  # (B, W, M, n / group, group * D)
        tokens = self.norm(self.downsample(grouped)).flatten(0, 2)  # (rows, n / group, D)
        other = token_fft(tokens, inverse=self.domain == "frequency")
        views = torch.stack((tokens, other) if self.domain == "time" else (other, tokens))  # (2, rows, n, D)
        guide = self.latent(latent)[:, None, None, None].expand(*lead, 1, -1).flatten(0, 2)  # (rows, 1, D)
        views = torch.cat([guide.expand(2, *guide.shape), views], dim=2)
        context, terms = self.focus(views, return_aux=aux)
        return context[:, 1:].flatten(1).unflatten(0, lead), terms
