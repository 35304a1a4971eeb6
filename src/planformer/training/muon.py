"""Muon beside AdamW: the momentum of every weight matrix is orthogonalised before it is applied.

A few CPU hours buy thousands of steps, not millions, so the optimiser has to move every direction of a matrix, not
the few that dominate its gradient. The update of a matrix is its momentum with all singular values brought near one
(a polynomial iteration, Jordan et al. 2024), scaled to the size of an AdamW step (Liu et al. 2025), so that one
learning rate serves both; everything that is not a matrix takes AdamW's step. Processes that hold the same gradients
divide the matrices among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steep at zero, near one between 0.7 and 1.2
ITERATIONS = 5
STEP_SIZE = 0.2  # root mean square of an AdamW step at rate one, as measured by Liu et al.


def orthogonalise(matrices: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """``[..., m, n]`` with singular values brought to about one, its singular vectors kept.

    >>> u = orthogonalise(torch.randn(64, 16, generator=torch.Generator().manual_seed(0)))
    >>> bool((torch.linalg.svdvals(u) > 0.6).all() and (torch.linalg.svdvals(u) < 1.3).all())
    True
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-12)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Groups with ``matrices=True`` take orthogonalised momentum, the others AdamW; both decay weights apart.

    ``shared``: the processes of the default group hold the same weights and gradients, as under DDP; each of them
    orthogonalises a part of the matrices and gets the rest from the others.

    >>> weight, bias = torch.nn.Parameter(torch.ones(4, 3)), torch.nn.Parameter(torch.ones(4))
    >>> optimizer = Muon([{"params": [weight], "matrices": True}, {"params": [bias]}], lr=0.1)
    >>> (weight.sum() + bias.sum()).backward()
    >>> optimizer.step()
    >>> bool(weight.max() < 1) and bool(bias.max() < 1)
    True
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        shared: bool = False,
    ) -> None:
        self.shared = shared
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "matrices": False,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        moving, matrices = [], []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                if group["matrices"]:
                    moving.append((parameter, group["lr"]))
                    matrices.append(as_matrices(self._ahead(parameter, parameter.grad, group["momentum"])))
                else:
                    self._adam(parameter, parameter.grad, group)
        directions = _orthogonalise_shared(matrices) if self.shared else map(orthogonalise, matrices)
        for (parameter, rate), direction in zip(moving, directions, strict=True):
            scale = STEP_SIZE * math.sqrt(max(direction.shape[-2:]))
            parameter.add_(direction.reshape(parameter.shape), alpha=-rate * scale)
        return loss

    def _ahead(self, parameter: Tensor, gradient: Tensor, decay: float) -> Tensor:
        """Nesterov's momentum after this gradient."""
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum = state["momentum"].lerp_(gradient, 1 - decay)
        return gradient.lerp(momentum, decay)

    def _adam(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        first, second = group["betas"]
        state["step"] += 1
        count = float(state["step"])
        state["mean"].lerp_(gradient, 1 - first)
        state["square"].lerp_(gradient.square(), 1 - second)
        root = (state["square"] / (1 - second**count)).sqrt_().add_(group["eps"])
        parameter.addcdiv_(state["mean"], root, value=-group["lr"] / (1 - first**count))


def divide(costs: Sequence[float], parts: int) -> list[int]:
    """The part each item goes to: the most expensive first, always to the part with the least so far.

    >>> divide([1, 5, 3, 2], 2)
    [0, 0, 1, 1]
    """
    loads, owner = [0.0] * parts, [0] * len(costs)
    for index in sorted(range(len(costs)), key=lambda i: -costs[i]):
        owner[index] = loads.index(min(loads))
        loads[owner[index]] += costs[index]
    return owner


def _orthogonalise_shared(matrices: list[Tensor]) -> list[Tensor]:
    """Every process orthogonalises its part; one sum with zeros elsewhere gives all of them everything."""
    if not matrices:
        return []
    costs = [x.numel() * min(x.shape[-2:]) for x in matrices]
    rank = dist.get_rank()
    joined = matrices[0].new_zeros(sum(x.numel() for x in matrices))
    parts = [part.view(x.shape) for part, x in zip(joined.split([x.numel() for x in matrices]), matrices, strict=True)]
    for owner, part, x in zip(divide(costs, dist.get_world_size()), parts, matrices, strict=True):
        if owner == rank:
            part.copy_(orthogonalise(x))
    dist.all_reduce(joined)
    return parts


def as_matrices(weight: Tensor) -> Tensor:
    """A convolution's kernel ``[out, in, k]`` as ``[out, in * k]``; a stack of square-ish matrices stays a stack."""
    if weight.dim() == 3 and weight.shape[0] == 2:  # the two views' projections, one matrix each
        return weight
    return weight.flatten(1)
