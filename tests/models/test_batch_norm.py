import pytest
import torch

from planformer.models.batch_norm import JointBatchNorm, joint_moments, normalise_together


def test_one_group_is_torchs_batch_norm() -> None:
    torch.manual_seed(0)
    x = 3 * torch.randn(16, 5) + 2
    ours, theirs = JointBatchNorm(5), torch.nn.BatchNorm1d(5)
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.running_mean[0], theirs.running_mean)
    torch.testing.assert_close(ours.running_var[0], theirs.running_var)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_joint_path_equals_the_plain_one() -> None:
    """The branch for several ranks, on one: groups of different sizes, each with its own statistics."""
    torch.manual_seed(0)
    parts = [3 * torch.randn(16, 5) + 2, torch.randn(6, 5) - 1]
    plain, joint = JointBatchNorm(5, 2), JointBatchNorm(5, 2)
    normalised = torch.cat(joint._normalise_by(parts, joint_moments(parts)))
    torch.testing.assert_close(normalised, plain(torch.cat(parts), (16, 6)))
    torch.testing.assert_close(joint.running_mean, plain.running_mean)
    torch.testing.assert_close(joint.running_var, plain.running_var)
    assert not torch.allclose(joint.running_mean[0], joint.running_mean[1])
    for x, (count, mean, variance) in zip(parts, joint_moments(parts), strict=True):
        assert count == len(x)
        torch.testing.assert_close(mean, x.mean(0))
        torch.testing.assert_close(variance, x.var(0, correction=0))


def test_norms_together_equal_norms_apart() -> None:
    torch.manual_seed(0)
    together, apart = ([JointBatchNorm(5, 2), JointBatchNorm(5, 2)] for _ in range(2))
    inputs = [3 * torch.randn(22, 5) + 2, torch.randn(22, 5)]
    found = normalise_together(together, inputs, (16, 6))
    for ours, theirs, x, y in zip(together, apart, inputs, found, strict=True):
        assert torch.equal(y, theirs(x, (16, 6)))
        assert torch.equal(ours.running_mean, theirs.running_mean)


def test_constant_features_are_finite() -> None:
    x = torch.ones(4, 3, requires_grad=True)
    JointBatchNorm(3)._normalise_by([x], joint_moments([x]))[0].square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_more_groups_than_statistics() -> None:
    with pytest.raises(ValueError, match="2 groups of rows"):
        JointBatchNorm(3)(torch.randn(6, 3), (3, 3))
