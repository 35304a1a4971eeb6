import pytest
import torch
from torch.autograd import gradcheck

import reference.parseval as plain
from planformer.nn.focus import column_variance, focus_scores, merge_heads
from planformer.nn.parseval import ParsevalTransformer, consistency, jensen_shannon, missing_norm


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_published_counts():
    assert count(ParsevalTransformer(128)) == 463_235
    with torch.device("meta"):
        assert count(ParsevalTransformer(512)) == 7_355_651


def test_a_width_that_does_not_split_is_refused():
    with pytest.raises(ValueError, match="heads"):
        ParsevalTransformer(30, num_heads=4)


@pytest.mark.parametrize("domain", ["time", "frequency"])
@pytest.mark.parametrize("centring", ["features", "tokens"])
def test_equals_the_plain_block(domain, centring):
    torch.manual_seed(0)
    block = ParsevalTransformer(16, num_heads=4, centring=centring)
    tokens = torch.randn(2, 10, 16)
    output, aux = block(tokens, domain=domain)
    expected, expected_aux = plain.parseval_transformer(block, tokens, domain)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    assert aux.keys() == expected_aux.keys()
    for key, value in aux.items():
        torch.testing.assert_close(value, expected_aux[key], atol=1e-5, rtol=1e-5, msg=key)
    with torch.no_grad():
        fused, nothing = block(tokens, domain=domain, return_aux=False)
    torch.testing.assert_close(fused, expected, atol=1e-5, rtol=1e-5)
    assert nothing == {}


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_gradients_equal_those_of_the_plain_block(domain):
    torch.manual_seed(1)
    block = ParsevalTransformer(16, num_heads=2)
    tokens = torch.randn(2, 6, 16, requires_grad=True)
    leaves = [tokens, *block.parameters()]
    output, aux = block(tokens, domain=domain)
    ours = torch.autograd.grad(output.square().mean() + sum(aux.values()), leaves)
    output, aux = plain.parseval_transformer(block, tokens, domain)
    theirs = torch.autograd.grad(output.square().mean() + sum(aux.values()), leaves)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-3)


def test_without_the_gate_the_cross_focus_is_the_plain_product():
    torch.manual_seed(2)
    open_, gated = (ParsevalTransformer(16, num_heads=4, gate=gate).focus for gate in (False, True))
    gated.load_state_dict(open_.state_dict())
    queries, keys, values = (x[1] for x in open_.project(torch.randn(2, 3, 10, 16)))
    factor = open_.cross_network(column_variance(queries, keys))
    plain_output = focus_scores(queries, keys, factor, length=1) @ values  # (2, B, H, N, dk)
    for return_aux in (True, False):
        output, aux = open_.cross_focus(queries, keys, values, return_aux)
        torch.testing.assert_close(output, merge_heads(plain_output), atol=1e-5, rtol=1e-5)
    output, aux = open_.cross_focus(queries, keys, values, True)
    shrunk, gated_aux = gated.cross_focus(queries, keys, values, True)
    assert (shrunk.abs() <= output.abs()).all() and not torch.allclose(shrunk, output)
    assert aux == gated_aux  # the divergence is still measured, so its loss has a weight of its own


def test_the_views_conserve_energy():
    tokens = torch.randn(2, 10, 8)
    for domain in ("time", "frequency"):
        time, frequency = ParsevalTransformer.views(tokens, domain)
        torch.testing.assert_close(time.square().sum((1, 2)), frequency.square().sum((1, 2)))
        assert torch.equal(time if domain == "time" else frequency, tokens)


def test_divergence_lies_between_zero_and_one_bit():
    first, second = torch.softmax(9 * torch.randn(50, 8), -1), torch.softmax(9 * torch.randn(50, 8), -1)
    divergence = jensen_shannon(first, second)
    torch.testing.assert_close(divergence, plain.jensen_shannon(first, second), atol=1e-5, rtol=1e-5)
    assert (divergence >= 0).all() and (divergence <= 1).all()
    torch.testing.assert_close(jensen_shannon(second, first), divergence)


def test_symmetric_scores_diverge_by_nothing():
    scores = torch.randn(1, 2, 5, 5)
    both = torch.stack((scores, scores.transpose(-1, -2)))
    _, divergence = consistency(both)
    torch.testing.assert_close(divergence, torch.zeros_like(divergence), atol=1e-6, rtol=0)
    _, divergence = consistency(torch.stack((9 * scores, 9 * torch.randn(1, 2, 5, 5))))
    assert (divergence > 0.01).any()


def test_consistency_gradient():
    scores = (2 * torch.randn(2, 1, 1, 3, 3, dtype=torch.float64)).requires_grad_()
    assert gradcheck(consistency, (scores,))


def test_missing_norm_is_the_shortfall():
    assert missing_norm(torch.zeros(3, 16)) == 4
    assert missing_norm(torch.full((3, 16), 2.0)) == 0
