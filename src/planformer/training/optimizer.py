"""Adam or Muon with per-pattern learning rates, frozen parameters and decay of matrices only."""

from __future__ import annotations

from fnmatch import fnmatchcase

import torch
from torch import nn

from planformer.errors import ConfigError
from planformer.training.muon import Muon, as_matrices
from planformer.training.recipe import OptimizerConfig


def freeze_parameters(module: nn.Module, patterns: tuple[str, ...]) -> list[str]:
    """Stop the gradient of every parameter whose name matches; a pattern that matches nothing is an error."""
    frozen = []
    for pattern in patterns:
        names = [name for name, _ in module.named_parameters() if fnmatchcase(name, pattern)]
        if not names:
            raise ConfigError(f"optimizer.freeze: no parameter matches {pattern!r} (names look like {_sample(module)})")
        frozen.extend(names)
    for name, parameter in module.named_parameters():
        if name in set(frozen):
            parameter.requires_grad_(False)
    return frozen


def build_optimizer(module: nn.Module, config: OptimizerConfig, *, shared: bool = False) -> torch.optim.Optimizer:
    """One group per (rate factor, decayed or not); every group remembers its full rate as ``full_lr``.

    ``shared``: all processes of the group hold the same gradients, and may divide the work of an update.

    >>> optimizer = build_optimizer(nn.Linear(2, 2), OptimizerConfig(weight_decay=0.1))
    >>> sorted(group["weight_decay"] for group in optimizer.param_groups)
    [0.0, 0.1]
    """
    for pattern in config.rate_factors:
        if not any(fnmatchcase(name, pattern) for name, _ in module.named_parameters()):
            raise ConfigError(f"optimizer.rate_factors: no parameter matches {pattern!r}")
    groups: dict[tuple[float, float, bool], list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        factor = next((f for pattern, f in config.rate_factors.items() if fnmatchcase(name, pattern)), 1.0)
        decay = config.weight_decay if parameter.dim() > 1 else 0.0
        matrix = config.name == "muon" and parameter.dim() > 1 and min(as_matrices(parameter).shape[-2:]) > 1
        groups.setdefault((factor, decay, matrix), []).append(parameter)
    if not groups:
        raise ConfigError("optimizer.freeze leaves no parameter to train")
    params = [
        {"params": members, "lr": config.learning_rate * factor, "full_lr": config.learning_rate * factor,
         "weight_decay": decay, "matrices": matrix}
        for (factor, decay, matrix), members in groups.items()
    ]  # fmt: skip
    if config.name == "muon":
        return Muon(params, lr=config.learning_rate, betas=config.betas, eps=config.eps, shared=shared)
    for group in params:
        del group["matrices"]
    kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    return kind(params, lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> float:
    """Scale every group's full rate; returns the recipe's rate at this moment, which no rate factor changes."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_lr"] * factor
    return float(optimizer.defaults["lr"]) * factor


def _sample(module: nn.Module) -> str:
    return ", ".join([name for name, _ in module.named_parameters()][:3])
