"""Total losses of single-source and separation batches (paper, Appendix C, "Complete Loss Formulation").

How to use them, for one denoising batch (``batch`` from ``data.augment``, ``networks`` a ``SymmetryNetworks``)::

    n = len(clean)                                                   # clean: interleaved [B, 10240]
    noisy = torch.arange(2 * n) >= n                                 # the blindspot masks the noisy rows only
    out = encoder(torch.cat((clean, batch.noisy)), blindspot=noisy)  # both branches in one pass
    tokens = DomainPair(out.time_tokens[:n], out.frequency_tokens[:n])
    quiet = DomainPair(out.time_latent[:n], out.frequency_latent[:n])
    moved = DomainPair(out.time_latent[n:], out.frequency_latent[n:])
    symmetry, aux = networks(tokens, quiet, moved, batch.code, labels, pool=encoder.pool)
    noise = NoiseInputs(out.noise_power[n:], batch.noise_power)
    inputs = SingleSourceInputs(symmetry, noise, merge_aux(encoder=out.aux, latent=aux))
    loss = SingleSourceObjective(ObjectiveConfig(), decoder=False)(inputs, diagnose=step % 50 == 0)
    loss.total.backward()

For one batch of mixtures (``batch`` from ``data.mixtures``; clean_a and clean_b are its untransformed sources)::

    out = encoder(torch.cat((clean_a, clean_b, batch.mixture)), blindspot=torch.arange(3 * n) >= 2 * n)
    with torch.no_grad():  # the regression targets: tokens of the transformed, unmixed sources
        wanted = encoder(torch.cat((batch.source_a, batch.source_b)))
    separated, aux = separation(DomainPair(*(x[2 * n :] for x in out.focused)))
    fused = [encoder.transformer_fusion(s.time, s.frequency) for s in separated]  # the remaining encoder
    latents = [DomainPair(*encoder.pool(*tokens)) for tokens in fused]
    # per source: networks(clean tokens, clean latents, latents[s], code_s, labels_s, pool=encoder.pool) -> sources[s]
    targets = tuple(DomainPair(*(x[s * n : (s + 1) * n] for x in wanted.focused)) for s in (0, 1))
    SeparationObjective()(SeparationInputs(sources, separated, targets, noise, merge_aux(...)))

Inputs, all of this rank's batch, B samples (dataclasses in ``losses.inputs``):

- ``symmetry: SymmetryInputs``: labels [B], code [B, 5], latents of the clean, augmented and latent-transformed branch
  (each a DomainPair of [B, 128]), projections of the last two (DomainPairs of [B, 1024]), predicted codes [B, 5].
  ``models.auxiliary.SymmetryNetworks`` produces it from two encoder outputs and the code.
- ``noise: NoiseInputs``: the noise sinks' power of the noisy rows and the injected noise power, each [B].
- ``aux``: the unweighted scalars of all modules that ran, joined by ``merge_aux(encoder=out.aux, networks=aux, ...)``;
  a term is "group/name", its group one of ``regularizers.AUX_GROUPS``, and each group must be there.
- only with ``decoder=True``: ``reconstruction: ReconstructionInputs``, waveform and target [B, 10240], the EMA
  encoder's latents of both unless ``perceptual_weight`` is zero, and the noisy input where ``refined_weight`` is not
  (single-source batches only); ``sinks``, one SinkPair per skip sink of the decoder,
  with the latent of the sink's domain as its guide.
- ``SeparationInputs``: two of each, and tokens and skip sinks of both sources.

Output: ``LossOutput(total, terms, raw, diagnostics)``. ``total`` is the sum of ``terms``, the weighted contributions,
so what is logged is what is differentiated; ``raw`` holds the unweighted values. A term that is expected and missing,
or present and unknown, raises ConfigError; a weight of zero switches a term off.

Across ranks: call it on every rank with that rank's rows (sizes may differ). All ranks get the same total, that of the
joined batch; average parameter gradients over ranks, as DistributedDataParallel does, and they are the joined batch's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from planformer.errors import ConfigError
from planformer.losses.config import ObjectiveConfig
from planformer.losses.diagnostics import diagnose as compute_diagnostics
from planformer.losses.distributed import at_least_single, gather_batch
from planformer.losses.focal import focal_mean
from planformer.losses.inputs import (
    DomainPair,
    LossOutput,
    NoiseInputs,
    ReconstructionInputs,
    SeparationInputs,
    SingleSourceInputs,
    SinkPair,
    SymmetryInputs,
    merge_aux,
)
from planformer.losses.isoficreg import isoficreg
from planformer.losses.led import led_rows, led_terms
from planformer.losses.reconstruction import TERMS as RECONSTRUCTION_TERMS
from planformer.losses.reconstruction import perceptual_row, reconstruction_rows, refined_row, waveform_power
from planformer.losses.regularizers import (
    AUX_GROUPS,
    SINK_TERMS,
    collect_groups,
    power_distance,
    sink_rows,
    snr_distance,
)
from planformer.losses.separation import complementarity_rows, token_rows

__all__ = [
    "DomainPair",
    "LossOutput",
    "NoiseInputs",
    "ReconstructionInputs",
    "ReconstructionObjective",
    "SeparationInputs",
    "SeparationObjective",
    "SingleSourceInputs",
    "SingleSourceObjective",
    "SinkPair",
    "SymmetryInputs",
    "combine",
    "merge_aux",
]

Rows = dict[str, Tensor]
REFINED = "reconstruction/refined"
LED_TERMS = ("latent", "input", "consistency")
ISOFICREG_TERMS = tuple(
    f"{kind}_{pair}" for kind in ("invariance", "repulsion") for pair in ("time", "frequency", "cross")
)


def combine(raw: Mapping[str, Tensor], weights: Mapping[str, float]) -> LossOutput:
    """Weighted sum; every weighted term must be there and every term must have a weight.

    >>> float(combine({"a": torch.tensor(2.0)}, {"a": 3.0}).total)
    6.0
    """
    unknown = sorted(set(raw) - set(weights))
    missing = sorted(name for name, weight in weights.items() if weight > 0 and name not in raw)
    if unknown or missing:
        raise ConfigError(f"loss terms without a weight: {unknown}; weighted terms not computed: {missing}")
    terms = {name: weights[name] * value for name, value in raw.items() if weights[name] > 0}
    if not terms:
        raise ConfigError("every loss weight is zero")
    total = torch.stack([at_least_single(term) for term in terms.values()]).sum()
    return LossOutput(
        total=total,
        terms={name: term.detach() for name, term in terms.items()},
        raw={name: value.detach() for name, value in raw.items()},
    )


class _Objective:
    """What both totals share: rows of one source, weights, terms from gathered rows.

    ``same_size`` promises that every rank's batch has the same number of rows, which saves asking for it.
    """

    def __init__(
        self, config: ObjectiveConfig | None = None, *, decoder: bool = False, same_size: bool = False
    ) -> None:
        self.config, self.same_size = config or ObjectiveConfig(), same_size
        self.decoder = decoder
        self.regularizers = (*AUX_GROUPS, "power_matching") + (SINK_TERMS if decoder else ())
        self.weights = self._weights()

    def _weights(self) -> dict[str, float]:
        config, iso = self.config, self.config.isoficreg
        weights = {f"isoficreg/{name}": config.isoficreg_weight for name in ISOFICREG_TERMS}
        for name in weights:
            weights[name] *= iso.invariance_weight if "invariance" in name else iso.repulsion_weight
        weights["isoficreg/covariance"] = config.isoficreg_weight * iso.covariance_weight
        for name in LED_TERMS:
            weights[f"led/{name}"] = config.led_weight * getattr(config, f"led_{name}_weight")
        for name in self.regularizers:
            weights[f"regularizer/{name}"] = getattr(config, f"{name}_weight")
        if self.decoder:
            weights["regularizer/snr_regression"] = config.snr_regression_weight
        return weights

    def _reconstruction_weights(self, suffix: str = "") -> dict[str, float]:
        config = self.config
        weights = {f"reconstruction/{name}{suffix}": getattr(config, f"{name}_weight") for name in RECONSTRUCTION_TERMS}
        return {**weights, f"perceptual/latents{suffix}": config.perceptual_weight}

    def _refined_weights(self) -> dict[str, float]:
        return {REFINED: self.config.refined_weight} if self.config.refined_weight > 0 else {}

    def _check_decoder(self, reconstruction: object | None, sinks: object | None) -> None:
        for name, value in (("reconstruction", reconstruction), ("sinks", sinks)):
            if (value is not None) != self.decoder:
                raise ConfigError(f"decoder={self.decoder}, but {name} was {'not ' if value is None else ''}given")

    def _symmetry_rows(self, inputs: SymmetryInputs, diagnose: bool) -> Rows:
        rows: Rows = {
            "labels": inputs.labels,
            "augmented_time": inputs.projected_augmented.time,
            "augmented_frequency": inputs.projected_augmented.frequency,
            "latent_time": inputs.projected_latent.time,
            "latent_frequency": inputs.projected_latent.frequency,
            **led_rows(inputs, self.config.focal),
        }
        if diagnose:
            rows |= {
                "clean": inputs.clean.joined().detach(),
                "augmented": inputs.augmented.joined().detach(),
                "code": inputs.code,
                "predicted_input": inputs.predicted_input.detach(),
                "predicted_latent": inputs.predicted_latent.detach(),
            }
        return rows

    def _regularizer_rows(self, aux: Mapping[str, Tensor], noise: NoiseInputs) -> Rows:
        groups = collect_groups(aux, AUX_GROUPS, self.config.aux_reduction)
        return {**groups, "power_matching": power_distance(noise.estimated, noise.injected)}

    def _reconstruction_rows(self, inputs: ReconstructionInputs) -> Rows:
        config = self.config
        rows = reconstruction_rows(inputs.waveform, inputs.target, config.focal, config.phase_weighting)
        rows = {f"reconstruction/{name}": row for name, row in rows.items()}
        if config.perceptual_weight > 0:
            rows["perceptual/latents"] = perceptual_row(inputs, config.focal)
        return rows

    def _refined_rows(self, inputs: ReconstructionInputs) -> Rows:
        return {REFINED: refined_row(inputs)} if self.config.refined_weight > 0 else {}

    def _reconstruction_terms(self, rows: Rows) -> Rows:
        """Focal means of the distances; the refined error is a logarithm, and its mean a plain one."""
        return {
            name: row.mean() if name == REFINED else focal_mean(row, self.config.focal) for name, row in rows.items()
        }

    def _decoder_rows(self, sources: Sequence[ReconstructionInputs], sinks: list[SinkPair], noise: NoiseInputs) -> Rows:
        """SNR regression over the sum of all sources, and the skip sinks' three terms."""
        power = torch.stack([waveform_power(source.waveform) for source in sources]).sum(0)
        target = torch.stack([waveform_power(source.target) for source in sources]).sum(0)
        snr = snr_distance(power, target, noise.estimated, noise.injected, self.config.power_floor)
        return {"snr_regression": snr, **sink_rows(sinks, self.config.aux_reduction)}

    def _symmetry_terms(self, rows: Rows) -> Rows:
        """IsoFICReg and LED from joined rows."""
        iso = isoficreg(stack_views(rows), rows["labels"], self.config.isoficreg)
        led = led_terms(rows, self.config.focal)
        return {f"isoficreg/{k}": v for k, v in iso.items()} | {f"led/{k}": v for k, v in led.items()}

    def _regularizer_terms(self, rows: Rows) -> Rows:
        terms = {f"regularizer/{name}": rows[name].mean() for name in self.regularizers}
        if "snr_regression" in rows:
            terms["regularizer/snr_regression"] = focal_mean(rows["snr_regression"], self.config.focal)
        return terms

    def _diagnose(self, rows: Rows) -> dict[str, float]:
        config = self.config
        return compute_diagnostics(rows, stack_views(rows), rows["labels"], config.isoficreg, config.focal)


def stack_views(rows: Mapping[str, Tensor]) -> Tensor:
    """The four projections as ``[4, B, d]`` in the order of ``isoficreg.VIEWS``."""
    names = ("augmented_time", "augmented_frequency", "latent_time", "latent_frequency")
    return torch.stack([rows[name] for name in names])


class SingleSourceObjective(_Objective):
    """IsoFICReg + LED + 100 reconstruction + perceptual + regularisers, for a denoising batch."""

    def _weights(self) -> dict[str, float]:
        weights = super()._weights()
        return weights | self._reconstruction_weights() | self._refined_weights() if self.decoder else weights

    def __call__(self, inputs: SingleSourceInputs, *, diagnose: bool = False) -> LossOutput:
        """Loss of the joined batch; ``diagnose`` must be the same on all ranks."""
        self._check_decoder(inputs.reconstruction, inputs.sinks)
        rows = self._symmetry_rows(inputs.symmetry, diagnose) | self._regularizer_rows(inputs.aux, inputs.noise)
        reconstruction: Rows = {}
        if inputs.reconstruction is not None and inputs.sinks is not None:
            decoded = inputs.reconstruction
            reconstruction = self._reconstruction_rows(decoded) | self._refined_rows(decoded)
            rows |= self._decoder_rows([inputs.reconstruction], inputs.sinks, inputs.noise)
        joined = gather_batch(rows | reconstruction, same_size=self.same_size)
        raw = self._symmetry_terms(joined) | self._regularizer_terms(joined)
        raw |= self._reconstruction_terms({name: joined[name] for name in reconstruction})
        output = combine(raw, self.weights)
        if diagnose:
            output.diagnostics = self._diagnose(joined)
        return output


class ReconstructionObjective(_Objective):
    """100 reconstruction + perceptual alone: what teaches a decoder behind an encoder that stays as it is."""

    def _weights(self) -> dict[str, float]:
        return self._reconstruction_weights() | self._refined_weights()

    def __call__(self, inputs: ReconstructionInputs) -> LossOutput:
        """Loss of the joined batch."""
        rows = self._reconstruction_rows(inputs) | self._refined_rows(inputs)
        return combine(self._reconstruction_terms(gather_batch(rows, same_size=self.same_size)), self.weights)


class SeparationObjective(_Objective):
    """The same on separated sources, with per-source reconstruction, sink complementarity and token regression.

    IsoFICReg and LED see both sources as one batch of 2B, so an emitter that is dominant in one mixture and the
    interferer in another still makes pairs, and the scale equals that of a single-source batch.
    """

    def _weights(self) -> dict[str, float]:
        weights = super()._weights() | {"separation/token": self.config.token_separation_weight}
        if self.decoder:
            weights["separation/sink_complementarity"] = self.config.sink_complementarity_weight
            weights |= self._reconstruction_weights("_a") | self._reconstruction_weights("_b")
        return weights

    def __call__(self, inputs: SeparationInputs, *, diagnose: bool = False) -> LossOutput:
        """Loss of the joined batch; ``diagnose`` must be the same on all ranks."""
        self._check_decoder(inputs.reconstruction, inputs.sinks)
        config = self.config
        symmetry = [self._symmetry_rows(source, diagnose) for source in inputs.sources]
        tokens = token_rows(inputs.separated, inputs.target_tokens, config.focal, detach=config.detach_token_targets)
        reconstruction, sinks, rows = self._source_rows(inputs)
        rows |= self._regularizer_rows(inputs.aux, inputs.noise)
        rows |= {f"{s}.{name}": row for s, part in zip("ab", symmetry, strict=True) for name, row in part.items()}
        joined = gather_batch(rows | tokens | reconstruction | sinks, same_size=self.same_size)

        both = {name: torch.cat((joined[f"a.{name}"], joined[f"b.{name}"])) for name in symmetry[0]}
        raw = self._symmetry_terms(both) | self._regularizer_terms(joined)
        raw |= {name: focal_mean(joined[name], config.focal) for name in reconstruction}
        raw["separation/token"] = self._sum(joined, tokens)
        if sinks:
            raw["separation/sink_complementarity"] = self._sum(joined, sinks)
        output = combine(raw, self.weights)
        if diagnose:
            output.diagnostics = self._diagnose(both)
        return output

    def _source_rows(self, inputs: SeparationInputs) -> tuple[Rows, Rows, Rows]:
        """Rows of reconstructions, of sink complementarity, and of the regularisers; all empty without a decoder."""
        if inputs.reconstruction is None or inputs.sinks is None:
            return {}, {}, {}
        reconstruction: Rows = {}
        for suffix, source in zip(("_a", "_b"), inputs.reconstruction, strict=True):
            reconstruction |= {f"{name}{suffix}": row for name, row in self._reconstruction_rows(source).items()}
        sinks = complementarity_rows(inputs.sinks, self.config.focal)
        rows = self._decoder_rows(inputs.reconstruction, inputs.sinks[0] + inputs.sinks[1], inputs.noise)
        return reconstruction, sinks, rows

    def _sum(self, joined: Mapping[str, Tensor], names: Mapping[str, Tensor]) -> Tensor:
        return torch.stack([focal_mean(joined[name], self.config.focal) for name in names]).sum()
