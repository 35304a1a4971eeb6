import pytest
import torch

from planformer.config import PlanFormerConfig
from planformer.models.tokenizer import Tokenizer, blindspot_conv

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4, num_windows=3)


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_published_parts():
    tokenizer = Tokenizer(PlanFormerConfig(), "time")
    assert sum(count(s.convolution) for s in tokenizer.stages) == 7_760
    assert sum(count(s.sink) for s in tokenizer.stages) == 188_163
    assert sum(count(s.cross_window) for s in tokenizer.stages) == 109_635
    assert sum(count(s.attention) for s in tokenizer.stages) == 2_733


def test_blindspot_output_does_not_depend_on_its_own_input():
    weight, x = torch.randn(4, 1, 5), torch.randn(1, 16, 1)
    changed = x.clone()
    changed[0, 7] += 3
    difference = (blindspot_conv(x, weight, True) - blindspot_conv(changed, weight, True)).abs().amax(-1)[0]
    assert difference[7] == 0
    assert (difference[[5, 6, 8, 9]] > 0).all()
    difference = (blindspot_conv(x, weight, False) - blindspot_conv(changed, weight, False)).abs().amax(-1)[0]
    assert difference[7] > 0


def test_blindspot_per_sample_equals_each_mode_alone():
    weight, x = torch.randn(4, 1, 5), torch.randn(3, 16, 1)
    mixed = blindspot_conv(x, weight, torch.tensor([True, False, True]))
    torch.testing.assert_close(mixed[[0, 2]], blindspot_conv(x, weight, True)[[0, 2]], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mixed[1], blindspot_conv(x, weight, False)[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_shapes_and_causality_over_windows(domain):
    torch.manual_seed(0)
    tokenizer = Tokenizer(SMALL, domain)
    windows = torch.randn(2, 3, 512)
    output = tokenizer(windows.flatten(0, 1))
    assert output.tokens.shape == (2, 3, 4, 32)
    assert output.noise_power.shape == (2,)
    assert [tuple(x.shape) for x in output.stages] == [(6, 128, 4), (6, 32, 8), (6, 8, 16)]
    windows[:, 2] = torch.randn(2, 512)
    later = tokenizer(windows.flatten(0, 1))
    torch.testing.assert_close(later.tokens[:, :2], output.tokens[:, :2], atol=1e-6, rtol=1e-6)
    assert not torch.allclose(later.tokens[:, 2], output.tokens[:, 2])
