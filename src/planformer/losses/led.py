"""Latent equivariant differences (paper, Appendix C, "Latent Equivariant Differences", equations of L_Equi).

Three focal Huber terms: the code predicted from the latent difference, the code predicted from the input difference,
and the two differences against each other, time and frequency concatenated.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from planformer.losses.config import FocalConfig
from planformer.losses.focal import circular_distance, focal_mean, huber_distance
from planformer.losses.inputs import DomainPair, SymmetryInputs

CODE_NAMES = ("frequency", "phase", "horizontal_flip", "vertical_flip", "time")
PHASE = CODE_NAMES.index("phase")
LINEAR = [index for index in range(len(CODE_NAMES)) if index != PHASE]


def difference(moved: DomainPair, clean: DomainPair) -> Tensor:
    """How the representation changed, both domains concatenated: ``[B, 256]``."""
    return moved.joined() - clean.joined()


def code_distances(prediction: Tensor, code: Tensor, config: FocalConfig) -> tuple[Tensor, Tensor]:
    """Distances ``[B]`` of the four linear parameters, and of the phase on its circle (in radians)."""
    linear = huber_distance(prediction[:, LINEAR], code[:, LINEAR], config)
    circular = circular_distance(prediction[:, PHASE : PHASE + 1], code[:, PHASE : PHASE + 1], config)
    return linear, circular


def led_rows(inputs: SymmetryInputs, config: FocalConfig) -> dict[str, Tensor]:
    """The per-sample distances ``[B]`` of all terms; rank-local."""
    latent = code_distances(inputs.predicted_latent, inputs.code, config)
    observed = code_distances(inputs.predicted_input, inputs.code, config)
    delta_latent = difference(inputs.latent, inputs.clean)
    delta_input = difference(inputs.augmented, inputs.clean)
    return {
        "latent_linear": latent[0],
        "latent_phase": latent[1],
        "input_linear": observed[0],
        "input_phase": observed[1],
        "consistency": huber_distance(delta_latent, delta_input, config),
    }


def led_terms(rows: Mapping[str, Tensor], config: FocalConfig) -> dict[str, Tensor]:
    """The three losses from the distances of the joined batch."""
    return {
        "latent": focal_mean(rows["latent_linear"], config) + focal_mean(rows["latent_phase"], config),
        "input": focal_mean(rows["input_linear"], config) + focal_mean(rows["input_phase"], config),
        "consistency": focal_mean(rows["consistency"], config),
    }


def code_errors(prediction: Tensor, code: Tensor, length: int = 5120, max_delay: float = 0.25) -> dict[str, Tensor]:
    """Mean absolute error of each parameter in physical units.

    ``frequency`` is a share of the sample rate, ``phase_degrees`` lies in [0, 180], the flips are error rates of the
    thresholded prediction, ``time_samples`` counts complex samples.

    >>> code = torch.tensor([[0.5, 0.9, 0.0, 1.0, 0.5]])
    >>> errors = code_errors(torch.tensor([[0.5, 0.1, 0.2, 0.7, 0.75]]), code)
    >>> round(float(errors["phase_degrees"])), round(float(errors["time_samples"]))
    (72, 640)
    """
    error = (prediction - code).abs().mean(0)
    turn = (prediction[:, PHASE] - code[:, PHASE]).abs()
    wrong = ((prediction[:, 2:4] > 0.5) != (code[:, 2:4] > 0.5)).float().mean(0)
    return {
        "frequency_rate_share": error[0],
        "phase_degrees": 360 * torch.minimum(turn, 1 - turn).mean(),
        "horizontal_flip_error": wrong[0],
        "vertical_flip_error": wrong[1],
        "time_samples": 2 * max_delay * length * error[4],
    }
