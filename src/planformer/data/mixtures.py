"""Mixtures of two sources at a controlled power ratio (paper, Appendix C, "Mixture Creation and SINR Control")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from planformer.data.augment import AugmentConfig, transform, unit_power
from planformer.iq import interleave


@dataclass
class MixtureBatch:
    """Interleaved float32 signals; ``mixture`` has unit power, and so has each target.

    ``scale_a`` and ``scale_b`` give ``mixture = scale_a * source_a + scale_b * source_b + noise``.
    """

    mixture: Tensor  # [B, 2n]
    source_a: Tensor  # [B, 2n] the dominant source
    source_b: Tensor  # [B, 2n]
    scale_a: Tensor  # [B]
    scale_b: Tensor  # [B]
    noise_power: Tensor  # [B] in the scale of the mixture
    sinr_db: Tensor  # [B] power of A over interference plus noise
    code_a: Tensor  # [B, 5]
    code_b: Tensor  # [B, 5]


def mix(
    a: Tensor,
    b: Tensor,
    generator: torch.Generator,
    *,
    sinr_range: tuple[float, float] = (0.0, 20.0),
    noise_share: float = 0.01,
    config: AugmentConfig | None = None,
) -> MixtureBatch:
    """Transform both sources ``[B, n]`` independently, then add ``alpha * b`` to ``a`` at a random SINR (dB).

    ``noise_share`` of the interfering power is white noise, the rest is source B, so the ratio includes the noise.
    At 0 dB with noise, A is still at least as strong as B: the dominant source is always the first.

    >>> g = torch.Generator().manual_seed(0)
    >>> a, b = torch.randn(2, 3, 5120, dtype=torch.complex64)
    >>> mix(a, b, g).mixture.shape
    torch.Size([3, 10240])
    """
    low, high = sinr_range
    if not 0 <= low <= high:
        raise ValueError(f"the SINR range must be 0 <= low <= high so that A is dominant, not {sinr_range}")
    a, code_a = transform(a, generator, config=config)
    b, code_b = transform(b, generator, config=config)
    a, b = unit_power(a), unit_power(b)
    sinr_db = low + (high - low) * torch.rand(len(a), generator=generator)
    interference = 10 ** (-sinr_db / 10)  # relative to P_A = 1
    alpha = (interference * (1 - noise_share)).sqrt()
    noise_power = interference * noise_share
    noise = torch.randn(a.shape, generator=generator, dtype=a.dtype)
    mixture = a + alpha[:, None] * b + noise_power.sqrt()[:, None] * noise
    power = torch.view_as_real(mixture).square().sum(-1).mean(-1).clamp_min(1e-30)
    return MixtureBatch(
        mixture=interleave(mixture * power.rsqrt()[:, None]),
        source_a=interleave(a),
        source_b=interleave(b),
        scale_a=power.rsqrt(),
        scale_b=alpha * power.rsqrt(),
        noise_power=noise_power / power,
        sinr_db=sinr_db,
        code_a=code_a,
        code_b=code_b,
    )
