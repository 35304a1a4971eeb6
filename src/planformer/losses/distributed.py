"""Differentiable all_gathers for pairs and batch statistics (paper, Appendix C, "Distributed Training").

The backward pass sums each row's gradient over the ranks, so that averaging parameter gradients over ranks, as DDP
does, gives exactly the gradient of the joined batch. Batch statistics serve different rows on every rank, so their
gradients have to be summed by another collective. Of the losses every rank computes the same one on the same joined
rows: its gradients are those of all the others, and their sum is known without asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

LARGEST_LABEL = 2**24  # labels travel in the float32 rows


def world_size() -> int:
    """Number of ranks; 1 when nothing distributed was started."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class _AllGather(torch.autograd.Function):
    """Rows ``[n, K]`` -> ``[sum of n, K]`` in the order of ranks; ranks may have different n."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        rank = dist.get_rank()
        ctx.start, ctx.count = sum(sizes[:rank]), sizes[rank]
        largest = max(sizes)
        padded = rows.new_zeros(largest, rows.shape[1])
        padded[: rows.shape[0]] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad[ctx.start : ctx.start + ctx.count], None


class _GatherForSameLoss(_AllGather):
    """The same rows; every rank computes the same function of them, so each knows the sum of all gradients."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad[ctx.start : ctx.start + ctx.count] * dist.get_world_size(), None


def gather_sizes(count: int, device: torch.device) -> list[int]:
    """The batch size of every rank."""
    own = torch.tensor([count], device=device)
    parts = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(parts, own)
    return [int(part) for part in parts]


def all_gather_rows(rows: Tensor, *, same_size: bool = False, same_loss: bool = False) -> Tensor:
    """Join ``[n, K]`` of all ranks along the first axis, differentiably; the input itself on a single rank.

    ``same_size``: every rank has the same n, so that the sizes need no round of their own. ``same_loss``: every rank
    computes the same function of the joined rows, so that the gradients need none either.
    """
    world = world_size()
    if world == 1:
        return rows
    sizes = [rows.shape[0]] * world if same_size else gather_sizes(rows.shape[0], rows.device)
    gathered: Tensor = (_GatherForSameLoss if same_loss else _AllGather).apply(rows, sizes)
    return gathered


def gather_batch(tensors: Mapping[str, Tensor], *, same_size: bool = False) -> dict[str, Tensor]:
    """Join named per-sample tensors ``[B, ...]`` of all ranks in a single collective, for a loss all of them compute.

    Scalars count once per sample, so the mean of the returned column is the mean over the joined batch.
    ``same_size``: every rank has the same B.

    >>> gather_batch({"x": torch.ones(3, 2), "mean": torch.tensor(4.0)})["mean"]
    tensor([4., 4., 4.])
    """
    batch = next(tensor.shape[0] for tensor in tensors.values() if tensor.ndim)
    rows = {name: t if t.ndim else t.expand(batch) for name, t in tensors.items()}
    for name, tensor in rows.items():
        if tensor.shape[0] != batch:
            raise ValueError(f"{name} has {tensor.shape[0]} rows, the batch {batch}")
    if world_size() == 1:
        return rows
    return _unpack(all_gather_rows(_pack(rows), same_size=same_size, same_loss=True), rows)


def at_least_single(x: Tensor) -> Tensor:
    """Half precision becomes single; double stays double."""
    return x if x.dtype == torch.float64 else x.float()


def _pack(rows: Mapping[str, Tensor]) -> Tensor:
    columns = []
    double = any(tensor.dtype == torch.float64 for tensor in rows.values())
    for name, tensor in rows.items():
        if not tensor.is_floating_point() and tensor.numel() and int(tensor.abs().max()) >= LARGEST_LABEL:
            raise ValueError(f"{name} has integers of 2^24 or more, which a float32 row can't carry")
        columns.append(tensor.reshape(tensor.shape[0], -1).to(torch.float64 if double else torch.float32))
    return torch.cat(columns, 1)


def _unpack(joined: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    widths = [tensor[:1].numel() if tensor.shape[0] else tensor.shape[1:].numel() for tensor in like.values()]
    result = {}
    for (name, tensor), part in zip(like.items(), joined.split(widths, 1), strict=True):
        part = part.reshape(joined.shape[0], *tensor.shape[1:])
        result[name] = part if tensor.is_floating_point() else part.round().to(tensor.dtype)  # labels
    return result
