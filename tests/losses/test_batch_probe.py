"""Leave-one-out probes within a batch, against regressions fitted one by one."""

import pytest
import torch

from planformer.losses.batch_probe import add_classes, compressed_gram, leave_one_out, standardised


def one_by_one(z, targets, ridge):
    """n ridge regressions, each without one row; the mean is not penalised."""
    n, d = z.shape
    z = (z - z.mean(0)) / z.std(0, correction=0)
    rows = torch.cat([z / d**0.5, torch.ones(n, 1, dtype=z.dtype)], 1)
    penalty = torch.diag(torch.tensor([ridge] * d + [0.0], dtype=z.dtype))
    total = 0.0
    for i in range(n):
        kept = torch.arange(n) != i
        weights = torch.linalg.solve(rows[kept].T @ rows[kept] + penalty, rows[kept].T @ targets[kept])
        total += (rows[i] @ weights - targets[i]).square().sum()
    return total / (targets - targets.mean(0)).square().sum()


@pytest.mark.parametrize(("n", "d"), [(20, 6), (12, 40)])
@pytest.mark.parametrize("ridge", [0.03, 1.0])
def test_equals_regressions_one_by_one(n, d, ridge):
    generator = torch.Generator().manual_seed(n)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64)
    targets = torch.randn(n, 3, generator=generator, dtype=torch.float64) + z[:, :3] + 5
    found = leave_one_out(z, compressed_gram(targets, 1.0), ridge)
    torch.testing.assert_close(found, one_by_one(z, targets, ridge))


def test_what_can_be_read_scores_better_than_what_can_not():
    z = torch.randn(48, 8, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(48, 8, generator=torch.Generator().manual_seed(1))
    assert leave_one_out(z, compressed_gram(2 * z + 1, 1.0)) < 0.05
    assert leave_one_out(z, compressed_gram(noise, 1.0)) > 1.0


def test_scale_and_offset_of_a_dimension_do_not_matter_and_the_gradient_is_finite():
    z = torch.randn(32, 64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    gram = compressed_gram(torch.randn(32, 100, generator=torch.Generator().manual_seed(1)), 0.5)
    loss = leave_one_out(z, gram)
    stretched = leave_one_out(z * torch.linspace(0.1, 10, 64) + 3, gram)
    torch.testing.assert_close(stretched, loss, atol=1e-4, rtol=0)
    loss.backward()
    assert torch.isfinite(z.grad).all() and z.grad.abs().max() > 0
    assert torch.isfinite(leave_one_out(torch.zeros(32, 64), gram)), "a collapsed embedding"


def test_the_power_compresses_the_components():
    targets = torch.randn(20, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([100.0, 10, 1, 1, 1])
    variances = {power: torch.linalg.eigvalsh(compressed_gram(targets, power))[-5:] for power in (0.0, 0.5, 1.0)}
    torch.testing.assert_close(variances[0.0], torch.ones(5), atol=1e-4, rtol=0)
    torch.testing.assert_close(variances[0.5].square(), variances[1.0], rtol=1e-3, atol=1e-3)


def test_standardised_descriptors_have_unit_power_and_constants_stay_silent():
    values = torch.randn(64, 10, generator=torch.Generator().manual_seed(0)) * torch.logspace(-0.5, 0.5, 10) + 7
    values[:, 3] = 2.0
    found = standardised(values)
    assert float(found.square().sum(1).mean()) == pytest.approx(0.9, abs=0.02)
    assert not found[:, 3].any()


def test_classes_are_further_targets_with_their_share():
    labels = torch.tensor([3, 3, 7, 7, 7, 9] * 4)
    targets = torch.randn(24, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    joined = add_classes(compressed_gram(targets, 1.0), labels, 0.5)
    assert float(joined.diagonal().sum()) == pytest.approx(1.5)
    separable = torch.nn.functional.one_hot(labels).double()[:, [3, 7, 9]] + 0.01 * targets[:, :3]
    blind = targets[:, 3:]
    nothing = torch.zeros_like(joined)
    classes = add_classes(nothing, labels, 1.0)
    assert leave_one_out(separable, classes) < 0.1 < 0.9 < leave_one_out(blind, classes)
    assert torch.isfinite(add_classes(joined, torch.zeros(24, dtype=torch.int64), 0.5)).all(), "one class only"
