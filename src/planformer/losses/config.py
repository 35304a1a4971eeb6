"""Typed settings of the training objectives (paper, Appendix C); weights and constants default to the paper's.

Where the text can be read in two ways the choice is an option here; docs/decisions.md has the measurements, and
:meth:`ObjectiveConfig.paper` gives the literal reading of every formula.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field


class FocalConfig(BaseModel):
    """Focal Huber regression: threshold, exponent, floor of the weight."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    delta: float = Field(default=0.05, gt=0)
    gamma: float = Field(default=2.0, ge=0)
    floor: float = Field(default=0.1, ge=0)
    eps: float = Field(default=1e-8, gt=0)
    # With the weights inside the graph, the division by the batch mean gives samples that are easier than the mean
    # a *negative* gradient: their error would be driven up.
    detach_weights: bool = True


class IsoFICRegConfig(BaseModel):
    """Invariance, repulsion and covariance between two sets of projections."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    invariance_weight: float = Field(default=25.0, ge=0)
    repulsion_weight: float = Field(default=25.0, ge=0, description="the paper adds log1p(repulsion) to the invariance")
    covariance_weight: float = Field(default=1.0, ge=0)
    in_domain_weight: float = Field(default=1.0, ge=0)
    cross_domain_weight: float = Field(default=1.0, ge=0)
    invariance_gamma: float = Field(default=2.0, ge=0)
    repulsion_gamma: float = Field(default=2.0, ge=0)
    covariance_gamma: float = Field(default=0.0, ge=0, description="2 in the paper, which lets the latents collapse")
    margin: float = Field(default=1024.0, gt=0)
    normalise_distance: bool = Field(
        default=True, description="divide the invariance distance by the projection's width"
    )
    pairs: Literal["triangle", "all"] = "triangle"
    covariance_scale: Literal["pairs", "dimensions"] = Field(
        default="dimensions", description="divide by d as in VICReg, or by d (d - 1) as in the paper's focal form"
    )
    eps: float = Field(default=1e-6, gt=0, description="added to the variance of the Z-scores")


class ObjectiveConfig(BaseModel):
    """Everything that scales a term of the total loss.

    >>> ObjectiveConfig().reconstruction_time_weight
    100.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    focal: FocalConfig = FocalConfig()
    isoficreg: IsoFICRegConfig = IsoFICRegConfig()

    isoficreg_weight: float = Field(default=1.0, ge=0)
    led_weight: float = Field(default=1.0, ge=0, description="multiplies the three weights below")
    led_latent_weight: float = Field(default=1.0, ge=0)
    led_input_weight: float = Field(default=1.0, ge=0)
    led_consistency_weight: float = Field(default=1.0, ge=0)

    reconstruction_time_weight: float = Field(default=100.0, ge=0)
    reconstruction_frequency_weight: float = Field(default=100.0, ge=0)
    phase_time_weight: float = Field(default=100.0, ge=0)
    phase_frequency_weight: float = Field(default=100.0, ge=0)
    phase_weighting: Literal["none", "magnitude"] = "none"
    perceptual_weight: float = Field(default=1.0, ge=0)
    refined_weight: float = Field(
        default=0.0, ge=0, description="of what is wrong after refine (planformer.nn.spectral_gain); not the paper's"
    )

    sink_complementarity_weight: float = Field(default=1.0, ge=0)
    token_separation_weight: float = Field(default=1.0, ge=0)
    detach_token_targets: bool = True

    orthogonality_weight: float = Field(default=1.0, ge=0)
    parseval_jsd_weight: float = Field(default=1.0, ge=0)
    focus_diversity_weight: float = Field(default=1.0, ge=0)
    focus_norm_weight: float = Field(default=1.0, ge=0)
    noise_decorrelation_weight: float = Field(default=1.0, ge=0)
    power_matching_weight: float = Field(default=1.0, ge=0)
    snr_regression_weight: float = Field(default=1.0, ge=0)
    skip_decorrelation_weight: float = Field(default=1.0, ge=0)
    sink_latent_decorrelation_weight: float = Field(default=1.0, ge=0)
    target_alignment_weight: float = Field(default=1.0, ge=0)
    aux_reduction: Literal["sum", "mean"] = Field(default="sum", description="over the layers of one regulariser")
    power_floor: float = Field(default=1e-4, gt=0, description="added to powers before a logarithm")

    @classmethod
    def paper(cls) -> Self:
        """The literal formulas: no distance divided by the width, focal covariance, focal weights inside the graph."""
        return cls(
            focal=FocalConfig(detach_weights=False),
            isoficreg=IsoFICRegConfig(normalise_distance=False, covariance_gamma=2.0, covariance_scale="pairs"),
            detach_token_targets=False,
        )
