import math

import pytest
import torch

from planformer.losses.config import FocalConfig
from planformer.losses.focal import (
    circular_distance,
    focal_huber,
    focal_mean,
    focal_weights,
    huber_distance,
    phase_error,
    wrap,
)
from reference import losses as reference

PLAIN = FocalConfig()
IN_GRAPH = FocalConfig(detach_weights=False)


@pytest.mark.parametrize("scale", [0.01, 0.1, 3.0])
def test_equals_the_loop(scale: float) -> None:
    torch.manual_seed(0)
    prediction, target = scale * torch.randn(2, 7, 5)
    assert float(focal_huber(prediction, target, PLAIN)) == pytest.approx(
        reference.focal_huber(prediction.tolist(), target.tolist()), rel=1e-5
    )


def test_symmetric_zero_for_perfect_and_ordered() -> None:
    torch.manual_seed(1)
    target, noise = torch.randn(2, 9, 4)
    better, worse = target + 0.1 * noise, target + 0.4 * noise
    assert float(focal_huber(target, target, PLAIN)) == 0
    assert torch.equal(focal_huber(better, target, PLAIN), focal_huber(target, better, PLAIN))
    assert focal_huber(better, target, PLAIN) < focal_huber(worse, target, PLAIN)


def test_hard_samples_weigh_more_and_easy_ones_keep_a_floor() -> None:
    weights = focal_weights(torch.tensor([1e-4, 0.1, 0.4]), PLAIN)
    assert weights[0] == pytest.approx(0.1)
    assert weights[1] < 1 < weights[2]


def test_weights_inside_the_graph_would_raise_the_error_of_easy_samples() -> None:
    """Why the weights are detached: the batch mean in the denominator turns the easy samples' gradient around."""
    for config, sign in ((PLAIN, 1), (IN_GRAPH, -1)):
        distance = torch.tensor([0.02, 0.2, 0.3], requires_grad=True)
        focal_mean(distance, config).backward()
        assert distance.grad is not None
        assert torch.sign(distance.grad[0]) == sign
        assert distance.grad[2] > 0


def test_gradients_numerically() -> None:
    torch.manual_seed(2)
    prediction = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    target = torch.randn(5, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: huber_distance(x, target, PLAIN), prediction)
    assert torch.autograd.gradcheck(lambda x: focal_huber(x, target, IN_GRAPH), prediction)


@pytest.mark.parametrize("config", [PLAIN, IN_GRAPH])
@pytest.mark.parametrize("value", [0.0, 1e-20, 0.3, 1e6])
@pytest.mark.parametrize("count", [1, 4])
def test_constant_distances_stay_finite(config: FocalConfig, value: float, count: int) -> None:
    distance = torch.full((count,), value, requires_grad=True)
    loss = focal_mean(distance, config)
    loss.backward()
    assert distance.grad is not None
    assert loss.isfinite()
    assert distance.grad.isfinite().all()


def test_circle_has_no_seam() -> None:
    just_below, just_above = torch.tensor([[0.999]]), torch.tensor([[0.001]])
    near = circular_distance(just_below, just_above, PLAIN)
    assert float(near) == pytest.approx(0.5 * (2 * math.pi * 0.002) ** 2, rel=1e-3)
    half = circular_distance(torch.tensor([[0.25]]), torch.tensor([[0.75]]), PLAIN)
    assert float(half) == pytest.approx(0.05 * (math.pi - 0.025), rel=1e-4)
    assert wrap(torch.tensor(3 * math.pi / 2)) == pytest.approx(-math.pi / 2, rel=1e-5)


def test_phase_error_equals_wrapped_difference_of_angles() -> None:
    torch.manual_seed(3)
    prediction, target = torch.randn(2, 4, 12, dtype=torch.float64)
    angle = torch.view_as_complex(target.unflatten(-1, (-1, 2))).angle()
    angle = angle - torch.view_as_complex(prediction.unflatten(-1, (-1, 2))).angle()
    torch.testing.assert_close(phase_error(prediction, target), wrap(angle))


def test_phase_error_gradient() -> None:
    torch.manual_seed(4)
    target = torch.randn(2, 8, dtype=torch.float64)
    prediction = (torch.randn(2, 8, dtype=torch.float64) + 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: phase_error(x, target), prediction, atol=1e-5)


@pytest.mark.parametrize("prediction", [0.0, 1e-30, 1e-4, 1.0])
@pytest.mark.parametrize("target", [0.0, 1.0])
def test_phase_of_nothing_is_finite(prediction: float, target: float) -> None:
    x = torch.full((2, 6), prediction, requires_grad=True)
    phase_error(x, torch.full((2, 6), target)).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        huber_distance(torch.zeros(3, 2), torch.zeros(3, 1), PLAIN)
