"""Orthogonalised momentum against its definition by a singular value decomposition, and AdamW against torch's."""

import copy

import pytest
import torch
from torch import nn

from planformer.training.muon import Muon, as_matrices, divide, orthogonalise
from planformer.training.optimizer import build_optimizer
from planformer.training.recipe import OptimizerConfig


@pytest.mark.parametrize("shape", [(24, 8), (8, 24), (16, 16), (2, 12, 30)])
def test_orthogonalise_keeps_the_singular_vectors(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, _, right = torch.linalg.svd(x, full_matrices=False)
    out = orthogonalise(x)
    core = left.mT @ out @ right.mT  # diagonal when out has the same singular vectors
    diagonal = torch.diagonal(core, dim1=-2, dim2=-1)
    assert torch.allclose(core, torch.diag_embed(diagonal), atol=1e-4)
    assert diagonal.min() > 0.5 and diagonal.max() < 1.3


def test_a_zero_gradient_moves_nothing() -> None:
    weight = nn.Parameter(torch.randn(4, 4))
    before = weight.detach().clone()
    optimizer = Muon([{"params": [weight], "matrices": True}], lr=0.1)
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert torch.equal(weight, before)


def test_step_has_the_stated_size_whatever_the_gradient() -> None:
    weight = nn.Parameter(torch.zeros(64, 32))
    optimizer = Muon([{"params": [weight], "matrices": True}], lr=1e-2)
    weight.grad = 1e-6 * torch.randn(64, 32, generator=torch.Generator().manual_seed(0))
    optimizer.step()
    # Singular values near one: mean square of an entry is 32 / (64 * 32), times 0.2² * 64.
    assert float(weight.detach().square().mean().sqrt()) == pytest.approx(1e-2 * 0.2, rel=0.25)


def test_the_rest_is_adamw() -> None:
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(2))
    first = Muon([{"params": [ours], "weight_decay": 0.1}], lr=1e-2, betas=(0.9, 0.98))
    second = torch.optim.AdamW([theirs], lr=1e-2, betas=(0.9, 0.98), weight_decay=0.1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        gradient = torch.randn(7, generator=generator)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        first.step()
        second.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_built_from_a_recipe_it_learns_and_its_state_round_trips() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3))
    config = OptimizerConfig(name="muon", learning_rate=1e-2)
    optimizer = build_optimizer(module, config)
    kinds = {id(p): group["matrices"] for group in optimizer.param_groups for p in group["params"]}
    assert kinds[id(module[0].weight)] and not kinds[id(module[0].bias)]
    x = torch.randn(64, 6)
    wanted = x @ torch.randn(6, 3)

    def loss() -> torch.Tensor:
        return (module(x) - wanted).square().mean()

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

    start = float(loss().detach())
    train(60)
    assert float(loss().detach()) < 0.7 * start
    weights, state = copy.deepcopy(module.state_dict()), copy.deepcopy(optimizer.state_dict())
    train(3)
    after = module[0].weight.detach().clone()
    module.load_state_dict(weights)
    optimizer = build_optimizer(module, config)
    optimizer.load_state_dict(state)
    train(3)
    assert torch.equal(module[0].weight, after)


def test_work_is_divided_evenly_and_completely() -> None:
    costs = [float(n**3) for n in (256, 256, 128, 512, 64, 8, 256, 1)]
    owner = divide(costs, 3)
    loads = [sum(cost for cost, part in zip(costs, owner, strict=True) if part == wanted) for wanted in range(3)]
    assert len(owner) == len(costs) and set(owner) == {0, 1, 2}
    assert max(loads) == 512.0**3  # the largest alone is more than a third


def test_a_stack_of_two_views_stays_a_stack_and_a_kernel_becomes_a_matrix() -> None:
    assert as_matrices(torch.zeros(2, 8, 12)).shape == (2, 8, 12)
    assert as_matrices(torch.zeros(16, 4, 5)).shape == (16, 20)
