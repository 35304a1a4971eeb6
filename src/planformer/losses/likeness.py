"""The embedding as a picture of the descriptors, turned but not stretched: our addition.

All that a linear classifier with a penalty knows of its training rows are their products with each other, so it is not
enough that descriptors *can be read* from an embedding: what the embedding holds besides, and how large each thing is
in it, decides what a few examples show. Here the embedding is to be the descriptors' principal components with their
own variances, in a fixed rotation. Errors count relative to what the signals of one scene differ by
(:mod:`planformer.data.scenes`), because that is what a classifier on one data set has to work with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.losses.descriptors import in_deviations, join_groups

VARIANCE_FLOOR = 0.003  # of the components' mean variance, added to that of a scene
WHOLE = 0.3  # weight of the error over the whole batch beside that within scenes


class Likeness(nn.Module):
    """Relative error of the embedding as a rotation of the descriptors' principal components.

    ``shares`` are the groups' total powers (those of 0 are left out), ``names`` that of the emitters' indicators, for
    signals as recorded; ``classes`` is how many emitters there may be. :meth:`calibrate` fixes the components, and the
    rotation that is nearest to the embedding as it is. 1 is what a constant embedding gives, 0 is perfect; what counts
    is log(1 + error / ``floor``), scaled to 1 at 1.

    What tells texts apart is not what tells pictures apart. ``stretches`` has a row of factors for each kind of scene,
    one for each group: the members of such a scene differ from their kind's mean by a group's share times that factor,
    and where the kind lies as a whole stays as it was. Without it every kind is described alike.
    """

    mean: Tensor
    deviation: Tensor
    centre: Tensor
    basis: Tensor
    embedding_mean: Tensor
    embedding_scale: Tensor
    stretch: Tensor
    kind_mean: Tensor

    def __init__(
        self,
        embedding_dim: int,
        groups: Mapping[str, int],
        shares: Mapping[str, float] | None = None,
        *,
        names: float = 0.0,
        classes: int = 64,
        floor: float = 0.05,
        stretches: Sequence[Mapping[str, float]] = (),
    ) -> None:
        super().__init__()
        self.groups = dict(groups)
        self.shares = dict.fromkeys(self.groups, 1.0) | dict(shares or {})
        if unknown := sorted(set(self.shares) - set(self.groups)):
            raise ValueError(f"{', '.join(unknown)}: not among the descriptor groups {', '.join(self.groups)}")
        self.names, self.classes, self.floor = names, classes, floor
        described = sum(self.groups.values())
        for row in stretches:
            if unknown := sorted(set(row) - set(self.groups)):
                raise ValueError(f"{', '.join(unknown)}: not among the descriptor groups {', '.join(self.groups)}")
        self.register_buffer("stretch", self._stretch(stretches), persistent=False)
        self.register_buffer("kind_mean", torch.zeros(len(stretches), described), persistent=len(stretches) > 0)
        self.register_buffer("mean", torch.zeros(described))
        self.register_buffer("deviation", torch.ones(described))
        self.register_buffer("centre", torch.zeros(described + classes))
        self.register_buffer("basis", torch.zeros(described + classes, embedding_dim))
        self.register_buffer("embedding_mean", torch.zeros(embedding_dim))
        self.register_buffer("embedding_scale", torch.zeros(embedding_dim))  # zero: not calibrated yet

    @torch.no_grad()
    def calibrate(
        self,
        embedding: Tensor,
        descriptors: Mapping[str, Tensor],
        emitters: Tensor,
        recorded: Tensor,
        kinds: Tensor | None = None,
    ) -> None:
        """Fix everything on the embeddings and descriptors of many signals, more than the embedding has numbers."""
        dim = embedding.shape[1]
        if len(embedding) <= dim:
            raise ValueError(f"{len(embedding)} signals can't show {dim} components")
        values = join_groups(descriptors, self.groups)
        self.mean.copy_(values.mean(0))
        self.deviation.copy_(values.std(0).clamp_min(1e-3))
        if kinds is not None and len(self.stretch):
            alike = self._alike(descriptors)
            for kind in kinds.unique().tolist():
                self.kind_mean[kind] = alike[kinds == kind].mean(0)
        rows = self.describe(descriptors, emitters, recorded, kinds).double()
        self.centre.copy_(rows.mean(0))
        _, _, directions = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
        components = (rows - rows.mean(0)) @ directions[:dim].T
        self.embedding_mean.copy_(embedding.mean(0))
        self.embedding_scale.copy_(embedding.std(0).clamp_min(1e-6))
        standard = ((embedding - self.embedding_mean) / self.embedding_scale).double()
        left, _, right = torch.linalg.svd(components.T @ standard)  # the nearest rotation (Procrustes)
        scale = (components.square().mean() / standard.square().mean()).sqrt()
        self.basis.copy_(directions[:dim].T @ (left @ right) / scale)

    def forward(
        self,
        embedding: Tensor,
        descriptors: Mapping[str, Tensor],
        emitters: Tensor,
        recorded: Tensor,
        size: int,
        kinds: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, and the mean relative error within scenes of ``size`` rows and over the batch.

        ``kinds`` ``[B]`` is the row of ``stretches`` of each signal.
        """
        target = self.target(descriptors, emitters, recorded, kinds)
        error = (embedding - self.embedding_mean) / self.embedding_scale - target
        within = _variance(error, size) / (_variance(target, size) + VARIANCE_FLOOR)
        whole = error.square().mean() / target.square().mean().clamp_min(1e-12)
        loss = (self._counted(within).mean() + WHOLE * self._counted(whole)) / (1 + WHOLE)
        return loss, {"likeness/within": within.detach().mean(), "likeness/whole": whole.detach()}

    @torch.no_grad()
    def target(
        self, descriptors: Mapping[str, Tensor], emitters: Tensor, recorded: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        """What the standardised embedding should be: ``[B, d]``."""
        if not bool(self.embedding_scale.any()):
            raise RuntimeError("call calibrate() with embeddings and descriptors of training signals first")
        return (self.describe(descriptors, emitters, recorded, kinds) - self.centre) @ self.basis

    @torch.no_grad()
    def describe(
        self, descriptors: Mapping[str, Tensor], emitters: Tensor, recorded: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        """Descriptors in deviations, each group with its share of the power, then the indicators of the emitters."""
        values = self._alike(descriptors)
        if len(self.stretch):
            if kinds is None:
                raise ValueError("stretches need the kind of every signal")
            centre = self.kind_mean[kinds]
            values = centre + (values - centre) * self.stretch[kinds]
        indicators = F.one_hot(emitters, self.classes).to(values.dtype)
        named = math.sqrt(self.names) * indicators * recorded.to(values.dtype)[:, None]
        return torch.cat((values, named), dim=1)

    def _alike(self, descriptors: Mapping[str, Tensor]) -> Tensor:
        """Descriptors in deviations with their groups' shares, whatever the kind of scene."""
        powers = {name: math.sqrt(share) for name, share in self.shares.items()}
        return in_deviations(join_groups(descriptors, self.groups), self.mean, self.deviation, self.groups, powers)

    def _stretch(self, stretches: Sequence[Mapping[str, float]]) -> Tensor:
        """Factors of amplitude ``[kinds, described]``: the roots of the factors of power."""
        sizes = torch.tensor(list(self.groups.values()))
        rows = [torch.tensor([row.get(name, 1.0) for name in self.groups]).sqrt() for row in stretches]
        return torch.stack(rows).repeat_interleave(sizes, dim=1) if rows else torch.zeros(0, int(sizes.sum()))

    def _counted(self, error: Tensor) -> Tensor:
        return torch.log1p(error / self.floor) / math.log1p(1 / self.floor)


def _variance(x: Tensor, size: int) -> Tensor:
    """Mean variance of the columns of ``[n, d]`` within each ``size`` rows: ``[n / size]``."""
    return x.unflatten(0, (-1, size)).var(1, correction=0).mean(-1)
