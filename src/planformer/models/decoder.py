"""The dual-domain UNet decoder (paper, Appendix B, Algorithm B.1): tokens, latents and two skips -> waveform.

All windows of a segment run in one batch: a window's "previous" is the previous window's features at the same stage.
The frequency branch starts every window from the same tokens, so its first stage runs once for all of them.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from planformer import iq
from planformer.models.decoder_config import DecoderConfig
from planformer.models.decoder_stage import Aux, DecoderStage, convolve
from planformer.nn.complex_activation import SlidingFocusActivation
from planformer.nn.multihead_focus import MultiHeadFocus
from planformer.nn.paired import RMSNorm
from planformer.nn.positions import sinusoidal_positions
from planformer.nn.skip_fusion import SkipFusion
from planformer.nn.skip_sink import SinkOutput

Sinks = list[SinkOutput]


class SkipFeatures(Protocol):
    """What the encoder returns with ``return_skips``: its features after the first and the second pooling."""

    @property
    def time(self) -> list[Tensor]: ...

    @property
    def frequency(self) -> list[Tensor]: ...


class SpectrumRefinement(nn.Module):
    """A transformer layer over the segment's spectrum, 64 bins to a token, then DC removal (Appendix B.4.2)."""

    positions: Tensor

    def __init__(self, segment: int, num_tokens: int, num_heads: int) -> None:
        super().__init__()
        dim = 2 * segment // num_tokens
        self.num_tokens = num_tokens
        self.register_buffer("positions", sinusoidal_positions(num_tokens, dim))
        self.focus_norm, self.feed_forward_norm = RMSNorm(dim), RMSNorm(dim)
        self.focus = MultiHeadFocus(dim, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        with torch.no_grad():  # residuals that start near zero
            self.focus.key_value.weight[dim:].mul_(0.1)
            self.feed_forward[-1].weight.mul_(0.1)  # type: ignore[operator]

    def forward(self, x: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        """Waveform ``[B, 2n]`` -> waveform ``[B, 2n]`` without its mean."""
        tokens = iq.fft(x).unflatten(-1, (self.num_tokens, -1))  # (B, 80, 128)
        placed = self.focus_norm(tokens + self.positions)
        context, orthogonality = self.focus(placed, placed, aux=aux)
        tokens = tokens + context
        tokens = tokens + self.feed_forward(self.feed_forward_norm(tokens))
        refined = iq.ifft(tokens.flatten(1)).unflatten(-1, (-1, 2))
        return (refined - refined.mean(dim=1, keepdim=True)).flatten(1), orthogonality


class Decoder(nn.Module):
    """Encoder outputs -> (waveform ``[B, 10240]``, unweighted regularisers, the sinks' outputs).

    >>> decoder = Decoder(DecoderConfig(channels=(4, 8, 16)))
    >>> from types import SimpleNamespace as Skips
    >>> skip = [torch.zeros(1, 5, 4, 512), torch.zeros(1, 5, 8, 128)]
    >>> tokens = torch.zeros(1, 80, 32), torch.zeros(1, 16, 32), torch.zeros(1, 32), torch.zeros(1, 32)
    >>> waveform, aux, sinks = decoder(*tokens, Skips(time=skip, frequency=skip))
    >>> waveform.shape, len(sinks)
    (torch.Size([1, 10240]), 4)
    """

    def __init__(self, config: DecoderConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or DecoderConfig()
        self.time_stages = nn.ModuleList(DecoderStage(config, i, "time") for i in range(3))
        self.frequency_stages = nn.ModuleList(DecoderStage(config, i, "frequency") for i in range(3))
        channels = config.stage_channels[-1]
        self.time_final = nn.Conv1d(channels, channels, 5, padding=2)
        self.frequency_final = nn.Conv1d(channels, channels, 5, padding=2)
        self.fusion = SkipFusion(2 * channels)
        self.smooth = nn.Conv1d(channels, 1, 7, padding=3)
        self.refinement = SpectrumRefinement(config.segment, config.refinement_tokens, config.refinement_heads)
        self.activation = SlidingFocusActivation(
            config.segment,
            config.activation_windows,
            2 * config.latent_dim,
            dim=config.activation_dim,
            local=config.size == "compact",
        )

    def forward(
        self,
        time_tokens: Tensor,
        frequency_tokens: Tensor,
        time_latent: Tensor,
        frequency_latent: Tensor,
        skips: SkipFeatures,
        *,
        return_aux: bool = True,
    ) -> tuple[Tensor, Aux, Sinks]:
        windows = time_tokens.unflatten(1, (self.config.num_windows, -1))  # (B, W, 16, D)
        time, aux, sinks = self._branch(self.time_stages, windows, time_latent, skips.time, return_aux)
        shared = frequency_tokens.unsqueeze(1)  # (B, 1, 16, D): the same for every window
        spectra, more, other = self._branch(
            self.frequency_stages, shared, frequency_latent, skips.frequency, return_aux
        )
        aux = {key: aux[key] + more[key] for key in aux}
        waveform, last = self._finish(time, spectra, torch.cat([time_latent, frequency_latent], -1), return_aux)
        return waveform, aux | last, sinks + other

    def _branch(
        self, stages: nn.ModuleList, x: Tensor, latent: Tensor, skips: list[Tensor], return_aux: bool
    ) -> tuple[Tensor, Aux, Sinks]:
        aux: Aux = {}
        sinks: Sinks = []
        # The encoder's last skip is the first that the decoder meets.
        for stage, skip in zip(stages, [*reversed(skips), None], strict=True):
            x, sink, terms = stage(x, latent, skip, aux=return_aux)
            for key, value in terms.items():
                aux[key] = aux[key] + value if key in aux else value
            if sink is not None:
                sinks.append(sink)
        return x, aux, sinks

    def _finish(self, time: Tensor, spectra: Tensor, latent: Tensor, return_aux: bool) -> tuple[Tensor, Aux]:
        """Concatenate, fuse, smooth, refine the spectrum, modulate (Appendix B.4)."""
        joined = time.flatten(1, 2).unsqueeze(1)  # (B, 1, 5120, 2C): the convolution runs over window borders
        time = convolve(self.time_final, joined)
        local = iq.token_fft(convolve(self.frequency_final, spectra), inverse=True).flatten(1, 2).unsqueeze(1)
        fused = iq.tokens_to_channels(self.fusion(time, local)).squeeze(1)  # (B, C, 10240)
        smooth = self.smooth(fused).squeeze(1)
        refined, first = self.refinement(smooth, aux=return_aux)
        waveform, second = self.activation(refined, latent, aux=return_aux)
        named = {"orthogonality/decoder_refinement": first, "orthogonality/decoder_activation": second}
        return waveform, {key: value for key, value in named.items() if value is not None}
