import math

import pytest
import torch

from planformer.iq import interleave
from planformer.losses.config import FocalConfig, ObjectiveConfig
from planformer.losses.focal import focal_mean
from planformer.losses.inputs import DomainPair, ReconstructionInputs
from planformer.losses.reconstruction import (
    focal_terms,
    perceptual_row,
    phase_distance,
    reconstruction_rows,
    refined_row,
    waveform_power,
)
from planformer.losses.total import ReconstructionObjective
from reference import losses as reference

FOCAL = FocalConfig()


def signals(scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return scale * torch.randn(5, 16), scale * torch.randn(5, 16)


def test_terms_equal_the_loops() -> None:
    prediction, target = signals()
    terms = focal_terms(reconstruction_rows(prediction, target, FOCAL), FOCAL)
    x, y = prediction.tolist(), target.tolist()
    spectra = [reference.spectrum(row) for row in x], [reference.spectrum(row) for row in y]
    wanted = {
        "reconstruction_time": reference.focal_huber(x, y),
        "reconstruction_frequency": reference.focal_huber(*spectra),
        "phase_time": reference.phase_loss(x, y),
        "phase_frequency": reference.phase_loss(*spectra),
    }
    assert {k: float(v) for k, v in terms.items()} == pytest.approx(wanted, rel=1e-4)


def test_perfect_better_worse() -> None:
    prediction, target = signals()
    totals = []
    for share in (0.0, 0.1, 0.5):
        mixed = (1 - share) * target + share * prediction
        totals.append({k: float(v.mean()) for k, v in reconstruction_rows(mixed, target, FOCAL).items()})
    for name in totals[0]:
        assert totals[0][name] < 1e-9
        assert totals[0][name] < totals[1][name] < totals[2][name]


def test_rotation_changes_phase_by_its_angle() -> None:
    _, target = signals()
    pairs = torch.view_as_complex(target.unflatten(-1, (-1, 2)))
    rotated = torch.view_as_real(pairs * torch.exp(torch.tensor(0.03j))).flatten(-2)
    assert phase_distance(rotated, target, FOCAL).tolist() == pytest.approx([0.5 * 0.03**2] * 5, rel=1e-3)


def test_magnitude_weighting_ignores_empty_bins() -> None:
    target = torch.zeros(1, 8)
    target[0, :2] = 1.0
    prediction = target.clone()
    prediction[0, 2:] = torch.randn(6) * 1e-3
    small = target + torch.tensor([0, 0, 1e-6, 0, 1e-6, 0, 1e-6, 0])
    assert float(phase_distance(prediction, small, FOCAL)) > 0.01
    assert float(phase_distance(prediction, small, FOCAL, "magnitude")) < 1e-5


@pytest.mark.parametrize("prediction", [0.0, 1e-25, 1.0])
@pytest.mark.parametrize("target", [0.0, 1.0])
@pytest.mark.parametrize("weighting", ["none", "magnitude"])
def test_silence_is_finite(prediction: float, target: float, weighting: str) -> None:
    x = torch.full((3, 16), prediction, requires_grad=True)
    rows = reconstruction_rows(x, torch.full((3, 16), target), FOCAL, weighting)
    torch.stack([focal_mean(row, FOCAL) for row in rows.values()]).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_gradients_numerically() -> None:
    torch.manual_seed(1)
    target = torch.randn(3, 8, dtype=torch.float64)
    x = (target + 0.5 + torch.rand(3, 8, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: phase_distance(x, target, FOCAL), x, atol=1e-5)


def test_perceptual_target_gets_no_gradient() -> None:
    leaves = [torch.randn(4, 3, requires_grad=True) for _ in range(4)]
    inputs = ReconstructionInputs(
        torch.zeros(4, 8), torch.zeros(4, 8), DomainPair(*leaves[:2]), DomainPair(*leaves[2:])
    )
    row = perceptual_row(inputs, FOCAL)
    wanted = reference.distances(inputs.perceived.joined().tolist(), inputs.perceived_target.joined().tolist(), 0.05)
    assert row.tolist() == pytest.approx(wanted, rel=1e-5)
    row.sum().backward()
    assert leaves[0].grad is not None
    assert leaves[2].grad is None
    with pytest.raises(ValueError, match="EMA"):
        perceptual_row(ReconstructionInputs(torch.zeros(4, 8), torch.zeros(4, 8)), FOCAL)


def test_power_counts_complex_samples() -> None:
    assert waveform_power(torch.ones(1, 10)).tolist() == [2.0]


def noisy_tone(snr_db: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    tone = torch.exp(0.7j * torch.arange(1280)).to(torch.complex64).expand(3, -1)
    noise = torch.randn(3, 1280, dtype=torch.complex64, generator=generator)
    return interleave(tone), interleave(tone + 10 ** (-snr_db / 20) * noise)


def test_refined_error_is_a_share_of_30_decibels() -> None:
    """Silence is wrong by the target itself: 1. What passes whole is wrong by its noise: 0 for none, 1/3 for -20 dB."""
    tone, noisy = noisy_tone(20)
    silence = refined_row(ReconstructionInputs(torch.zeros_like(tone), tone, noisy=noisy))
    torch.testing.assert_close(silence, torch.ones(3))
    loud = refined_row(ReconstructionInputs(1e4 * torch.randn(3, 2560), tone, noisy=noisy))  # lets everything pass
    torch.testing.assert_close(loud, torch.full((3,), math.log1p(10) / math.log1p(1000)), atol=0.03, rtol=0)
    right = refined_row(ReconstructionInputs(tone, tone, noisy=noisy))
    assert (right < loud - 0.1).all()
    with pytest.raises(ValueError, match="noisy input"):
        refined_row(ReconstructionInputs(tone, tone))


def test_refined_error_counts_only_with_a_weight() -> None:
    tone, noisy = noisy_tone(0)
    inputs = ReconstructionInputs(0.5 * tone, tone, noisy=noisy)
    plain = ReconstructionObjective(ObjectiveConfig(perceptual_weight=0), decoder=True)(inputs)
    both = ReconstructionObjective(ObjectiveConfig(perceptual_weight=0, refined_weight=7), decoder=True)(inputs)
    assert "reconstruction/refined" not in plain.terms
    assert float(both.total - plain.total) == pytest.approx(7 * float(refined_row(inputs).mean()), rel=1e-4)
