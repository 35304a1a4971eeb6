"""What the objectives cost beside a training step: at batch 128 they may take a tenth of it (paper, Appendix C).

Both are timed in one process: the losses, forward and backward, at batch 128; the step's encoder and networks at a
smaller batch, scaled by the number of samples, since 256 segments at once take minutes on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from planformer.config import PlanFormerConfig
from planformer.losses.inputs import DomainPair, NoiseInputs, SingleSourceInputs, SymmetryInputs, merge_aux
from planformer.losses.regularizers import AUX_GROUPS
from planformer.losses.total import SingleSourceObjective
from planformer.models.auxiliary import SymmetryNetworks
from planformer.models.encoder import Encoder

BATCH, SMALL_BATCH, NUM_EMITTERS = 128, 4, 39


def _leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def _pair(*shape: int) -> DomainPair:
    return DomainPair(_leaf(*shape), _leaf(*shape))


def loss_inputs(batch: int = BATCH) -> SingleSourceInputs:
    """Random tensors of the full model's shapes."""
    labels = torch.arange(batch) % NUM_EMITTERS
    symmetry = SymmetryInputs(
        labels=labels,
        code=torch.rand(batch, 5),
        clean=_pair(batch, 128),
        augmented=_pair(batch, 128),
        latent=_pair(batch, 128),
        projected_augmented=_pair(batch, 1024),
        projected_latent=_pair(batch, 1024),
        predicted_input=torch.rand(batch, 5, requires_grad=True),
        predicted_latent=torch.rand(batch, 5, requires_grad=True),
    )
    aux = {f"{group}/x": torch.rand((), requires_grad=True) for group in AUX_GROUPS}
    return SingleSourceInputs(symmetry, NoiseInputs(torch.rand(batch), torch.rand(batch)), aux)


def _seconds(run: Callable[[], object], repeats: int) -> float:
    """Processor time of the quickest of several runs, after one to warm up; other programs don't disturb it."""
    run()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def loss_seconds(*, diagnose: bool = False) -> float:
    """Forward and backward of all single-source losses at batch 128."""
    objective, inputs = SingleSourceObjective(), loss_inputs()
    return _seconds(lambda: objective(inputs, diagnose=diagnose).total.backward(), 3)


def network_seconds(batch: int = SMALL_BATCH) -> float:
    """Forward and backward of encoder (both branches) and symmetry networks, scaled to batch 128."""
    encoder, networks = Encoder(PlanFormerConfig()), SymmetryNetworks()
    x, code, labels = torch.randn(2 * batch, 10240), torch.rand(batch, 5), torch.arange(batch)
    noisy = torch.arange(2 * batch) >= batch

    def step() -> None:
        out = encoder(x, blindspot=noisy)
        tokens = DomainPair(out.time_tokens[:batch], out.frequency_tokens[:batch])
        quiet = DomainPair(out.time_latent[:batch], out.frequency_latent[:batch])
        moved = DomainPair(out.time_latent[batch:], out.frequency_latent[batch:])
        inputs, aux = networks(tokens, quiet, moved, code, labels, pool=encoder.pool)
        projected = inputs.projected_latent.joined().sum() + inputs.predicted_input.sum()
        merged = merge_aux(encoder=out.aux, latent=aux).values()
        torch.autograd.backward([projected, *merged])

    return _seconds(step, 1) * BATCH / batch


def run() -> list[dict[str, object]]:
    torch.manual_seed(0)
    losses, diagnosed, networks = loss_seconds(), loss_seconds(diagnose=True), network_seconds()
    share = losses / (losses + networks)
    return [
        {"name": "losses, batch 128", "value": losses, "unit": "CPU s", "note": "forward and backward"},
        {"name": "losses with diagnostics", "value": diagnosed, "unit": "CPU s", "note": "every 50th step"},
        {
            "name": "encoder and networks",
            "value": networks,
            "unit": "CPU s",
            "note": f"scaled from batch {SMALL_BATCH}",
        },
        {"name": "losses' share of a step", "value": 100 * share, "unit": "%", "ratio": share, "note": "limit 10 %"},
    ]
