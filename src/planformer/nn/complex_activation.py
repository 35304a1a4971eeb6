"""Sliding-window self-focus activation with complex modulation (paper, Appendix B.4.3).

``alpha_mag * tanh(gamma_mag |z| + |z|) * exp(j (phase + gamma_phase + alpha_phase))``, the parameters per sample, from
a causal cross-window focus and a latent-conditioned self-focus over 20 windows. No additive term: no DC.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from planformer.nn.hypernetwork import Hypernetwork
from planformer.nn.multihead_focus import MultiHeadFocus, heads_for, join_orthogonality
from planformer.nn.paired import RMSNorm
from planformer.nn.positions import sinusoidal_positions

# tanh bends at 1, a unit-power signal reaches 3 and more: start with tanh(|z| / 5) * 5, the identity to 1 % below 0.8.
RANGE_START = 5.0
MAGNITUDE_EPS = 1e-12


def modulate_complex(x: Tensor, gamma: tuple[Tensor, Tensor], alpha: tuple[Tensor, Tensor]) -> Tensor:
    """Interleaved ``x`` with (magnitude, phase) pairs gamma inside and alpha outside the tanh, one per complex sample.

    With both phases zero it commutes with any global rotation of ``x``.

    >>> zero, one = torch.zeros(1), torch.ones(1)
    >>> modulate_complex(torch.tensor([0.0, 100.0]), (zero, zero), (2 * one, zero))
    tensor([0., 2.])
    """
    gamma_magnitude, gamma_phase = gamma
    alpha_magnitude, alpha_phase = alpha
    real, imaginary = x.unflatten(-1, (-1, 2)).unbind(-1)
    # |z| with a floor under the root, since the gradient of |z| has no limit at zero.
    magnitude = torch.sqrt(real.square() + imaginary.square() + MAGNITUDE_EPS)
    gain = alpha_magnitude * torch.tanh(torch.addcmul(magnitude, gamma_magnitude, magnitude)) / magnitude
    phase = gamma_phase + alpha_phase
    cosine, sine = gain * torch.cos(phase), gain * torch.sin(phase)
    rotated = (real * cosine - imaginary * sine, real * sine + imaginary * cosine)
    return torch.stack(rotated, dim=-1).flatten(-2)


class SlidingFocusActivation(nn.Module):
    """The decoder's last layer: waveform ``[B, 2n]`` and latent ``[B, Z]`` -> waveform ``[B, 2n]``.

    Each window of ``n / num_windows`` samples becomes tokens of ``patch`` samples; they focus on the previous window's
    tokens, then with the latent on themselves, and are not upsampled again: the hypernetwork writes each sample's two
    (magnitude, phase) pairs from them.

    >>> activation = SlidingFocusActivation(segment=320, num_windows=20, latent_dim=8, dim=8)
    >>> activation(torch.ones(2, 640), torch.zeros(2, 8), aux=False)[0].shape
    torch.Size([2, 640])
    """

    positions: Tensor

    def __init__(
        self,
        segment: int,
        num_windows: int,
        latent_dim: int,
        *,
        dim: int = 32,
        patch: int = 4,
        local: bool = False,
    ) -> None:
        super().__init__()
        window = segment // num_windows
        if segment % num_windows or window % patch:
            raise ValueError(f"{segment} samples don't divide into {num_windows} windows of whole patches of {patch}")
        tokens = window // patch
        self.num_windows, self.patch, self.local = num_windows, patch, local
        self.embed = nn.Linear(2 * patch, dim)
        self.register_buffer("positions", sinusoidal_positions(2 * tokens, dim), persistent=False)
        self.cross_norm, self.self_norm = RMSNorm(dim), RMSNorm(dim)
        self.cross = MultiHeadFocus(dim, heads_for(dim))
        self.latent = nn.Linear(latent_dim, dim)
        self.self_focus = MultiHeadFocus(dim, heads_for(dim))
        # gamma's and alpha's magnitude and phase; `local` writes each token's own samples only, which is the
        # block-diagonal part of the full matrix.
        sizes = (dim, patch) if local else (tokens * dim, window)
        starts = (1 / RANGE_START - 1, 0.0, RANGE_START, 0.0)
        self.hypernetwork = Hypernetwork(*sizes, starts=starts, start_scale=0.02)

    def forward(self, x: Tensor, latent: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        windows = x.unflatten(-1, (self.num_windows, -1))  # (B, V, 2 * window)
        tokens = self.embed(windows.unflatten(-1, (-1, 2 * self.patch)))  # (B, V, n, D)
        tokens, first = self._cross_window(tokens, aux=aux)
        tokens, second = self._with_latent(tokens, latent, aux=aux)
        gamma_m, gamma_p, alpha_m, alpha_p = (
            value.flatten(2) for value in self.hypernetwork(tokens if self.local else tokens.flatten(2))
        )  # each (B, V, window)
        out = modulate_complex(windows, (gamma_m, gamma_p), (alpha_m, alpha_p))
        return out.flatten(1), join_orthogonality(first, second)

    def _cross_window(self, tokens: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        """Every window but the first focuses on the one before it; both carry positions of one joint sequence."""
        n = tokens.shape[-2]
        previous = self.cross_norm(tokens[:, :-1] + self.positions[:n])
        current = self.cross_norm(tokens[:, 1:] + self.positions[n:])
        context, orthogonality = self.cross(current, previous, aux=aux)
        return torch.cat([tokens[:, :1], tokens[:, 1:] + context], dim=1), orthogonality

    def _with_latent(self, tokens: Tensor, latent: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        n = tokens.shape[-2]
        guide = self.latent(latent)[:, None, None].expand(-1, tokens.shape[1], -1, -1)  # (B, V, 1, D)
        joint = self.self_norm(torch.cat([guide, tokens], dim=2) + self.positions[: n + 1])
        # Only the sequence's own tokens are read back, so only they ask.
        context, orthogonality = self.self_focus(joint[:, :, 1:], joint, aux=aux)
        return tokens + context, orthogonality
