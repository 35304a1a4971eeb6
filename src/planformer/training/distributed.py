"""One process or many with the same code: the process group (gloo or nccl) and decisions that all ranks share.

Batch statistics over all ranks are in ``models.batch_norm``, pairs over all ranks in ``losses.distributed``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Processes:
    """This process's place among all of them."""

    rank: int = 0
    world: int = 1
    device: str = "cpu"

    @property
    def is_main(self) -> bool:
        return self.rank == 0


@contextmanager
def process_group() -> Iterator[Processes]:
    """Join the group that torchrun describes in the environment; a single process needs none."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = f"cuda:{local_rank}" if cuda else "cpu"
    if world == 1:
        yield Processes(device=device)
        return
    if cuda:
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()


def any_rank(*flags: bool) -> list[bool]:
    """Each flag is true if it is true on any rank: all ranks take the same decision."""
    if not dist.is_initialized():
        return list(flags)
    values = torch.tensor([float(flag) for flag in flags], device=_device())
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return [bool(value > 0) for value in values]


def mean_over_ranks(values: dict[str, float]) -> dict[str, float]:
    """The mean of each logged scalar; every rank passes the same keys."""
    if not dist.is_initialized():
        return values
    tensor = torch.tensor(list(values.values()), dtype=torch.float64, device=_device())
    dist.all_reduce(tensor)
    return dict(zip(values, (tensor / dist.get_world_size()).tolist(), strict=True))


def barrier() -> None:
    if dist.is_initialized():
        dist.barrier()


def gather_rows(rows: Tensor, count: int) -> Tensor:
    """Put together ``[count, d]`` from ranks that hold every world-th row, rank r starting at row r."""
    if not dist.is_initialized():
        return rows
    world = dist.get_world_size()
    longest = -(-count // world)
    padded = torch.zeros(longest, *rows.shape[1:], dtype=rows.dtype, device=rows.device)
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded)
    return torch.stack(parts, dim=1).flatten(0, 1)[:count]  # (longest, world, d) -> (count, d)


def _device() -> str:
    return f"cuda:{torch.cuda.current_device()}" if dist.get_backend() == "nccl" else "cpu"
