"""Terms beside the paper's objectives, off by default: physical descriptors, and the embedding at the start.

Both ask a *linear* map to read something from the embedding, because what a linear map can read a linear probe can use.
``start`` reads the embedding of the frozen encoder the run began with: training may add to it, not forget it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from planformer.iq import deinterleave
from planformer.losses.descriptors import GROUPS, DescriptorLoss, Descriptors, descriptor_sizes
from planformer.losses.distributed import gather_batch
from planformer.losses.total import LossOutput
from planformer.models.encoder import Encoder, EncoderOutput
from planformer.training.recipe import Recipe
from planformer.training.stream import TrainingBatch


class ExtraTerms(nn.Module):
    """Adds its terms to a :class:`LossOutput`; holds nothing when every weight is zero."""

    def __init__(self, recipe: Recipe, encoder: Encoder) -> None:
        super().__init__()
        self.config = recipe.extra
        width, segment = 2 * recipe.model.dim, recipe.model.segment
        self.descriptors: Descriptors | None = None
        self.start: Encoder | None = None
        if self.config.descriptors_weight > 0:
            weights = self.config.descriptors_groups
            wanted = [name for name in GROUPS if weights.get(name, 1.0) > 0]
            self.descriptors = Descriptors(segment, groups=wanted)
            self.descriptor_loss = DescriptorLoss(
                width,
                descriptor_sizes(segment, wanted),
                self.config.descriptors_components,
                emphasis=self.config.descriptors_emphasis,
                group_weights={name: weight for name, weight in weights.items() if weight > 0},
            )
        if self.config.start_weight > 0:
            self.start = copy.deepcopy(encoder).eval().requires_grad_(False)
            self.start_head = nn.Linear(width, width)
            nn.init.eye_(self.start_head.weight)
            nn.init.zeros_(self.start_head.bias)

    @torch.no_grad()
    def calibrate(self, batches: Iterator[TrainingBatch], encoder: Encoder) -> None:
        """Fix the descriptors' components, and start their linear map, on batches as training sees them.

        Every process must see the same batches.
        """
        if self.descriptors is None:
            return
        seen, parts, count = [], [], 0
        for batch in batches:
            signals = torch.cat([x for _, x in self._described(batch)])
            seen.append(signals)
            parts.append(self.descriptors(deinterleave(signals)))
            count += len(signals)
            if count >= self.config.descriptors_calibration:
                break
        self.descriptor_loss.calibrate({name: torch.cat([part[name] for part in parts]) for name in parts[0]})
        enough = 1 + len(seen) // 2  # the map follows the encoder anyway
        for signals, part in zip(seen[:enough], parts[:enough], strict=True):
            self.descriptor_loss.observe(encoder(signals, return_aux=False).embedding, part)

    @property
    def branches(self) -> set[str]:
        """The branches whose embeddings the terms read: "clean", "augmented"."""
        read = {"clean"} if self.start is not None else set()
        if self.descriptors is not None:
            chosen = self.config.descriptors_branch
            read |= {"clean", "augmented"} if chosen == "both" else {chosen}
        return read

    def forward(
        self, output: LossOutput, clean: EncoderOutput, noisy: EncoderOutput, batch: TrainingBatch
    ) -> LossOutput:
        if self.descriptors is not None:
            value, details = self._descriptors(clean, noisy, batch)
            output.raw.update(details)
            _add(output, "extra/descriptors", value, self.config.descriptors_weight)
        if self.start is not None:
            _add(output, "extra/start", self._start(clean, batch), self.config.start_weight)
        return output

    def _descriptors(
        self, clean: EncoderOutput, noisy: EncoderOutput, batch: TrainingBatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Descriptors read from the branches the recipe names, in one batch."""
        assert self.descriptors is not None
        embeddings = {"clean": clean.embedding, "augmented": noisy.embedding}
        pairs = [(embeddings[branch], x) for branch, x in self._described(batch)]
        described = self.descriptors(deinterleave(torch.cat([x for _, x in pairs])))
        # Joined over the processes, so that all of them standardise alike and log the same loss.
        joined = gather_batch({"embedding": torch.cat([e for e, _ in pairs]), **described}, same_size=True)
        embedding = joined.pop("embedding")
        loss, details = self.descriptor_loss(embedding, joined)
        return loss, details

    def _described(self, batch: TrainingBatch) -> list[tuple[str, Tensor]]:
        """The branches that are read, each with the signals whose descriptors are asked for."""
        augmented = batch.target if self.config.descriptors_of == "signal" else batch.noisy
        both = [("clean", batch.clean), ("augmented", augmented)]
        return [(name, x) for name, x in both if self.config.descriptors_branch in (name, "both")]

    def _start(self, clean: EncoderOutput, batch: TrainingBatch) -> Tensor:
        """Error of the start's embedding in units of its variance over the batch."""
        assert self.start is not None
        count = max(2, round(self.config.start_share * len(batch.clean)))
        self.start.eval()
        with torch.no_grad():
            wanted = self.start(batch.clean[:count], return_aux=False).embedding
        joined = gather_batch({"now": clean.embedding[:count], "start": wanted}, same_size=True)
        spread = joined["start"].var(0).clamp_min(1e-8)
        error = (self.start_head(joined["now"]) - joined["start"]).square() / spread
        return error.clamp_max(25.0).mean()


def _add(output: LossOutput, name: str, value: Tensor, weight: float) -> None:
    """What is logged is what is differentiated."""
    output.total = output.total + weight * value
    output.terms[name] = (weight * value).detach()
    output.raw[name] = value.detach()
