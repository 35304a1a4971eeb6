"""Batch normalisation over the joined batch of all ranks (paper, Appendix C, "Distributed Batch Statistics").

It works on any device: torch's SyncBatchNorm runs on accelerators only; this one uses the losses' all_gather.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.losses.distributed import all_gather_rows, world_size


class JointBatchNorm(nn.BatchNorm1d):
    """One scale and shift per feature, and separate statistics for ``num_groups`` kinds of rows.

    >>> norm = JointBatchNorm(3, num_groups=2)
    >>> norm(torch.randn(10, 3), (6, 4)).shape
    torch.Size([10, 3])
    """

    def __init__(self, num_features: int, num_groups: int = 1) -> None:
        super().__init__(num_features)
        # (groups, features), so that a group's row is a view that batch_norm updates in place
        self.running_mean: Tensor = torch.zeros(num_groups, num_features)
        self.running_var: Tensor = torch.ones(num_groups, num_features)

    def forward(self, x: Tensor, sizes: Sequence[int] | None = None) -> Tensor:
        """Rows ``[n, C]``; the first ``sizes[0]`` belong to group 0, the next ``sizes[1]`` to group 1, and so on."""
        parts = x.split(list(sizes)) if sizes is not None else (x,)
        if len(parts) > self.running_mean.shape[0]:
            raise ValueError(f"{len(parts)} groups of rows for {self.running_mean.shape[0]} groups of statistics")
        normalised = [self._normalise(part, group) for group, part in enumerate(parts)]
        return normalised[0] if len(normalised) == 1 else torch.cat(normalised)

    def _normalise(self, x: Tensor, group: int) -> Tensor:
        if self.training and world_size() > 1:
            return self._normalise_jointly(x, group)
        mean, variance = self.running_mean[group], self.running_var[group]
        momentum = 0.1 if self.momentum is None else self.momentum
        return F.batch_norm(x, mean, variance, self.weight, self.bias, self.training, momentum, self.eps)

    def _normalise_jointly(self, x: Tensor, group: int) -> Tensor:
        count, mean, variance = joint_moments(x)
        with torch.no_grad():
            momentum = 0.1 if self.momentum is None else self.momentum
            self.running_mean[group].lerp_(mean, momentum)
            self.running_var[group].lerp_(variance * (count / (count - 1)), momentum)
        return (x - mean) * (torch.rsqrt(variance + self.eps) * self.weight) + self.bias


def joint_moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Number of rows, mean and biased variance per feature of ``[n, C]`` over all ranks (Chan's stable combination)."""
    rows = max(x.shape[0], 1)
    local_mean = x.sum(0) / rows
    local_square = (x - local_mean).square().sum(0)
    counts = x.new_full((1,), x.shape[0])
    own = torch.cat((local_mean, local_square, counts)).unsqueeze(0)
    packed = all_gather_rows(own, same_size=True)  # (ranks, 2 C + 1)
    means, squares, counts = packed[:, : x.shape[1]], packed[:, x.shape[1] : -1], packed[:, -1:]
    total = counts.sum()
    mean = (counts * means).sum(0) / total
    variance = (squares + counts * (means - mean).square()).sum(0) / total
    return total.detach(), mean, variance
