import pytest
import torch
from torch import nn

from planformer.models.ema import EMAModel


def test_follows_the_formula() -> None:
    source = nn.Linear(3, 2)
    ema = EMAModel(source, momentum=0.9)
    start = source.weight.detach().clone()
    with torch.no_grad():
        source.weight.add_(1)
    for _ in range(3):
        ema.update(source)
    torch.testing.assert_close(ema.model.weight, start + 1 - 0.9**3)


def test_default_momentum_is_the_papers() -> None:
    assert EMAModel(nn.Linear(2, 2)).momentum == 0.999


def test_frozen_but_transparent() -> None:
    """No gradient for its parameters, but for its input: a reconstruction is trained through it."""
    source = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
    ema = EMAModel(source).train()
    x = torch.randn(4, 3, requires_grad=True)
    assert torch.equal(ema(x), ema(x))
    ema(x).sum().backward()
    assert x.grad is not None
    assert all(p.grad is None for p in ema.parameters())
    assert all(p.requires_grad for p in source.parameters())


def test_buffers_are_copied() -> None:
    source = nn.BatchNorm1d(3)
    ema = EMAModel(source)
    source(5 + torch.randn(8, 3))
    ema.update(source)
    torch.testing.assert_close(ema.model.running_mean, source.running_mean)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="momentum"):
        EMAModel(nn.Linear(2, 2), momentum=1.5)
    with pytest.raises(ValueError, match="different parameters"):
        EMAModel(nn.Linear(2, 2)).update(nn.Sequential(nn.Linear(2, 2)))


def test_state_survives_saving() -> None:
    source = nn.Linear(2, 2)
    ema = EMAModel(source)
    other = EMAModel(nn.Linear(2, 2))
    other.load_state_dict(ema.state_dict())
    torch.testing.assert_close(other.model.weight, source.weight)
