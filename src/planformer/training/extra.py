"""Terms beside the paper's objectives, off by default: descriptors, emitters, kinds, and the embedding at the start.

Most ask a *linear* map to read something from the embedding, because what a linear map can read a linear probe can use;
``likeness`` asks the embedding to be a rotated description itself. ``start`` reads the embedding of the frozen encoder
the run began with: training may add to it, not forget it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.data.scenes import NAMED, NAMES
from planformer.iq import deinterleave
from planformer.losses.batch_probe import add_classes, class_gram, compressed_gram, leave_one_out, standardised
from planformer.losses.contrast import contrast
from planformer.losses.descriptors import DescriptorLoss, Descriptors, descriptor_sizes, standardise
from planformer.losses.distributed import gather_batch
from planformer.losses.likeness import Likeness
from planformer.losses.total import LossOutput
from planformer.models.encoder import Encoder, EncoderOutput
from planformer.models.readout import token_moments
from planformer.training.extra_config import START_EMBEDDING, START_TOKENS, shares_of
from planformer.training.recipe import Recipe
from planformer.training.stream import TrainingBatch


class ExtraTerms(nn.Module):
    """Adds its terms to a :class:`LossOutput`; holds nothing when every weight is zero."""

    def __init__(self, recipe: Recipe, encoder: Encoder) -> None:
        super().__init__()
        self.config = recipe.extra
        width, segment = 2 * recipe.model.dim, recipe.model.segment
        self.descriptors: Descriptors | None = None
        self.descriptor_loss: DescriptorLoss | None = None
        self.start: Encoder | None = None
        self.family, self.scene = recipe.diversify.family, recipe.scenes.size
        self.group_weights = shares_of(self.config.descriptors_groups)
        if self.config.descriptors_weight > 0 or self.config.probe_weight > 0:
            self.descriptors = Descriptors(segment, groups=self.group_weights)
        if self.config.descriptors_weight > 0:
            self.descriptor_loss = DescriptorLoss(
                width,
                descriptor_sizes(segment, self.group_weights),
                self.config.descriptors_components,
                emphasis=self.config.descriptors_emphasis,
                memory=self.config.descriptors_memory,
                ridge=self.config.descriptors_ridge,
                group_weights=self.group_weights,
                trained=self.config.descriptors_map == "trained",
                floor=self.config.descriptors_floor,
            )
        self.likeness: Likeness | None = None
        if self.config.likeness_weight > 0:
            shares = shares_of(self.config.likeness_groups)
            self.descriptors = Descriptors(segment, groups=shares, roots=self.config.likeness_roots)
            sizes = descriptor_sizes(segment, shares)
            if self.config.likeness_start > 0:
                shares[START_TOKENS], sizes[START_TOKENS] = self.config.likeness_start, 2 * width
            if self.config.likeness_embedding > 0:
                shares[START_EMBEDDING], sizes[START_EMBEDDING] = self.config.likeness_embedding, width
            self.likeness = Likeness(
                width,
                sizes,
                shares,
                names=self.config.likeness_names,
                classes=self.config.emitters_count,
                floor=self.config.likeness_floor,
                stretches=[self.config.likeness_scenes.get(name, {}) for name in NAMES]
                if self.config.likeness_scenes
                else (),
            )
        if self.config.emitters_weight > 0:
            self.emitter_head = nn.Linear(width, self.config.emitters_count)
        if self.config.kinds_weight > 0 and self.config.kinds_head > 0:
            self.kind_head = nn.Linear(width, self.config.kinds_head)
        if self.config.start_weight > 0 or self.config.likeness_reads_start:
            self.start = copy.deepcopy(encoder).eval().requires_grad_(False)
        self.reduced = recipe.networks.precision == "bfloat16"
        if self.config.start_weight > 0:
            self.start_head = nn.Linear(width, width)
            nn.init.eye_(self.start_head.weight)
            nn.init.zeros_(self.start_head.bias)

    @torch.no_grad()
    def calibrate(self, batches: Iterator[TrainingBatch], encoder: Encoder) -> None:
        """Fix the descriptors' components, and start their linear map, on batches as training sees them.

        Every process must see the same batches.
        """
        if self.descriptors is None or (self.descriptor_loss is None and self.likeness is None):
            return
        seen, parts, count = [], [], 0
        for batch in batches:
            signals = torch.cat([x for _, x in self._described(batch)])
            seen.append((batch, signals))
            parts.append(self.describe(signals))
            count += len(signals)
            if count >= self.config.descriptors_calibration:
                break
        described = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        enough = len(seen)
        if self.descriptor_loss is not None:
            self.descriptor_loss.calibrate(described)
            if not self.descriptor_loss.trained:  # a solved map follows the encoder anyway
                enough = 1 + len(seen) // 2
        embeddings = [encoder(signals, return_aux=False).embedding for _, signals in seen[:enough]]
        if self.descriptor_loss is not None:
            for embedding, part in zip(embeddings, parts, strict=False):
                self.descriptor_loss.observe(embedding, part)
            if self.descriptor_loss.trained:
                self.descriptor_loss.start_map()
        if self.likeness is not None:
            known = ("labels", "plain", "scenes")
            columns = ([_without_named(getattr(batch, name), batch) for batch, _ in seen] for name in known)
            labels, plain, scenes = (torch.cat(column) for column in columns)
            self.likeness.calibrate(torch.cat(embeddings), described, labels, plain, scenes)
        self._start_emitters([batch for batch, _ in seen[:enough]], embeddings, encoder)

    def _start_emitters(self, batches: list[TrainingBatch], embeddings: list[Tensor], encoder: Encoder) -> None:
        """Begin the emitters' head, where it is asked for, from the sequences that are as recorded.

        They are standardised as in training, over all sequences; those of named scenes have no embedding yet.
        """
        if self.config.emitters_weight == 0 or self.config.emitters_start != "solved":
            return
        rows, labels, plain = [], [], []
        for batch, embedding in zip(batches, embeddings, strict=True):
            described = _without_named(batch.labels, batch)
            named = batch.scenes == NAMED
            rows += [embedding[: len(described)]]
            labels += [described, batch.labels[named]]
            plain += [_without_named(batch.plain, batch), batch.plain[named]]
            if bool(named.any()):
                rows += [encoder(batch.clean[named], return_aux=False).embedding]
        own = torch.cat(plain)
        if int(own.sum()) > 1:
            start_classifier(self.emitter_head, standardise(torch.cat(rows))[own], torch.cat(labels)[own])

    @property
    def branches(self) -> set[str]:
        """The branches whose embeddings the terms read: "clean", "augmented"."""
        labelled = self.config.emitters_weight, self.config.kinds_weight, self.config.classes_weight
        read = {"clean"} if self.config.start_weight > 0 or max(labelled) > 0 else set()
        if self.descriptors is not None:
            chosen = self.config.descriptors_branch
            read |= {"clean", "augmented"} if chosen == "both" else {chosen}
        return read

    def forward(
        self, output: LossOutput, clean: EncoderOutput, noisy: EncoderOutput, batch: TrainingBatch
    ) -> LossOutput:
        """Everything in single precision, whatever the networks run in: targets differ by little within a scene."""
        with torch.autocast(batch.clean.device.type, enabled=False):
            return self._terms(output, clean, noisy, batch)

    def _terms(
        self, output: LossOutput, clean: EncoderOutput, noisy: EncoderOutput, batch: TrainingBatch
    ) -> LossOutput:
        if self.descriptors is not None:
            self._add_descriptors(output, clean, noisy, batch)
        if self.config.emitters_weight > 0:
            _add(output, "extra/emitters", self._emitters(clean, batch), self.config.emitters_weight)
        if self.config.kinds_weight > 0:
            _add(output, "extra/kinds", self._kinds(clean, batch), self.config.kinds_weight)
        if self.config.classes_weight > 0:
            _add(output, "extra/classes", self._classes(clean, batch), self.config.classes_weight)
        if self.config.start_weight > 0:
            _add(output, "extra/start", self._start(clean, batch), self.config.start_weight)
        return output

    def _add_descriptors(
        self, output: LossOutput, clean: EncoderOutput, noisy: EncoderOutput, batch: TrainingBatch
    ) -> None:
        """Descriptors read from the branches the recipe names, in one batch."""
        assert self.descriptors is not None
        embeddings = {"clean": clean.embedding, "augmented": noisy.embedding}
        pairs = [(_full(_without_named(embeddings[name], batch)), x) for name, x in self._described(batch)]
        described = self.describe(torch.cat([x for _, x in pairs]))
        # Joined over the processes, so that all of them standardise alike and log the same loss.
        rows = {
            "embedding": torch.cat([e for e, _ in pairs]),
            "emitters": _without_named(batch.labels, batch).repeat(len(pairs)),
            "plain": _without_named(batch.plain, batch).float().repeat(len(pairs)),
            "scenes": _without_named(batch.scenes, batch).repeat(len(pairs)),
        }
        joined = gather_batch({**rows, **described}, same_size=True)
        embedding, emitters, plain, scenes = (joined.pop(name) for name in rows)
        if self.descriptor_loss is not None:
            loss, details = self.descriptor_loss(embedding, joined)
            output.raw.update(details)
            _add(output, "extra/descriptors", loss, self.config.descriptors_weight)
        if self.likeness is not None:
            loss, details = self.likeness(embedding, joined, emitters, plain, self.scene, scenes)
            output.raw.update(details)
            _add(output, "extra/likeness", loss, self.config.likeness_weight)
        if self.config.probe_weight > 0:
            _add(output, "extra/probe", self._probe(embedding, joined, emitters), self.config.probe_weight)

    def _probe(self, embedding: Tensor, descriptors: Mapping[str, Tensor], emitters: Tensor) -> Tensor:
        """Leave-one-out probes within each family of sequences that took the same steps (one: the whole batch)."""
        size = self.family if self.family > 1 else len(embedding)
        config = self.config
        losses = []
        for rows in torch.arange(len(embedding)).split(size):
            parts = [weight * standardised(descriptors[name][rows]) for name, weight in self.group_weights.items()]
            gram = compressed_gram(torch.cat(parts, dim=1), config.probe_power)
            if config.probe_emitters > 0:
                gram = add_classes(gram, emitters[rows], config.probe_emitters)
            losses.append(leave_one_out(embedding[rows], gram, config.probe_ridge))
        return torch.stack(losses).mean()

    def _emitters(self, clean: EncoderOutput, batch: TrainingBatch) -> Tensor:
        """Cross-entropy of the emitters of the sequences that are as recorded; what diversifies hides who sent."""
        rows = {"embedding": _full(clean.embedding), "emitters": batch.labels, "plain": batch.plain.float()}
        joined = gather_batch(rows, same_size=True)
        logits = self.emitter_head(standardise(joined["embedding"]))
        errors = F.cross_entropy(logits, joined["emitters"], reduction="none")
        return (errors * joined["plain"]).sum() / joined["plain"].sum().clamp_min(1)

    def _kinds(self, clean: EncoderOutput, batch: TrainingBatch) -> Tensor:
        """Which sequences of the batch are of one kind, read from the embedding or from a linear map of it."""
        joined = gather_batch({"embedding": _full(clean.embedding), "kinds": batch.kinds}, same_size=True)
        z = standardise(joined["embedding"])
        if self.config.kinds_head > 0:
            z = self.kind_head(z)
        return contrast(z, joined["kinds"], self.config.kinds_temperature)

    def _classes(self, clean: EncoderOutput, batch: TrainingBatch) -> Tensor:
        """Leave-one-out ridge probes of the classes of every scene; 1 is guessing."""
        joined = gather_batch({"embedding": _full(clean.embedding), "kinds": batch.kinds}, same_size=True)
        scenes = zip(joined["embedding"].split(self.scene), joined["kinds"].split(self.scene), strict=True)
        losses = [
            leave_one_out(rows, class_gram(kinds).to(rows.dtype), self.config.classes_ridge) for rows, kinds in scenes
        ]
        return torch.stack(losses).mean()

    @torch.no_grad()
    def describe(self, signals: Tensor) -> dict[str, Tensor]:
        """Descriptors of interleaved signals, and what the start makes of them where likeness reads it."""
        assert self.descriptors is not None
        described = self.descriptors(deinterleave(signals))
        if self.config.likeness_reads_start:
            assert self.start is not None
            self.start.eval()
            with torch.autocast(signals.device.type, torch.bfloat16, enabled=self.reduced):
                tokens = self.start.tokenize(signals, return_aux=False)
                if self.config.likeness_embedding > 0:
                    latents = self.start.pool(tokens.time, tokens.frequency)
                    described[START_EMBEDDING] = torch.cat(latents, -1).float()
            if self.config.likeness_start > 0:
                described[START_TOKENS] = token_moments(tokens.time.float(), tokens.frequency.float())
        return described

    def _described(self, batch: TrainingBatch) -> list[tuple[str, Tensor]]:
        """The branches that are read, each with the signals whose descriptors are asked for (in no named scene)."""
        augmented = batch.target if self.config.descriptors_of == "signal" else batch.noisy
        clean = batch.clean if batch.described is None else batch.described
        both = [("clean", clean), ("augmented", augmented)]
        chosen = [(name, x) for name, x in both if self.config.descriptors_branch in (name, "both")]
        return [(name, _without_named(x, batch)) for name, x in chosen]

    def _start(self, clean: EncoderOutput, batch: TrainingBatch) -> Tensor:
        """Error of the start's embedding in units of its variance over the batch."""
        assert self.start is not None
        count = max(2, round(self.config.start_share * len(batch.clean)))
        self.start.eval()
        with torch.no_grad():
            wanted = self.start(batch.clean[:count], return_aux=False).embedding
        joined = gather_batch({"now": _full(clean.embedding[:count]), "start": wanted}, same_size=True)
        spread = joined["start"].var(0).clamp_min(1e-8)
        error = (self.start_head(joined["now"]) - joined["start"]).square() / spread
        return error.clamp_max(25.0).mean()


@torch.no_grad()
def start_classifier(head: nn.Linear, rows: Tensor, labels: Tensor, ridge: float = 0.3, scale: float = 8.0) -> None:
    """Let a head begin as the ridge regression from standardised ``rows`` ``[n, d]`` to the classes, as logits.

    A head that begins at random leads the network nowhere until it has learned, which takes most of a short run.
    """
    z = rows.double()
    targets = F.one_hot(labels, head.out_features).double()
    share = targets.mean(0)
    normal = z.T @ z / len(z) + ridge * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    solution = torch.linalg.solve(normal, z.T @ (targets - share) / len(z))  # (d, classes)
    head.weight.copy_(scale * solution.T)
    head.bias.copy_(scale * share)


def _full(x: Tensor) -> Tensor:
    """At least single precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _without_named(rows: Tensor, batch: TrainingBatch) -> Tensor:
    """The rows of a batch that are asked for more than who sends; as many in every process."""
    named = batch.scenes == NAMED
    return rows[~named] if bool(named.any()) else rows


def _add(output: LossOutput, name: str, value: Tensor, weight: float) -> None:
    """What is logged is what is differentiated."""
    output.total = output.total + weight * value
    output.terms[name] = (weight * value).detach()
    output.raw[name] = value.detach()
