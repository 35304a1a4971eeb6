"""What the objectives read: plain tensors of one batch, grouped by where they come from (paper, Appendix C).

B is this rank's batch. Every tensor has the batch first; nothing here is gathered across ranks yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class DomainPair:
    """One quantity in both domains: latents ``[B, 128]``, projections ``[B, 1024]`` or tokens ``[B, N, 128]``."""

    time: Tensor
    frequency: Tensor

    def joined(self) -> Tensor:
        """Concatenated along the last axis."""
        return torch.cat((self.time, self.frequency), -1)


@dataclass
class SymmetryInputs:
    """The three representations of a batch, their projections and the predicted codes (IsoFICReg and LED).

    ``augmented`` is the encoding of the transformed noisy signal, ``latent`` that of the clean signal moved by the
    latent equivariant transformer. In separation batches ``augmented`` is a separated source.
    """

    labels: Tensor  # [B] integer emitter
    code: Tensor  # [B, 5] in [0, 1]: frequency, phase, horizontal flip, vertical flip, time
    clean: DomainPair  # latents [B, 128]
    augmented: DomainPair
    latent: DomainPair
    projected_augmented: DomainPair  # [B, 1024]
    projected_latent: DomainPair
    predicted_input: Tensor  # [B, 5] in [0, 1], from augmented - clean
    predicted_latent: Tensor  # [B, 5], from latent - clean


@dataclass
class NoiseInputs:
    """Noise powers in the scale of the noisy input: what the sinks took out, and what was really there."""

    estimated: Tensor  # [B] EncoderOutput.noise_power of the noisy rows
    injected: Tensor  # [B] AugmentedBatch.noise_power or MixtureBatch.noise_power


@dataclass
class ReconstructionInputs:
    """Decoder output against the signal without noise, and how the EMA encoder sees both."""

    waveform: Tensor  # [B, 10240] interleaved
    target: Tensor  # [B, 10240]
    perceived: DomainPair | None = None  # EMA latents of waveform
    perceived_target: DomainPair | None = None  # EMA latents of target, no gradient
    noisy: Tensor | None = None  # [B, 10240] what the waveform was decoded from; only the refined term reads it


@dataclass
class SinkPair:
    """One skip sink of the decoder run for one source: what it removed, what it kept, and the latent guiding it."""

    sink: Tensor  # [B, W, C, L]
    kept: Tensor  # [B, W, C, L]
    guide: Tensor  # [B, any width]


@dataclass
class SingleSourceInputs:
    """A denoising batch; ``reconstruction`` and ``sinks`` are given exactly when the objective has ``decoder=True``."""

    symmetry: SymmetryInputs
    noise: NoiseInputs
    aux: Mapping[str, Tensor]  # unweighted scalars "group/term" of every module that ran, see merge_aux
    reconstruction: ReconstructionInputs | None = None
    sinks: list[SinkPair] | None = None


@dataclass
class SeparationInputs:
    """A batch of two-source mixtures; index 0 is the dominant source A, index 1 the interferer B."""

    sources: tuple[SymmetryInputs, SymmetryInputs]
    separated: tuple[DomainPair, DomainPair]  # tokens from the separation transformer, [B, N, 128]
    target_tokens: tuple[DomainPair, DomainPair]  # tokens of the unmixed sources
    noise: NoiseInputs
    aux: Mapping[str, Tensor]
    reconstruction: tuple[ReconstructionInputs, ReconstructionInputs] | None = None
    sinks: tuple[list[SinkPair], list[SinkPair]] | None = None  # same order of layers and domains for both


@dataclass
class LossOutput:
    """``total`` is the tensor to differentiate and to log: the sum of ``terms``, which are already weighted.

    ``raw`` holds the unweighted values, terms of weight zero included. All are over the joined batch of all ranks.
    """

    total: Tensor
    terms: dict[str, Tensor]
    raw: dict[str, Tensor]
    diagnostics: dict[str, float] = field(default_factory=dict)


def merge_aux(**modules: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join the aux dictionaries of several modules without collisions: "group/term" becomes "group/module.term".

    >>> merge_aux(encoder={"orthogonality/time": torch.tensor(1.0)})
    {'orthogonality/encoder.time': tensor(1.)}
    """
    merged: dict[str, Tensor] = {}
    for module, aux in modules.items():
        for key, value in aux.items():
            group, _, term = key.partition("/")
            merged[f"{group}/{module}.{term}"] = value
    return merged
