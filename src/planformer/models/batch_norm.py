"""Batch normalisation over the joined batch of all ranks (paper, Appendix C, "Distributed Batch Statistics").

It works on any device: torch's SyncBatchNorm runs on accelerators only; this one uses the losses' all_gather.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.losses.distributed import all_gather_rows, world_size

Moments = tuple[Tensor, Tensor, Tensor]  # number of rows, mean and biased variance per feature


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
        return normalise_together([self], [x], sizes)[0]

    def _split(self, x: Tensor, sizes: Sequence[int] | None) -> Sequence[Tensor]:
        parts = x.split(list(sizes)) if sizes is not None else (x,)
        if len(parts) > self.running_mean.shape[0]:
            raise ValueError(f"{len(parts)} groups of rows for {self.running_mean.shape[0]} groups of statistics")
        return parts

    def _normalise(self, parts: Sequence[Tensor]) -> list[Tensor]:
        momentum = 0.1 if self.momentum is None else self.momentum
        return [
            F.batch_norm(x, mean, variance, self.weight, self.bias, self.training, momentum, self.eps)
            for x, mean, variance in zip(parts, self.running_mean, self.running_var, strict=False)
        ]

    def _normalise_by(self, parts: Sequence[Tensor], moments: Sequence[Moments]) -> list[Tensor]:
        """By the moments of all ranks, which the running ones follow."""
        momentum = 0.1 if self.momentum is None else self.momentum
        normalised = []
        for group, (x, (count, mean, variance)) in enumerate(zip(parts, moments, strict=True)):
            with torch.no_grad():
                self.running_mean[group].lerp_(mean, momentum)
                self.running_var[group].lerp_(variance * (count / (count - 1)), momentum)
            normalised.append((x - mean) * (torch.rsqrt(variance + self.eps) * self.weight) + self.bias)
        return normalised


def normalise_together(
    norms: Sequence[JointBatchNorm], inputs: Sequence[Tensor], sizes: Sequence[int] | None = None
) -> list[Tensor]:
    """What each norm gives for its own rows ``[n, C]``, which have the same groups.

    Over several ranks all of them ask in one collective: each question is a moment at which one rank waits for another.
    """
    parts = [norm._split(x, sizes) for norm, x in zip(norms, inputs, strict=True)]
    if norms[0].training and world_size() > 1:
        found = iter(joint_moments([part for own in parts for part in own]))
        normalised = [
            norm._normalise_by(own, [next(found) for _ in own]) for norm, own in zip(norms, parts, strict=True)
        ]
    else:
        normalised = [norm._normalise(own) for norm, own in zip(norms, parts, strict=True)]
    return [own[0] if len(own) == 1 else torch.cat(own) for own in normalised]


def joint_moments(parts: Sequence[Tensor]) -> list[Moments]:
    """Number of rows, mean and biased variance per feature of each ``[n, C]`` over all ranks, in one collective.

    Chan's stable combination of the ranks' own moments.
    """
    own = torch.cat([_moments(x) for x in parts]).unsqueeze(0)
    packed = all_gather_rows(own, same_size=True)  # (ranks, groups (2 C + 1))
    found = []
    for moments in packed.split([2 * x.shape[1] + 1 for x in parts], 1):
        width = moments.shape[1] // 2
        means, squares, counts = moments[:, :width], moments[:, width:-1], moments[:, -1:]
        total = counts.sum()
        mean = (counts * means).sum(0) / total
        variance = (squares + counts * (means - mean).square()).sum(0) / total
        found.append((total.detach(), mean, variance))
    return found


def _moments(x: Tensor) -> Tensor:
    """Mean, summed squared deviation and number of this rank's rows: ``[2 C + 1]``."""
    mean = x.sum(0) / max(x.shape[0], 1)
    return torch.cat((mean, (x - mean).square().sum(0), x.new_full((1,), x.shape[0])))
