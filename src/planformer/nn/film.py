"""Attention-based dynamic FiLM (paper, Appendix B.3.2, eq. dynamic_film).

``alpha * tanh(gamma * x + x) + beta + x``: gamma per element of the sequence, alpha and beta per channel, all three
from the cross-focus of the latent (queries) on the features (keys, values).
"""

from __future__ import annotations

from torch import Tensor, nn

from planformer.nn.hypernetwork import modulate
from planformer.nn.multihead_focus import MultiHeadFocus, heads_for
from planformer.nn.paired import RMSNorm


class DynamicFiLM(nn.Module):
    """Modulate tokens ``[B, W, n, 2C]`` by a latent ``[B, Z]``.

    The latent is expanded into ``num_queries`` queries; each reads the whole window and writes gamma for its own
    stretch of ``n / num_queries`` tokens. (One query alone would have no column variance to focus by.)

    >>> import torch
    >>> film = DynamicFiLM(channels=4, length=16, latent_dim=8)
    >>> film(torch.zeros(2, 5, 16, 8), torch.zeros(2, 8), aux=False)[0].shape
    torch.Size([2, 5, 16, 8])
    """

    def __init__(
        self,
        channels: int,
        length: int,
        latent_dim: int,
        *,
        num_queries: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__()
        dim = 2 * channels
        self.num_queries = min(length, num_queries or length)
        if length % self.num_queries:
            raise ValueError(f"{self.num_queries} queries don't divide {length} tokens")
        self.expand: nn.Module = nn.Linear(latent_dim, self.num_queries * dim)
        if rank is not None and rank < latent_dim:
            low = nn.Linear(latent_dim, rank, bias=False)
            self.expand = nn.Sequential(low, nn.Linear(rank, self.num_queries * dim))
        self.norm = RMSNorm(dim)
        self.focus = MultiHeadFocus(dim, heads_for(dim), project_queries=False)
        self.gamma = nn.Linear(dim, length // self.num_queries * dim)
        self.alpha_beta = nn.Linear(dim, 2 * channels)
        for layer in (self.gamma, self.alpha_beta):  # near the identity, not on it: gamma's gradient needs an alpha
            nn.init.normal_(layer.weight, std=0.1 * dim**-0.5)
            nn.init.zeros_(layer.bias)

    def parameters_for(self, x: Tensor, latent: Tensor, *, aux: bool) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """gamma ``[B, W, n, D]``, alpha and beta ``[B, W, 1, D]``, and the heads' orthogonality."""
        queries = self.expand(latent).unflatten(-1, (1, self.num_queries, -1))  # (B, 1, m, D)
        read, orthogonality = self.focus(queries, self.norm(x), aux=aux)  # (B, W, m, D)
        gamma = self.gamma(read).unflatten(-1, (-1, x.shape[-1])).flatten(-3, -2)  # (B, W, m, n/m, D) -> (B, W, n, D)
        per_channel = self.alpha_beta(read.mean(dim=-2, keepdim=True))
        # One value per channel, used for both of its IQ components, which are neighbours in a token.
        alpha, beta = per_channel.repeat_interleave(2, dim=-1).chunk(2, dim=-1)
        return gamma, alpha, beta, orthogonality

    def forward(self, x: Tensor, latent: Tensor, *, aux: bool) -> tuple[Tensor, Tensor | None]:
        gamma, alpha, beta, orthogonality = self.parameters_for(x, latent, aux=aux)
        return x + modulate(x, gamma, alpha, beta), orthogonality
