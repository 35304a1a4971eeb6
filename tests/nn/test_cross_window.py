import pytest
import torch
from torch.autograd import gradcheck

import reference.cross_window as plain
from planformer.nn.cross_window import CrossWindowFocus, shorten_and_pool, spectral_map
from planformer.nn.spectral_pooling import native_pool


def build(domain, **options):
    torch.manual_seed(0)
    focus = CrossWindowFocus(4, length=32, stride=4, domain=domain, num_heads=2, **options)
    torch.nn.init.normal_(focus.up.bias)
    torch.nn.init.normal_(focus.down.bias)
    return focus


@pytest.mark.parametrize("domain", ["time", "frequency"])
@pytest.mark.parametrize("centring", ["features", "tokens"])
def test_equals_the_plain_focus_with_all_transforms(domain, centring):
    focus = build(domain, centring=centring)
    x = torch.randn(2, 3, 64, 4)
    output, aux = focus(x)
    expected, orthogonality = plain.all_windows(focus, [w.transpose(1, 2) for w in x.unbind(1)])
    torch.testing.assert_close(output, torch.stack(expected, 1).transpose(2, 3), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(aux["orthogonality/cross_window"], orthogonality, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_adding_after_the_pooling_changes_nothing(domain):
    focus = build(domain)
    assert focus.can_pool(4)
    x = torch.randn(2, 3, 64, 4)
    expected = native_pool(focus(x)[0].flatten(0, 1), 4).unflatten(0, (2, 3))
    torch.testing.assert_close(focus.forward_pooled(x, 4)[0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_is_causal(domain):
    focus = build(domain)
    x = torch.randn(1, 4, 64, 4)
    changed = x.clone()
    changed[:, 2] += torch.randn(64, 4)
    before, after = focus(x)[0], focus(changed)[0]
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2], after[:, 2])
    assert not torch.allclose(before[:, 3], after[:, 3])  # window 3 reads window 2
    assert torch.equal(before[:, 0], x[:, 0])  # nothing precedes the first window


def test_a_single_window_passes():
    x = torch.randn(2, 1, 64, 4)
    output, aux = build("time")(x)
    assert torch.equal(output, x)
    assert aux == {}


def test_spectral_map_is_a_map_of_the_spectrum():
    tokens, weight = torch.randn(2, 8, 6), torch.randn(6, 6)
    expected = plain.transform(plain.transform(tokens, inverse=False) @ weight.T, inverse=True)
    torch.testing.assert_close(spectral_map(tokens, weight), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_shorten_and_pool_gradient(domain):
    x = torch.randn(1, 2, 8, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda t: shorten_and_pool(t, 4, 2, domain), (x,))
