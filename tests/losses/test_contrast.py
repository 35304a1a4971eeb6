"""Contrast of kinds: values by hand, chance level, gradients that pull kinds together."""

from __future__ import annotations

import math

import pytest
import torch

from planformer.losses.contrast import contrast

PAIRS = torch.arange(8).repeat_interleave(2)


def test_equals_the_plain_sum_over_rows() -> None:
    z = torch.randn(9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    kinds = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3, 3])
    unit = z / z.norm(dim=1, keepdim=True)
    losses = []
    for i in range(9):
        others = [j for j in range(9) if j != i]
        total = sum(math.exp(float(unit[i] @ unit[j]) / 0.3) for j in others)
        same = [math.exp(float(unit[i] @ unit[j]) / 0.3) / total for j in others if kinds[j] == kinds[i]]
        if same:
            losses.append(-sum(math.log(p) for p in same) / len(same))
    assert float(contrast(z, kinds, 0.3)) == pytest.approx(sum(losses) / len(losses) / math.log(8), rel=1e-9)


def test_one_for_embeddings_that_say_nothing() -> None:
    z = torch.ones(16, 4) + 1e-9 * torch.randn(16, 4)
    assert float(contrast(z, PAIRS)) == pytest.approx(1.0, abs=1e-4)


def test_the_gradient_pulls_a_kind_together() -> None:
    z = torch.randn(16, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
    before = contrast(z, PAIRS)
    before.backward()
    assert z.grad is not None and bool((z.grad.abs().sum(1) > 0).all())
    assert contrast((z - 2 * z.grad).detach(), PAIRS) < before


def test_rows_without_company_ask_for_nothing() -> None:
    z = torch.randn(4, 3).requires_grad_()
    loss = contrast(z, torch.arange(4))
    loss.backward()
    assert loss.item() == 0 and z.grad is not None and float(z.grad.abs().max()) == 0
