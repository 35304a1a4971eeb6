from dataclasses import replace

import pytest
import torch

from planformer.errors import ConfigError
from planformer.losses.config import FocalConfig, IsoFICRegConfig, ObjectiveConfig
from planformer.losses.focal import focal_mean
from planformer.losses.isoficreg import isoficreg
from planformer.losses.led import led_rows, led_terms
from planformer.losses.regularizers import AUX_GROUPS
from planformer.losses.total import (
    DomainPair,
    NoiseInputs,
    ReconstructionInputs,
    SeparationInputs,
    SeparationObjective,
    SingleSourceInputs,
    SingleSourceObjective,
    SinkPair,
    SymmetryInputs,
    combine,
    merge_aux,
)

BATCH = 6


def pair(*shape: int) -> DomainPair:
    return DomainPair(torch.randn(BATCH, *shape), torch.randn(BATCH, *shape))


def symmetry() -> SymmetryInputs:
    code = torch.rand(BATCH, 5)
    predictions = torch.rand(2, BATCH, 5)
    return SymmetryInputs(
        torch.arange(BATCH) % 3, code, pair(4), pair(4), pair(4), pair(8), pair(8), predictions[0], predictions[1]
    )


def reconstruction() -> ReconstructionInputs:
    return ReconstructionInputs(torch.randn(BATCH, 16), torch.randn(BATCH, 16), pair(4), pair(4))


def sinks() -> list[SinkPair]:
    return [SinkPair(torch.randn(BATCH, 2, 3, 8), torch.randn(BATCH, 2, 3, 8), torch.randn(BATCH, 4))]


def single(*, decoder: bool) -> SingleSourceInputs:
    torch.manual_seed(0)
    aux = {f"{group}/x": torch.rand(()) for group in AUX_GROUPS}
    noise = NoiseInputs(torch.rand(BATCH), torch.rand(BATCH))
    inputs = SingleSourceInputs(symmetry(), noise, aux)
    return replace(inputs, reconstruction=reconstruction(), sinks=sinks()) if decoder else inputs


def mixture(*, decoder: bool) -> SeparationInputs:
    base = single(decoder=False)
    inputs = SeparationInputs(
        (symmetry(), symmetry()), (pair(5, 4), pair(5, 4)), (pair(5, 4), pair(5, 4)), base.noise, base.aux
    )
    if not decoder:
        return inputs
    return replace(inputs, reconstruction=(reconstruction(), reconstruction()), sinks=(sinks(), sinks()))


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize("kind", ["single", "separation"])
def test_logged_total_is_the_sum_of_weighted_terms(kind: str, decoder: bool) -> None:
    objective = (SingleSourceObjective if kind == "single" else SeparationObjective)(decoder=decoder)
    output = objective((single if kind == "single" else mixture)(decoder=decoder))
    assert float(output.total) == pytest.approx(sum(float(term) for term in output.terms.values()), rel=1e-6)
    for name, term in output.terms.items():
        assert float(term) == pytest.approx(objective.weights[name] * float(output.raw[name]), rel=1e-6)
    assert set(output.raw) == set(objective.weights)


def test_single_source_is_the_papers_sum() -> None:
    """IsoFICReg + LED + 100 reconstruction + perceptual + regularisers, each from its own function."""
    inputs, config = single(decoder=True), ObjectiveConfig()
    output = SingleSourceObjective(config, decoder=True)(inputs)
    s = inputs.symmetry
    views = torch.stack(
        [
            s.projected_augmented.time,
            s.projected_augmented.frequency,
            s.projected_latent.time,
            s.projected_latent.frequency,
        ]
    )
    iso = isoficreg(views, s.labels, config.isoficreg)
    wanted = sum(25 * v for k, v in iso.items() if k != "covariance") + iso["covariance"]
    wanted = wanted + sum(led_terms(led_rows(s, config.focal), config.focal).values())
    raw = output.raw
    wanted = wanted + 100 * sum(v for k, v in raw.items() if k.startswith("reconstruction/"))
    wanted = wanted + sum(v for k, v in raw.items() if k.startswith(("perceptual/", "regularizer/")))
    assert float(output.total) == pytest.approx(float(wanted), rel=1e-5)
    assert sum(k.startswith("reconstruction/") for k in raw) == 4
    assert sum(k.startswith("regularizer/") for k in raw) == 10


def test_separation_joins_both_sources_for_the_latent_losses() -> None:
    inputs, config = mixture(decoder=True), ObjectiveConfig()
    raw = SeparationObjective(config, decoder=True)(inputs).raw
    rows = [led_rows(source, config.focal)["consistency"] for source in inputs.sources]
    assert float(raw["led/consistency"]) == pytest.approx(float(focal_mean(torch.cat(rows), config.focal)), rel=1e-5)
    assert {"reconstruction/phase_time_a", "reconstruction/phase_time_b", "perceptual/latents_b"} <= set(raw)
    assert {"separation/token", "separation/sink_complementarity"} <= set(raw)


def test_zero_weight_switches_a_term_off_but_still_reports_it() -> None:
    inputs = single(decoder=False)
    inputs.symmetry.predicted_input.requires_grad_()
    inputs.symmetry.projected_latent.time.requires_grad_()
    output = SingleSourceObjective(ObjectiveConfig(led_weight=0))(inputs)
    output.total.backward()
    assert "led/input" not in output.terms
    assert "led/input" in output.raw
    assert inputs.symmetry.predicted_input.grad is None
    assert inputs.symmetry.projected_latent.time.grad is not None


def test_weights_scale_their_term() -> None:
    one = SingleSourceObjective(ObjectiveConfig())(single(decoder=False))
    many = SingleSourceObjective(ObjectiveConfig(led_weight=100, led_input_weight=2))(single(decoder=False))
    assert float(many.terms["led/input"]) == pytest.approx(200 * float(one.terms["led/input"]), rel=1e-5)


def test_unknown_and_missing_terms_are_errors() -> None:
    with pytest.raises(ConfigError, match="without a weight"):
        combine({"a": torch.tensor(1.0), "b": torch.tensor(1.0)}, {"a": 1.0})
    with pytest.raises(ConfigError, match="not computed"):
        combine({"a": torch.tensor(1.0)}, {"a": 1.0, "b": 1.0})
    with pytest.raises(ConfigError, match="every loss weight is zero"):
        combine({"a": torch.tensor(1.0)}, {"a": 0.0})
    inputs = single(decoder=False)
    with pytest.raises(ConfigError, match="focus_norm"):
        SingleSourceObjective()(replace(inputs, aux={k: v for k, v in inputs.aux.items() if "focus_norm" not in k}))
    with pytest.raises(ConfigError, match="no known regulariser"):
        SingleSourceObjective()(replace(inputs, aux={**inputs.aux, "misspelt/x": torch.tensor(0.0)}))


def test_decoder_outputs_must_match_the_objective() -> None:
    with pytest.raises(ConfigError, match="reconstruction was not given"):
        SingleSourceObjective(decoder=True)(single(decoder=False))
    with pytest.raises(ConfigError, match="reconstruction was given"):
        SingleSourceObjective(decoder=False)(single(decoder=True))
    with pytest.raises(ConfigError, match="sinks was not given"):
        SeparationObjective(decoder=True)(replace(mixture(decoder=True), sinks=None))


def test_perceptual_term_is_optional() -> None:
    inputs = single(decoder=True)
    assert inputs.reconstruction is not None
    inputs.reconstruction.perceived = None
    with pytest.raises(ValueError, match="EMA"):
        SingleSourceObjective(decoder=True)(inputs)
    output = SingleSourceObjective(ObjectiveConfig(perceptual_weight=0), decoder=True)(inputs)
    assert "perceptual/latents" not in output.raw | output.terms


def test_diagnostics_cover_what_is_watched() -> None:
    figures = SingleSourceObjective()(single(decoder=False), diagnose=True).diagnostics
    assert {
        "rank/embedding",
        "embedding/std_min",
        "embedding/off_diagonal",
        "alignment",
        "uniformity",
        "focal/invariance_mean",
        "focal/invariance_std",
        "focal/repulsion_std",
        "focal/led_std",
        "led_input/frequency_rate_share",
        "led_latent/phase_degrees",
        "led_input/time_samples",
    } <= set(figures)
    assert not SingleSourceObjective()(single(decoder=False)).diagnostics


def test_config_defaults_are_the_papers_and_typos_are_errors() -> None:
    config = ObjectiveConfig()
    assert (config.isoficreg.invariance_weight, config.isoficreg.covariance_weight, config.isoficreg.margin) == (
        25,
        1,
        1024,
    )
    assert (config.focal.delta, config.focal.gamma, config.focal.floor, config.focal.eps) == (0.05, 2, 0.1, 1e-8)
    paper = ObjectiveConfig.paper()
    assert not paper.isoficreg.normalise_distance
    assert (paper.isoficreg.covariance_gamma, paper.isoficreg.covariance_scale) == (2, "pairs")
    assert not paper.focal.detach_weights
    for model in (ObjectiveConfig, IsoFICRegConfig, FocalConfig):
        with pytest.raises(ValueError, match="gama"):
            model.model_validate({"gama": 1})
    with pytest.raises(ValueError, match="greater than or equal"):
        ObjectiveConfig(led_weight=-1)


def test_merge_aux_keeps_groups() -> None:
    merged = merge_aux(a={"g/x": torch.tensor(1.0)}, b={"g/x": torch.tensor(2.0)})
    assert {k: float(v) for k, v in merged.items()} == {"g/a.x": 1, "g/b.x": 2}
