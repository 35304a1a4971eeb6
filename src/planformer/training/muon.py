"""Muon beside AdamW: the momentum of every weight matrix is orthogonalised before it is applied.

A few CPU hours buy thousands of steps, not millions, so the optimiser has to move every direction of a matrix, not
the few that dominate its gradient. The update of a matrix is its momentum with all singular values brought near one
(a polynomial iteration, Jordan et al. 2024), scaled to the size of an AdamW step (Liu et al. 2025), so that one
learning rate serves both; everything that is not a matrix takes AdamW's step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
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
    ) -> None:
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
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    (self._matrix if group["matrices"] else self._adam)(parameter, parameter.grad, group)
        return loss

    def _matrix(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum = state["momentum"].lerp_(gradient, 1 - group["momentum"])
        ahead = gradient.lerp(momentum, group["momentum"])  # Nesterov
        matrices = as_matrices(ahead)
        scale = STEP_SIZE * math.sqrt(max(matrices.shape[-2:]))
        parameter.add_(orthogonalise(matrices).reshape(parameter.shape), alpha=-group["lr"] * scale)

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


def as_matrices(weight: Tensor) -> Tensor:
    """A convolution's kernel ``[out, in, k]`` as ``[out, in * k]``; a stack of square-ish matrices stays a stack."""
    if weight.dim() == 3 and weight.shape[0] == 2:  # the two views' projections, one matrix each
        return weight
    return weight.flatten(1)
