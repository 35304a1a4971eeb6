"""All networks of a run in one module, and the forward pass of a batch (paper, Appendix C, "Training Procedure").

One module, so that DistributedDataParallel sees one forward pass. Clean and augmented sequences go through the encoder
together; only the augmented ones have the centre tap of the first kernel masked.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from planformer.losses.inputs import SinkPair
from planformer.losses.total import (
    DomainPair,
    LossOutput,
    NoiseInputs,
    ReconstructionInputs,
    ReconstructionObjective,
    SeparationObjective,
    SingleSourceInputs,
    SingleSourceObjective,
    SymmetryInputs,
    merge_aux,
)
from planformer.models.auxiliary import SymmetryNetworks
from planformer.models.decoder import Decoder
from planformer.models.decoder_config import DecoderConfig
from planformer.models.ema import EMAModel
from planformer.models.encoder import Encoder, EncoderOutput
from planformer.models.start import raise_levels, spread_kernels
from planformer.training.extra import ExtraTerms
from planformer.training.outputs import split_output
from planformer.training.recipe import Recipe
from planformer.training.separation import SeparationPass
from planformer.training.stream import TrainingBatch

DIAGNOSE_EVERY = 50


class Trainee(nn.Module):
    """Encoder, auxiliary networks, optional decoder and separation, and the moving average of the encoder."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.encoder = build_encoder(recipe)
        self.symmetry_networks = _build_symmetry(recipe)
        self.decoder = _build_decoder(recipe)
        self.separation = SeparationPass(recipe) if recipe.separation.share > 0 else None
        self.extra = ExtraTerms(recipe, self.encoder)
        self.ema = EMAModel(self.encoder, recipe.ema.decay)
        # Published together with the averaged encoder, so they must be averages too.
        self.ema_decoder = EMAModel(self.decoder, recipe.ema.decay) if self.decoder is not None else None
        self.ema_separation = (
            EMAModel(self.separation.networks, recipe.ema.decay) if self.separation is not None else None
        )
        self.ema_updates = 0
        has_decoder = self.decoder is not None
        self.single_objective = SingleSourceObjective(recipe.objective, decoder=has_decoder, same_size=True)
        self.separation_objective = SeparationObjective(recipe.objective, decoder=has_decoder, same_size=True)
        self.reconstruction_objective = ReconstructionObjective(recipe.objective, decoder=has_decoder, same_size=True)

    # Forward passes ------------------------------------------------------------

    def forward(self, batch: TrainingBatch) -> LossOutput:
        """The total loss of one batch over all processes."""
        diagnose = batch.step % DIAGNOSE_EVERY == 0
        if batch.kind == "separation":
            assert self.separation is not None
            inputs = self.separation(self, batch)
            return self.separation_objective(inputs, diagnose=diagnose)
        return self._single(batch, diagnose)

    def _single(self, batch: TrainingBatch, diagnose: bool) -> LossOutput:
        if self.symmetry_networks is None:
            return self._without_symmetry(batch)
        both = self.encode_pair(batch.clean, batch.noisy)
        clean, noisy = split_output(both, len(batch.clean))
        symmetry, moved = self.symmetry(clean, noisy, batch.code, batch.labels)
        noise = NoiseInputs(noisy.noise_power, batch.noise_power)
        aux = {"encoder": both.aux, "auxiliary": moved}
        reconstruction, sinks = None, None
        if self.decoder is not None:
            reconstruction, aux["decoder"], sinks = self._reconstruction(noisy, batch)
        inputs = SingleSourceInputs(symmetry, noise, merge_aux(**aux), reconstruction, sinks)
        output = self.single_objective(inputs, diagnose=diagnose)
        return self.extra(output, clean, noisy, batch)

    def _without_symmetry(self, batch: TrainingBatch) -> LossOutput:
        """Of the paper's objectives only the reconstruction: a branch that nothing reads is not encoded at all."""
        read = self.extra.branches
        clean = batch.clean if "clean" in read else batch.clean[:0]
        noisy = batch.noisy if "augmented" in read or self.decoder is not None else batch.noisy[:0]
        parts = split_output(self.encode_pair(clean, noisy), len(clean))
        output = LossOutput(batch.clean.new_zeros(()), {}, {})
        if self.decoder is not None:
            reconstruction, _, _ = self._reconstruction(parts[1], batch, return_aux=False)
            output = self.reconstruction_objective(reconstruction)
        return self.extra(output, *parts, batch)

    def _reconstruction(
        self, noisy: EncoderOutput, batch: TrainingBatch, *, return_aux: bool = True
    ) -> tuple[ReconstructionInputs, dict[str, Tensor], list[SinkPair]]:
        """The decoder's waveform beside its target, its regularisers and its skip sinks."""
        scale = self.target_scale(batch.signal_power)
        waveform, aux, sinks = self.decode(noisy, return_aux=return_aux)
        inputs = self.perceive(waveform, batch.target * scale[:, None], scale)
        return replace(inputs, noisy=batch.noisy), aux, sinks

    def symmetry(
        self, clean: EncoderOutput, moved: EncoderOutput, code: Tensor, labels: Tensor
    ) -> tuple[SymmetryInputs, dict[str, Tensor]]:
        """The latent-transformed branch, projections and predicted codes."""
        assert self.symmetry_networks is not None
        inputs, aux = self.symmetry_networks(
            DomainPair(clean.time_tokens, clean.frequency_tokens),
            DomainPair(clean.time_latent, clean.frequency_latent),
            DomainPair(moved.time_latent, moved.frequency_latent),
            code,
            labels,
            pool=self.encoder.pool,
        )
        return inputs, aux

    def encode_pair(self, clean: Tensor, noisy: Tensor) -> EncoderOutput:
        """Rows ``[0, B)`` are clean, the rest noisy: one pass, the blindspot on the noisy rows only."""
        blindspot = torch.zeros(len(clean) + len(noisy), dtype=torch.bool, device=clean.device)
        blindspot[len(clean) :] = self.recipe.networks.blindspot
        regularised = self.symmetry_networks is not None
        encode = partial(
            self.encoder, blindspot=blindspot, return_skips=self.decoder is not None, return_aux=regularised
        )
        x = torch.cat((clean, noisy))
        saving = self.recipe.networks.activation_checkpointing and torch.is_grad_enabled()
        out: EncoderOutput = checkpoint(encode, x, use_reentrant=False) if saving else encode(x)
        return out

    def decode(
        self, out: EncoderOutput, *, return_aux: bool = True
    ) -> tuple[Tensor, dict[str, Tensor], list[SinkPair]]:
        """Waveform, regularisers, and every skip sink with the latent of its domain as its guide."""
        assert self.decoder is not None
        waveform, aux, sinks = self.decoder(
            out.time_tokens,
            out.frequency_tokens,
            out.time_latent,
            out.frequency_latent,
            out.skips,
            return_aux=return_aux,
        )
        guides = {"time": out.time_latent, "frequency": out.frequency_latent}
        return waveform, aux, [SinkPair(s.sink, s.cleaned, guides[s.domain]) for s in sinks]

    def target_scale(self, signal_power: Tensor) -> Tensor:
        """Amplitude of the target: its share of the noisy input, so that input = target + noise, or one."""
        if self.recipe.networks.target_scale == "unit":
            return torch.ones_like(signal_power)
        return signal_power.sqrt()

    def perceive(self, waveform: Tensor, target: Tensor, scale: Tensor) -> ReconstructionInputs:
        """Add how the averaged encoder sees waveform and target, both brought to the target's unit power."""
        if self.recipe.objective.perceptual_weight == 0:
            return ReconstructionInputs(waveform, target)
        gain = 1 / scale.clamp_min(1e-6)[:, None]
        seen = self.ema(waveform * gain, return_aux=False)
        with torch.no_grad():
            wanted = self.ema(target * gain, return_aux=False)
        return ReconstructionInputs(
            waveform,
            target,
            DomainPair(seen.time_latent, seen.frequency_latent),
            DomainPair(wanted.time_latent, wanted.frequency_latent),
        )

    @property
    def may_leave_parameters_unused(self) -> bool:
        """Whether some step may give a parameter no gradient, which several processes have to be told.

        Batches of two kinds use different networks, extra terms alone may not reach every parameter, and a term that
        an ablation switched off may have been the only one behind a head.
        """
        switched_off = 0 in self.single_objective.weights.values()
        return self.recipe.separation.share > 0 or self.symmetry_networks is None or switched_off

    # Beside the training ------------------------------------------------------------

    @torch.no_grad()
    def update_ema(self) -> None:
        """Follow the weights; the first updates average over fewer steps, so that the random start is forgotten."""
        self.ema_updates += 1
        separation = self.separation.networks if self.separation is not None else None
        followers = [(self.ema, self.encoder), (self.ema_decoder, self.decoder), (self.ema_separation, separation)]
        for average, source in followers:
            if average is not None and source is not None:
                average.momentum = min(self.recipe.ema.decay, self.ema_updates / (self.ema_updates + 10))
                average.update(source)

    def chosen_encoder(self, *, ema: bool) -> Encoder:
        chosen = self.ema.model if ema else self.encoder
        assert isinstance(chosen, Encoder)
        return chosen

    def components(self, *, ema: bool) -> tuple[Encoder, Decoder | None, nn.Module | None]:
        """Encoder, decoder and separation networks that belong together: the averages, or the weights as they are."""
        encoder = self.chosen_encoder(ema=ema)
        if ema:
            decoder = self.ema_decoder.model if self.ema_decoder is not None else None
            separation = self.ema_separation.model if self.ema_separation is not None else None
        else:
            decoder, separation = self.decoder, self.separation.networks if self.separation is not None else None
        assert decoder is None or isinstance(decoder, Decoder)
        return encoder, decoder, separation

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Tensor:
        """Encode and decode interleaved segments, for pictures."""
        training = self.training
        self.eval()
        try:
            waveform, _, _ = self.decode(self.encoder(x, return_skips=True, return_aux=False))
        finally:
            self.train(training)
        return waveform


def build_encoder(recipe: Recipe) -> Encoder:
    """A fresh encoder, or one that continues from a weights folder."""
    encoder = Encoder(recipe.model)
    if recipe.networks.init_from is not None:
        from planformer.models.weights import load_strict, read_component

        stored = read_component(recipe.networks.init_from, "model", architecture="planformer-encoder")
        load_strict(encoder, stored.tensors, where=recipe.networks.init_from)
    if recipe.networks.raise_levels:
        raise_levels(encoder)
    if recipe.networks.spread_kernels > 1:
        spread_kernels(encoder, recipe.networks.spread_kernels)
    return encoder


def _build_symmetry(recipe: Recipe) -> SymmetryNetworks | None:
    if not recipe.networks.symmetry:
        return None
    return SymmetryNetworks(
        recipe.model.dim,
        recipe.networks.projection_dim,
        num_heads=recipe.model.num_heads,
        dropout_prob=recipe.networks.dropout_prob,
        statistics=recipe.networks.projection_statistics,
    )


def _build_decoder(recipe: Recipe) -> Decoder | None:
    if recipe.networks.decoder == "none":
        return None
    networks = recipe.networks
    decoder = Decoder(DecoderConfig.from_encoder(recipe.model, size=networks.decoder, blindspot=networks.blindspot))
    if networks.init_from is not None:
        from planformer.models.restoration import continue_decoder

        continue_decoder(decoder, networks.init_from)
    return decoder
