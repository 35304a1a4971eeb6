"""Two processes with half the batch each compute what one process computes with all of it."""

import pytest
import torch
import torch.multiprocessing as mp

from training.conftest import tiny_recipe
from training.ranks import VARIANTS, run_rank, weights


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(run_rank, args=(str(folder),), nprocs=2)
    return folder


@pytest.fixture(scope="module", params=VARIANTS)
def states(folder, request):
    variant = request.param
    one = weights(folder / f"one-{variant}", "data.shards=2", variant=variant)
    return variant, one, [torch.load(folder / f"{variant}{r}.pt") for r in range(2)]


def test_both_ranks_hold_the_same_weights(states):
    _, _, ranks = states
    for name, value in ranks[0].items():
        assert torch.equal(value, ranks[1][name]), name


def test_two_ranks_equal_one(states):
    variant, one, (two, _) = states
    start = tiny_start(variant)
    floating = [name for name, value in one.items() if value.is_floating_point()]
    assert max(float((one[n] - start[n]).abs().max()) for n in floating) > 1e-4  # the comparison is about something
    apart = {n: float((one[n] - two[n]).abs().max()) for n in floating}
    worst = max(apart, key=lambda name: apart[name])
    assert apart[worst] < 1e-5, f"{worst} differs by {apart[worst]:.1e}"


def tiny_start(variant: str) -> dict[str, torch.Tensor]:
    from planformer.training.stream import mix_seed
    from planformer.training.trainee import Trainee

    torch.manual_seed(mix_seed(0, 1))
    return Trainee(tiny_recipe(*VARIANTS[variant])).state_dict()
