"""Dual-domain reconstruction with phase, and the perceptual term (paper, Appendix C, "Reconstruction Losses").

Waveforms are interleaved, ``[B, 10240]``; spectra by the orthonormal FFT. Distances are per sample and rank-local.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from planformer.iq import deinterleave, fft
from planformer.losses.config import FocalConfig
from planformer.losses.distributed import at_least_single
from planformer.losses.focal import focal_mean, huber_distance, phase_error
from planformer.losses.inputs import ReconstructionInputs
from planformer.nn.spectral_gain import refine

REFINED_FLOOR = 0.001  # of the target's power: an error below it hardly counts
TERMS = ("reconstruction_time", "reconstruction_frequency", "phase_time", "phase_frequency")


def phase_distance(prediction: Tensor, target: Tensor, config: FocalConfig, weighting: str = "none") -> Tensor:
    """Huber distance of the phase error per sample ``[B]``.

    With "magnitude", bins count by the target's magnitude: the phase of an empty bin is noise that nothing can learn.
    """
    error = phase_error(prediction, target)  # (B, n)
    huber = torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=config.delta)
    if weighting == "none":
        return huber.mean(-1)
    magnitude = target.unflatten(-1, (-1, 2)).norm(dim=-1)
    return (huber * magnitude).sum(-1) / magnitude.sum(-1).clamp_min(config.eps)


def reconstruction_rows(
    waveform: Tensor, target: Tensor, config: FocalConfig, phase_weighting: str = "none"
) -> dict[str, Tensor]:
    """The four distances ``[B]`` of one source.

    >>> x = torch.randn(2, 16)
    >>> sorted(reconstruction_rows(x, x, FocalConfig())) == sorted(TERMS)
    True
    """
    waveform, target = at_least_single(waveform), at_least_single(target)
    spectrum, target_spectrum = fft(waveform), fft(target)
    return {
        "reconstruction_time": huber_distance(waveform, target, config),
        "reconstruction_frequency": huber_distance(spectrum, target_spectrum, config),
        "phase_time": phase_distance(waveform, target, config, phase_weighting),
        "phase_frequency": phase_distance(spectrum, target_spectrum, config, phase_weighting),
    }


def perceptual_row(inputs: ReconstructionInputs, config: FocalConfig) -> Tensor:
    """Distance ``[B]`` between the EMA encoder's latents of the reconstruction and of its target."""
    if inputs.perceived is None or inputs.perceived_target is None:
        raise ValueError("the perceptual term needs the EMA latents of the reconstruction and of its target")
    return huber_distance(inputs.perceived.joined(), inputs.perceived_target.joined().detach(), config)


def refined_row(inputs: ReconstructionInputs) -> Tensor:
    """What is wrong ``[B]`` when the input passes the filter that the waveform describes; our addition.

    The logarithm of the error's power, scaled to 0 where there is none and 1 where it is the target's, so that 20 dB
    instead of 19 counts as much as 1 dB instead of 0.
    """
    if inputs.noisy is None:
        raise ValueError("the refined term needs the noisy input")
    noisy, waveform, target = (deinterleave(at_least_single(x)) for x in (inputs.noisy, inputs.waveform, inputs.target))
    error = (refine(noisy, waveform) - target).abs().square().mean(-1)
    share = error / target.abs().square().mean(-1).clamp_min(1e-12)
    return torch.log1p(share / REFINED_FLOOR) / math.log1p(1 / REFINED_FLOOR)


def focal_terms(rows: Mapping[str, Tensor], config: FocalConfig) -> dict[str, Tensor]:
    """Focal mean of each named distance of the joined batch."""
    return {name: focal_mean(distance, config) for name, distance in rows.items()}


def waveform_power(waveform: Tensor) -> Tensor:
    """Mean power of the complex samples of interleaved ``[B, 2n]``: ``[B]``."""
    return 2 * at_least_single(waveform).square().mean(-1)
