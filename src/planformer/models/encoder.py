"""The dual-domain encoder (paper, Appendix A): tokenizers, fusion at three points, Parseval transformers, pooling.

Axes: B batch of segments, W windows, N tokens, D width. A segment is a float row of ``2 * window * num_windows``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from planformer import iq
from planformer.config import PlanFormerConfig
from planformer.models.start import start_values
from planformer.models.tokenizer import Tokenizer
from planformer.nn.fusion import latent_fusion, token_fusion
from planformer.nn.parseval import Aux, ParsevalTransformer
from planformer.nn.positions import sinusoidal_positions
from planformer.nn.sequence_pooling import AttentionalPooling, RunningPool

PIECE = 16  # segments at a time at inference: of 4 to 64, the fastest on one thread (docs/decisions.md)


@dataclass
class Skips:
    """Features of each domain at 4x and at 16x compression, ``[B, W, C, L]`` each, for the decoder."""

    time: list[Tensor]
    frequency: list[Tensor]


@dataclass
class EncoderOutput:
    """Tokens and latents of both domains, and what the objectives need beside them."""

    time_tokens: Tensor  # [B, Nt, D]
    frequency_tokens: Tensor  # [B, Nf, D]
    time_latent: Tensor  # [B, D]
    frequency_latent: Tensor  # [B, D]
    aux: Aux  # unweighted scalars, "group/term"
    noise_power: Tensor  # [B], summed over all sinks
    skips: Skips | None = None
    focused: tuple[Tensor, Tensor] | None = None  # tokens before the last fusion: what source separation works on

    @property
    def embedding(self) -> Tensor:
        """``[B, 2D]``: the time latent, then the frequency latent."""
        return torch.cat((self.time_latent, self.frequency_latent), -1)


@dataclass
class Tokens:
    """Final tokens of each segment (before pooling) and the by-products of making them."""

    time: Tensor  # [B, Nt, D]
    frequency: Tensor  # [B, Nf, D]
    aux: Aux
    noise_power: Tensor
    skips: Skips | None = None
    focused: tuple[Tensor, Tensor] | None = None  # tokens before the last fusion: what source separation works on

    @classmethod
    def join(cls, pieces: list[Tokens]) -> Tokens:
        """The pieces of a batch, made without auxiliary terms, as one."""

        def cat(*parts: Tensor) -> Tensor:
            return torch.cat(parts)

        first = pieces[0]
        skips = focused = None
        if first.skips is not None:
            found = [p.skips for p in pieces if p.skips is not None]
            skips = Skips(list(map(cat, *(p.time for p in found))), list(map(cat, *(p.frequency for p in found))))
        if first.focused is not None:
            both = [p.focused for p in pieces if p.focused is not None]
            focused = cat(*(time for time, _ in both)), cat(*(frequency for _, frequency in both))
        time, frequency = cat(*(p.time for p in pieces)), cat(*(p.frequency for p in pieces))
        return cls(time, frequency, {}, cat(*(p.noise_power for p in pieces)), skips, focused)


def prefixed(aux: Aux, name: str) -> Aux:
    """``{"group/term": x} -> {"group/name_term": x}``."""
    return {key.replace("/", f"/{name}_", 1): value for key, value in aux.items()}


class Encoder(nn.Module):
    """Interleaved segments ``[B, 10240]`` -> tokens, latents and auxiliary terms; 1,990,478 parameters.

    >>> encoder = Encoder(PlanFormerConfig(channels=(4, 8, 16), dim=32))
    >>> encoder(torch.randn(2, 10240)).embedding.shape
    torch.Size([2, 64])
    """

    def __init__(self, config: PlanFormerConfig | None = None) -> None:
        super().__init__()
        config = config or PlanFormerConfig()
        self.config = config
        dim, time, frequency = config.dim, config.num_time_tokens, config.num_frequency_tokens
        self.time_tokenizer = Tokenizer(config, "time")
        self.frequency_tokenizer = Tokenizer(config, "frequency")
        self.time_positions = nn.Parameter(sinusoidal_positions(time, dim), requires_grad=False)
        self.frequency_positions = nn.Parameter(sinusoidal_positions(frequency, dim), requires_grad=False)
        self.tokenizer_fusion = token_fusion(dim, time, frequency)
        gate = config.parseval_gate
        self.time_transformer = ParsevalTransformer(dim, config.num_heads, config.centring, gate=gate)
        self.frequency_transformer = ParsevalTransformer(dim, config.num_heads, config.centring, gate=gate)
        self.transformer_fusion = token_fusion(dim, time, frequency)
        self.time_pooling = AttentionalPooling(dim)
        self.frequency_pooling = AttentionalPooling(dim)
        self.latent_fusion = latent_fusion(dim)
        start_values(self, config.start)

    def forward(
        self,
        x: Tensor,
        *,
        blindspot: bool | Tensor = False,
        return_skips: bool = False,
        return_aux: bool = True,
    ) -> EncoderOutput:
        """``blindspot``: the noisy branch's masked first kernel, for all segments or per segment (bool ``[B]``)."""
        tokens = self.tokenize(x, blindspot=blindspot, return_skips=return_skips, return_aux=return_aux)
        time_latent, frequency_latent = self.pool(tokens.time, tokens.frequency)
        return EncoderOutput(
            tokens.time,
            tokens.frequency,
            time_latent,
            frequency_latent,
            tokens.aux,
            tokens.noise_power,
            tokens.skips,
            tokens.focused,
        )

    def tokenize(
        self,
        x: Tensor,
        *,
        blindspot: bool | Tensor = False,
        return_skips: bool = False,
        return_aux: bool = True,
    ) -> Tokens:
        """Everything up to the pooling: tokens of each segment ``[B, Nt, D]`` and ``[B, Nf, D]``.

        Without gradients and auxiliary terms, a few segments at a time: the features of a piece stay in the cache.
        """
        if return_aux or torch.is_grad_enabled() or torch.compiler.is_compiling() or len(x) <= PIECE:
            return self._tokenize(x, blindspot, return_skips, return_aux)
        masks = blindspot.split(PIECE) if isinstance(blindspot, Tensor) else itertools.repeat(blindspot)
        pieces = zip(x.split(PIECE), masks, strict=False)
        return Tokens.join([self._tokenize(piece, mask, return_skips, return_aux) for piece, mask in pieces])

    def _tokenize(self, x: Tensor, blindspot: bool | Tensor, return_skips: bool, return_aux: bool) -> Tokens:
        batch, windows = x.shape[0], self.config.num_windows
        time = x.reshape(batch * windows, -1)  # (M, 2 window)
        if isinstance(blindspot, Tensor):
            blindspot = blindspot.repeat_interleave(windows)
        by_time = self.time_tokenizer(time, blindspot=blindspot, return_aux=return_aux)
        by_frequency = self.frequency_tokenizer(iq.fft(time), blindspot=blindspot, return_aux=return_aux)
        time_tokens = by_time.tokens.flatten(1, 2) + self.time_positions
        frequency_tokens = by_frequency.tokens.mean(1) + self.frequency_positions
        focused_time, focused_frequency, aux = self.focus(time_tokens, frequency_tokens, return_aux)
        time_tokens, frequency_tokens = self.transformer_fusion(focused_time, focused_frequency)
        aux = prefixed(by_time.aux, "time") | prefixed(by_frequency.aux, "frequency") | aux
        skips = None
        if return_skips:
            skips = Skips(self.skip_features(by_time.stages), self.skip_features(by_frequency.stages))
        noise_power = by_time.noise_power + by_frequency.noise_power
        return Tokens(time_tokens, frequency_tokens, aux, noise_power, skips, (focused_time, focused_frequency))

    def focus(self, time_tokens: Tensor, frequency_tokens: Tensor, return_aux: bool) -> tuple[Tensor, Tensor, Aux]:
        """Fusion, one Parseval transformer per domain, without the fusion that follows."""
        time, frequency = self.tokenizer_fusion(time_tokens, frequency_tokens)
        time, time_aux = self.time_transformer(time, domain="time", return_aux=return_aux)
        frequency, frequency_aux = self.frequency_transformer(frequency, domain="frequency", return_aux=return_aux)
        return time, frequency, prefixed(time_aux, "time") | prefixed(frequency_aux, "frequency")

    def skip_features(self, stages: list[Tensor]) -> list[Tensor]:
        """Outputs of all stages but the last, ``[M, L, C] -> [B, W, C, L]`` (views)."""
        return [x.unflatten(0, (-1, self.config.num_windows)).transpose(2, 3) for x in stages[:-1]]

    def pool(self, time_tokens: Tensor, frequency_tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Time tokens ``[..., any number, D]``, mean frequency tokens ``[..., Nf, D]`` -> both latents ``[..., D]``."""
        time_latent = self.time_pooling(time_tokens)
        frequency_latent = self.frequency_pooling(frequency_tokens)
        return self.latent_fusion(time_latent, frequency_latent)

    def pool_segments(self, time_tokens: Tensor, frequency_tokens: Tensor) -> tuple[Tensor, Tensor]:
        """One signal's latents from its segments' tokens ``[..., S, Nt, D]`` and ``[..., S, Nf, D]`` (paper, A.9.3)."""
        return self.pool(time_tokens.flatten(-3, -2), frequency_tokens.mean(-3))

    def running_pool(self) -> RunningSignal:
        """A state that takes a long signal's segments piece by piece: see :class:`RunningSignal`."""
        return RunningSignal(self)


class RunningSignal:
    """Running softmax over the time tokens and running mean of the frequency tokens of one signal (or a batch of them).

    Memory is that of one piece; the result equals :meth:`Encoder.pool_segments` on all segments at once.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.num_segments = 0
        self._time: RunningPool | None = None
        self._frequency: Tensor | None = None  # mean so far, [..., Nf, D]

    def update(self, time_tokens: Tensor, frequency_tokens: Tensor) -> None:
        """Add the tokens of S more segments: ``[..., S, Nt, D]`` and ``[..., S, Nf, D]``."""
        count = time_tokens.shape[-3]
        piece = RunningPool.start(self.encoder.time_pooling, time_tokens.flatten(-3, -2))
        mean = frequency_tokens.mean(-3)
        self.num_segments += count
        if self._time is None or self._frequency is None:
            self._time, self._frequency = piece, mean
            return
        self._time = self._time.merge(piece)
        self._frequency = self._frequency + (mean - self._frequency) * (count / self.num_segments)

    def finish(self) -> tuple[Tensor, Tensor]:
        """The latents ``[..., D]`` of all segments so far; more may follow."""
        if self._time is None or self._frequency is None:
            raise ValueError("no segment yet: call update() first")
        frequency_latent = self.encoder.frequency_pooling(self._frequency)
        return self.encoder.latent_fusion(self._time.finish(), frequency_latent)
