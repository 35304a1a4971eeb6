"""One stage of the decoder in one domain (paper, Algorithm B.1, inner loop).

Convolution, dynamic FiLM, upsampling x4, then - in all stages but the last - skip sink, fusion and causal focus.
"""

from __future__ import annotations

from torch import Tensor, nn

from planformer.iq import channels_to_tokens, token_fft, tokens_to_channels
from planformer.models.decoder_config import DecoderConfig
from planformer.nn.causal_latent_focus import CausalLatentFocus
from planformer.nn.film import DynamicFiLM
from planformer.nn.skip_fusion import SkipFusion
from planformer.nn.skip_sink import SinkOutput, SkipSink
from planformer.nn.spectral_upsampling import Domain, SpectralUpsampling

Aux = dict[str, Tensor]


def convolve(layer: nn.Conv1d, tokens: Tensor) -> Tensor:
    """A convolution over the interleaved sequence of tokens ``[B, W, n, 2C]``, window by window."""
    channels = tokens_to_channels(tokens).flatten(0, 1)  # (B W, C, 2n)
    return channels_to_tokens(layer(channels)).unflatten(0, tokens.shape[:2])


class DecoderStage(nn.Module):
    """Tokens ``[B, W, n, 2 in]`` -> ``[B, W, 4n, 2 out]`` of one domain."""

    def __init__(self, config: DecoderConfig, index: int, domain: Domain) -> None:
        super().__init__()
        self.domain: Domain = domain
        self.index = index
        before = config.channels[-1] if index == 0 else config.stage_channels[index - 1]
        channels, length = config.stage_channels[index], config.stage_lengths[index]
        dim, longer, rank = 2 * channels, length * config.pooling_factor, config.hypernetwork_rank
        latent_dim, axis = config.latent_dim, config.upsampling
        self.conv = nn.Conv1d(before, channels, 3, padding=1)
        self.film = DynamicFiLM(channels, length, latent_dim, num_queries=config.film_queries, rank=rank)
        self.upsample = SpectralUpsampling(dim, dim, config.pooling_factor, axis=axis)
        self.has_skip = index < 2
        if self.has_skip:
            group = config.sink_group(domain)
            self.sink = SkipSink(channels, length=longer, latent_dim=latent_dim, domain=domain, group=group, rank=rank)
            self.fusion = SkipFusion(dim)
            self.focus = CausalLatentFocus(dim, length=longer, latent_dim=latent_dim, domain=domain, axis=axis)

    def forward(
        self, x: Tensor, latent: Tensor, skip: Tensor | None, *, aux: bool
    ) -> tuple[Tensor, SinkOutput | None, Aux]:
        terms: Aux = {}
        x, orthogonality = self.film(convolve(self.conv, x), latent, aux=aux)
        _put(terms, "orthogonality/decoder_film", orthogonality)
        x = self.upsample(x, domain=self.domain, keep_spectrum=self.has_skip)
        if not self.has_skip:
            return x, None, terms
        assert skip is not None
        taken, left, compensated, sink_terms = self.sink(channels_to_tokens(skip), latent, aux=aux)
        terms |= {name.replace("/", "/decoder_skip_", 1): value for name, value in sink_terms.items()}
        x = self._fuse(x.expand(compensated.shape), compensated)
        x, orthogonality = self.focus(x, latent, aux=aux)
        _put(terms, "orthogonality/decoder_focus", orthogonality)
        output = SinkOutput(self.domain, self.index, tokens_to_channels(taken), tokens_to_channels(left))
        return x, output, terms

    def _fuse(self, spectrum: Tensor, skip: Tensor) -> Tensor:
        """Fuse in the frequency domain, so that the skip's spectrum fills in what upsampling could not."""
        if self.domain == "frequency":
            return self.fusion(spectrum, skip)
        return token_fft(self.fusion(spectrum, token_fft(skip)), inverse=True)


def _put(terms: Aux, name: str, value: Tensor | None) -> None:
    if value is not None:
        terms[name] = value
