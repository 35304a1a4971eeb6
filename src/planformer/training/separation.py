"""The forward pass of a separation batch (paper, Appendix C, "Token-Level Source Separation").

Mixture and clean sources share one encoder pass with gradient; the unmixed (transformed) sources, whose tokens are
targets, take one without where their gradient is not wanted. Both separated sources then run as one batch of 2B.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from planformer.losses.inputs import SinkPair
from planformer.losses.total import (
    DomainPair,
    NoiseInputs,
    ReconstructionInputs,
    SeparationInputs,
    SymmetryInputs,
    merge_aux,
)
from planformer.models.auxiliary import SeparationNetworks
from planformer.models.encoder import EncoderOutput
from planformer.training.outputs import rows_of, split_output
from planformer.training.recipe import Recipe
from planformer.training.stream import TrainingBatch

if TYPE_CHECKING:
    from planformer.training.trainee import Trainee


class SeparationPass(nn.Module):
    """Holds the separation transformers and turns a batch of mixtures into the objective's inputs."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.detach_targets = recipe.objective.detach_token_targets
        self.networks = SeparationNetworks(
            recipe.model.dim, num_heads=recipe.model.num_heads, dropout_prob=recipe.networks.dropout_prob
        )

    def forward(self, trainee: Trainee, batch: TrainingBatch) -> SeparationInputs:
        mixture, clean_b, labels_b = batch.mixture, batch.clean_b, batch.labels_b
        assert mixture is not None and clean_b is not None and labels_b is not None
        count = len(batch.clean)
        both = trainee.encode_pair(torch.cat((batch.clean, clean_b)), mixture.mixture)
        clean, mixed = split_output(both, 2 * count)
        assert mixed.focused is not None
        (tokens_a, tokens_b), separation_aux = self.networks(DomainPair(*mixed.focused))
        separated = self._separated(trainee, mixed, tokens_a, tokens_b)

        symmetry, moved = trainee.symmetry(
            clean, separated, torch.cat((mixture.code_a, mixture.code_b)), torch.cat((batch.labels, labels_b))
        )
        aux = {"encoder": both.aux, "auxiliary": moved, "separation": separation_aux}
        reconstruction, sinks = None, None
        if trainee.decoder is not None:
            waveform, aux["decoder"], pairs = trainee.decode(separated)
            scale = torch.cat((mixture.scale_a, mixture.scale_b))
            if trainee.recipe.networks.target_scale == "unit":
                scale = torch.ones_like(scale)
            target = torch.cat((mixture.source_a, mixture.source_b)) * scale[:, None]
            reconstruction = _halves(trainee.perceive(waveform, target, scale))
            sinks = ([_rows(p, slice(None, count)) for p in pairs], [_rows(p, slice(count, None)) for p in pairs])
        return SeparationInputs(
            sources=split_symmetry(symmetry, count),
            separated=(tokens_a, tokens_b),
            target_tokens=self._targets(trainee, mixture.source_a, mixture.source_b),
            noise=NoiseInputs(mixed.noise_power, mixture.noise_power),
            aux=merge_aux(**aux),
            reconstruction=reconstruction,
            sinks=sinks,
        )

    @staticmethod
    def _separated(trainee: Trainee, mixed: EncoderOutput, a: DomainPair, b: DomainPair) -> EncoderOutput:
        """An encoder output of 2B rows: separated tokens and their latents, over the mixture's skips."""
        joined = torch.cat((a.time, b.time)), torch.cat((a.frequency, b.frequency))
        time, frequency = trainee.encoder.transformer_fusion(*joined)  # the remaining encoder
        time_latent, frequency_latent = trainee.encoder.pool(time, frequency)
        twice = rows_of(mixed, torch.arange(len(a.time), device=time.device).repeat(2))
        return EncoderOutput(time, frequency, time_latent, frequency_latent, {}, twice.noise_power, twice.skips)

    def _targets(self, trainee: Trainee, a: Tensor, b: Tensor) -> tuple[DomainPair, DomainPair]:
        with torch.no_grad() if self.detach_targets else nullcontext():
            tokens = trainee.encoder.tokenize(torch.cat((a, b)), return_aux=False)
        assert tokens.focused is not None
        (time_a, time_b), (frequency_a, frequency_b) = (x.chunk(2) for x in tokens.focused)
        return DomainPair(time_a, frequency_a), DomainPair(time_b, frequency_b)


def split_symmetry(inputs: SymmetryInputs, count: int) -> tuple[SymmetryInputs, SymmetryInputs]:
    """The first ``count`` rows (source A) and the rest (source B)."""

    def take(value: Tensor | DomainPair, rows: slice) -> Tensor | DomainPair:
        return value[rows] if isinstance(value, Tensor) else DomainPair(value.time[rows], value.frequency[rows])

    first, second = (
        SymmetryInputs(**{name: take(value, rows) for name, value in vars(inputs).items()})  # type: ignore[arg-type]
        for rows in (slice(None, count), slice(count, None))
    )
    return first, second


def _halves(inputs: ReconstructionInputs) -> tuple[ReconstructionInputs, ReconstructionInputs]:
    count = len(inputs.waveform) // 2

    def half(rows: slice) -> ReconstructionInputs:
        seen, wanted = (
            None if pair is None else DomainPair(pair.time[rows], pair.frequency[rows])
            for pair in (inputs.perceived, inputs.perceived_target)
        )
        return ReconstructionInputs(inputs.waveform[rows], inputs.target[rows], seen, wanted)

    return half(slice(None, count)), half(slice(count, None))


def _rows(pair: SinkPair, rows: slice) -> SinkPair:
    return SinkPair(pair.sink[rows], pair.kept[rows], pair.guide[rows])
