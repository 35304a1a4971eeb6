"""Powers of a signal, averaged over short blocks: by which turn its constellation looks the same (our addition).

QPSK repeats after a quarter of a turn, 8PSK after an eighth, PAM after a half. All may have the same spectrum, and the
first two have nearly the same distribution of amplitudes, but the fourth power of QPSK keeps its phase from one sample
to the next and that of 8PSK does not. Blocks are short, so that a carrier offset hardly turns the power within one;
only the magnitude of a block's mean is kept.
"""

from __future__ import annotations

import torch
from torch import Tensor

RAW, UNIT = (2, 3, 4), (2, 4, 8)  # powers of the samples themselves, and of their phases alone
BLOCKS = (32, 64)
FLOOR = 0.05  # of what independent samples have
TINY = 1e-6


def phase_powers(x: Tensor) -> Tensor:
    """Complex ``[B, n]`` -> ``[B, 24]``: log of the power of block means over that of independent samples.

    Of the samples and of sums of neighbours, each for :data:`RAW` and :data:`UNIT`, in blocks of :data:`BLOCKS`.

    >>> turns = torch.randint(4, (1, 5120), generator=torch.Generator().manual_seed(0))
    >>> found = phase_powers(torch.exp(0.5j * torch.pi * turns)).view(2, 6, 2)
    >>> found[0, :, 0].round().tolist()  # z squared, cubed, to the fourth; phases doubled, times four, times eight
    [0.0, 0.0, 3.0, 0.0, 3.0, 3.0]
    """
    columns = []
    for view in (x, x[:, 1:] + x[:, :-1]):
        level = view.abs().square().mean(1, keepdim=True).sqrt().clamp_min(TINY)
        phase = view / view.abs().clamp_min(TINY)
        for base, powers in ((view / level, RAW), (phase, UNIT)):
            for power in powers:
                columns += _block_means(_raised(base, power))
    return torch.stack(columns, dim=1)


def _raised(x: Tensor, power: int) -> Tensor:
    """A whole power by products: complex ``**`` goes through logarithms."""
    if power == 1:
        return x
    half = _raised(x, power // 2)
    return half * half * x if power % 2 else half * half


def _block_means(x: Tensor) -> list[Tensor]:
    """For each block length ``[B]``."""
    power = x.abs().square().mean(1).clamp_min(TINY)
    short = _means(x, BLOCKS[0])
    found = []
    for size in BLOCKS:
        means = short if size == BLOCKS[0] else _means(short, size // BLOCKS[0])
        found.append(torch.log(means.abs().square().mean(1) * size / power + FLOOR))
    return found


def _means(x: Tensor, size: int) -> Tensor:
    return x[:, : x.shape[1] // size * size].unflatten(1, (-1, size)).mean(-1)
