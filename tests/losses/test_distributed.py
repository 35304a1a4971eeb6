from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

from planformer.losses.distributed import all_gather_rows, gather_batch, world_size
from reference.losses_parity import Step, make_rows, run_ranks

CASES = [([4, 4], True), ([5, 2], False)]  # rows of each rank (the last batch is uneven), wrapped in DDP or not


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """Results of two gloo ranks for all cases."""
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(run_ranks, (CASES, str(folder)), nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


@pytest.mark.parametrize("case", range(len(CASES)), ids=["even-ddp", "uneven"])
def test_two_ranks_equal_one_process_on_the_joined_batch(ranks: list[list[dict[str, Any]]], case: int) -> None:
    """Different data on each rank; both totals, every term, every parameter's gradient, the batch norms' statistics."""
    step = Step()
    total, report = step(make_rows(sum(CASES[case][0])))
    total.backward()
    for result in (rank[case] for rank in ranks):
        torch.testing.assert_close(result["total"], total.detach(), rtol=1e-9, atol=1e-9)
        assert result["report"] == pytest.approx(report, rel=1e-6, abs=1e-9)
        for name, parameter in step.named_parameters():
            assert parameter.grad is not None
            torch.testing.assert_close(result["grad"][name], parameter.grad, rtol=1e-7, atol=1e-9, msg=name)
        for name, buffer in step.named_buffers():
            torch.testing.assert_close(result["buffers"][name], buffer, rtol=1e-9, atol=1e-9, msg=name)


def test_every_parameter_of_the_step_is_trained() -> None:
    step = Step()
    step(make_rows(7))[0].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in step.parameters())


def test_single_rank_is_the_identity() -> None:
    rows = torch.randn(3, 2)
    assert world_size() == 1
    assert all_gather_rows(rows) is rows
    joined = gather_batch({"x": rows, "labels": torch.arange(3), "mean": torch.tensor(2.0)})
    assert joined["x"] is rows
    assert joined["mean"].tolist() == [2, 2, 2]


def test_rows_must_agree_on_the_batch() -> None:
    with pytest.raises(ValueError, match="has 2 rows"):
        gather_batch({"x": torch.zeros(3), "y": torch.zeros(2)})
