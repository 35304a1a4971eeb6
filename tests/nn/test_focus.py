import pytest
import torch
from torch.autograd import gradcheck

import reference.focus as plain
from planformer.nn import focus


@pytest.fixture
def heads():
    torch.manual_seed(0)
    return [torch.randn(2, 3, 7, 4) for _ in range(3)]


@pytest.mark.parametrize("centring", ["features", "tokens"])
@pytest.mark.parametrize("weights", [True, False])
def test_equals_the_plain_focus(heads, centring, weights):
    network = focus.FocusNetwork()
    queries, keys = focus.centre(heads[0], heads[1], centring)
    factor = network(focus.column_variance(queries, keys))
    output, attention = focus.covariance_focus(queries, keys, heads[2], factor, weights=weights)
    expected, expected_weights = plain.focus(*heads, network, 0, centring)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    if weights:
        torch.testing.assert_close(attention, expected_weights, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(attention.sum(-1), torch.ones(2, 3, 7))


def test_column_variance_needs_no_scores(heads):
    scores = heads[0] @ heads[1].transpose(-1, -2)
    torch.testing.assert_close(focus.column_variance(heads[0], heads[1]), scores.var(-2, unbiased=False))


def test_centring_over_features_makes_scores_covariances(heads):
    queries, keys = focus.centre(heads[0], heads[1], "features")
    expected = plain.covariance(heads[0], heads[1], "features")
    torch.testing.assert_close(queries @ keys.transpose(-1, -2), expected)
    shifted, _ = focus.centre(heads[0] + 5, heads[1], "features")
    torch.testing.assert_close(shifted @ keys.transpose(-1, -2), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e6])
def test_focus_factor_stays_between_one_and_the_length(heads, scale):
    network = focus.FocusNetwork()
    torch.nn.init.normal_(network.output.weight, std=50)
    factor = network(focus.column_variance(heads[0] * scale, heads[1]))
    assert factor.shape == (2, 3, 1, 1)
    assert factor.isfinite().all()
    assert (factor >= 1).all() and (factor <= 7).all()


def test_one_distinctive_token_raises_the_mean_snr():
    even, peaked = torch.ones(1, 1, 8), torch.tensor([[[1.0] * 7 + [50.0]]])
    assert focus.score_statistics(peaked)[0, 0, 0] > focus.score_statistics(even)[0, 0, 0]
    torch.testing.assert_close(focus.score_statistics(even)[0, 0, 0], torch.tensor(1 / 7))


def test_soft_abs_floor_values_and_gradient():
    x = torch.tensor([-1.0, -1e-4, 0.0, 1e-5, 2.0], requires_grad=True)
    torch.testing.assert_close(focus.soft_abs_floor(x), plain.soft_abs_floor(x))
    torch.testing.assert_close(focus.soft_abs_floor(x.detach()), plain.soft_abs_floor(x.detach()))
    wide = torch.linspace(-0.5, 0.5, 8, dtype=torch.float64).requires_grad_()
    assert gradcheck(lambda y: focus.soft_abs_floor(y, 0.1), (wide,))


def test_head_orthogonality_equals_the_plain_one():
    weights = torch.softmax(2 * torch.randn(2, 3, 4, 5), -1)
    torch.testing.assert_close(focus.head_orthogonality(weights), plain.head_orthogonality(weights))
    scores = torch.randn(2, 1, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda s: focus.head_orthogonalities(torch.softmax(s, -1)), (scores,))


def test_orthogonal_heads_cost_less_than_equal_heads():
    apart = torch.eye(4).view(1, 1, 4, 4).repeat(1, 2, 1, 1)
    apart[0, 1] = apart[0, 1].roll(1, -1)
    same = torch.eye(4).view(1, 1, 4, 4).repeat(1, 2, 1, 1)
    assert focus.head_orthogonality(apart) < focus.head_orthogonality(same)


def test_heads_split_and_merge():
    x = torch.randn(2, 5, 12)
    assert torch.equal(focus.merge_heads(focus.split_heads(x, 3)), x)
