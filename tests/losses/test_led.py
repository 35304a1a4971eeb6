import pytest
import torch

from planformer.data.augment import CODE_NAMES as AUGMENT_NAMES
from planformer.losses.config import FocalConfig
from planformer.losses.inputs import DomainPair, SymmetryInputs
from planformer.losses.led import CODE_NAMES, code_errors, led_rows, led_terms
from reference import losses as reference

FOCAL = FocalConfig()


def symmetry(batch: int = 6, dim: int = 4, seed: int = 0) -> SymmetryInputs:
    torch.manual_seed(seed)

    def pair() -> DomainPair:
        return DomainPair(torch.randn(batch, dim), torch.randn(batch, dim))

    return SymmetryInputs(
        torch.arange(batch), torch.rand(batch, 5), pair(), pair(), pair(), pair(), pair(), *torch.rand(2, batch, 5)
    )


def test_code_order_is_that_of_the_augmentation() -> None:
    assert CODE_NAMES == AUGMENT_NAMES


def test_terms_equal_the_loops() -> None:
    inputs = symmetry()
    terms = led_terms(led_rows(inputs, FOCAL), FOCAL)
    code = inputs.code.tolist()
    delta_latent = (inputs.latent.joined() - inputs.clean.joined()).tolist()
    delta_input = (inputs.augmented.joined() - inputs.clean.joined()).tolist()
    wanted = {
        "latent": reference.code_loss(inputs.predicted_latent.tolist(), code),
        "input": reference.code_loss(inputs.predicted_input.tolist(), code),
        "consistency": reference.focal_huber(delta_latent, delta_input),
    }
    assert {k: float(v) for k, v in terms.items()} == pytest.approx(wanted, rel=1e-5)


def test_perfect_prediction_is_free_and_phase_is_circular() -> None:
    inputs = symmetry()
    inputs.predicted_input, inputs.predicted_latent, inputs.latent = inputs.code, inputs.code.clone(), inputs.augmented
    assert all(float(term) == 0 for term in led_terms(led_rows(inputs, FOCAL), FOCAL).values())
    inputs.code = inputs.code.clone()
    inputs.code[:, 1] += 1  # a full turn
    assert all(float(term) < 1e-9 for term in led_terms(led_rows(inputs, FOCAL), FOCAL).values())


def test_consistency_ignores_the_clean_branch() -> None:
    """Both differences are to the same clean latent."""
    first, second = symmetry(), symmetry()
    second.clean = DomainPair(torch.zeros(6, 4), torch.zeros(6, 4))
    a, b = (led_terms(led_rows(x, FOCAL), FOCAL)["consistency"] for x in (first, second))
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_better_prediction_is_cheaper() -> None:
    inputs = symmetry()
    noise = torch.randn(6, 5)
    inputs.predicted_input, inputs.predicted_latent = inputs.code + 0.01 * noise, inputs.code + 0.1 * noise
    terms = led_terms(led_rows(inputs, FOCAL), FOCAL)
    assert terms["input"] < terms["latent"]


def test_gradients_reach_every_branch() -> None:
    inputs = symmetry()
    leaves = [inputs.predicted_input, inputs.predicted_latent, inputs.latent.time, inputs.augmented.frequency]
    for leaf in leaves:
        leaf.requires_grad_()
    torch.stack(list(led_terms(led_rows(inputs, FOCAL), FOCAL).values())).sum().backward()
    assert all(leaf.grad is not None and leaf.grad.abs().sum() > 0 for leaf in leaves)


def test_errors_in_physical_units() -> None:
    code = torch.tensor([[0.5, 0.02, 0.0, 1.0, 0.5]])
    prediction = torch.tensor([[0.6, 0.97, 0.9, 0.8, 0.4]])
    errors = {k: float(v) for k, v in code_errors(prediction, code).items()}
    assert errors["frequency_rate_share"] == pytest.approx(0.1)
    assert errors["phase_degrees"] == pytest.approx(18, rel=1e-4)
    assert (errors["horizontal_flip_error"], errors["vertical_flip_error"]) == (1, 0)
    assert errors["time_samples"] == pytest.approx(256)
