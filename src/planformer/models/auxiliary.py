"""The auxiliary networks of both domains around an encoder (paper, Appendix C, Algorithm "LED").

They turn encodings of a clean and an augmented batch into what the objectives read, and mixtures into sources.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from planformer.losses.inputs import DomainPair, SymmetryInputs
from planformer.models.equivariance import LatentEquivariantTransformer, PredictionHead, conditions_together
from planformer.models.projection import ProjectionHead, Statistics, project_together
from planformer.models.separation import LatentSeparationTransformer

Aux = dict[str, Tensor]
Pool = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _labelled(aux: Aux, name: str) -> Aux:
    return {key.replace("/", f"/{name}_", 1): value for key, value in aux.items()}


def _moved_and_change(clean: Tensor, augmented: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
    """One domain's (augmented, latent) rows ``[2 B, d]`` and their differences to clean: what its head projects."""
    moved = torch.cat((augmented, latent))
    return moved, moved - clean.repeat(2, 1)


class SymmetryNetworks(nn.Module):
    """Latent equivariant transformers, projection heads and the prediction head: 5,440,523 parameters.

    >>> networks = SymmetryNetworks(16, projection_dim=32, num_heads=4)
    >>> pair = lambda *shape: DomainPair(torch.randn(*shape), torch.randn(*shape))
    >>> mean = lambda time, frequency: (time.mean(1), frequency.mean(1))
    >>> code, labels = torch.rand(6, 5), torch.arange(6)
    >>> inputs, aux = networks(pair(6, 8, 16), pair(6, 16), pair(6, 16), code, labels, pool=mean)
    >>> inputs.projected_latent.time.shape
    torch.Size([6, 32])
    """

    def __init__(
        self,
        dim: int = 128,
        projection_dim: int = 1024,
        *,
        num_heads: int = 8,
        dropout_prob: float = 0.25,
        statistics: Statistics = "separate",
    ) -> None:
        super().__init__()
        self.time_transformer = LatentEquivariantTransformer(dim, domain="time", num_heads=num_heads)
        self.frequency_transformer = LatentEquivariantTransformer(dim, domain="frequency", num_heads=num_heads)
        self.time_projection = ProjectionHead(dim, projection_dim, dropout_prob=dropout_prob, statistics=statistics)
        self.frequency_projection = ProjectionHead(
            dim, projection_dim, dropout_prob=dropout_prob, statistics=statistics
        )
        self.prediction = PredictionHead(projection_dim)

    def forward(
        self,
        clean_tokens: DomainPair,
        clean: DomainPair,
        augmented: DomainPair,
        code: Tensor,
        labels: Tensor,
        *,
        pool: Pool,
    ) -> tuple[SymmetryInputs, Aux]:
        """Clean tokens ``[B, N, D]`` and latents ``[B, D]``, augmented latents, code -> the objectives' inputs.

        ``pool`` is the encoder's: tokens of both domains -> their fused latents.
        """
        latent, aux = self.move(clean_tokens, code, pool)
        (time, time_change), (frequency, frequency_change) = project_together(
            (self.time_projection, self.frequency_projection),
            (
                _moved_and_change(clean.time, augmented.time, latent.time),
                _moved_and_change(clean.frequency, augmented.frequency, latent.frequency),
            ),
        )
        predicted = self.prediction(time_change, frequency_change)  # (2 B, 5): augmented, then latent
        predicted_input, predicted_latent = predicted.chunk(2)
        augmented_time, latent_time = time.chunk(2)
        augmented_frequency, latent_frequency = frequency.chunk(2)
        inputs = SymmetryInputs(
            labels=labels,
            code=code,
            clean=clean,
            augmented=augmented,
            latent=latent,
            projected_augmented=DomainPair(augmented_time, augmented_frequency),
            projected_latent=DomainPair(latent_time, latent_frequency),
            predicted_input=predicted_input,
            predicted_latent=predicted_latent,
        )
        return inputs, aux

    def move(self, tokens: DomainPair, code: Tensor, pool: Pool) -> tuple[DomainPair, Aux]:
        """Latents of clean tokens after the transformation that the code describes."""
        conditions = conditions_together((self.time_transformer, self.frequency_transformer), code)
        time, time_aux = self.time_transformer.move(tokens.time, conditions[0])
        frequency, frequency_aux = self.frequency_transformer.move(tokens.frequency, conditions[1])
        aux = _labelled(time_aux, "time") | _labelled(frequency_aux, "frequency")
        return DomainPair(*pool(time, frequency)), aux


class SeparationNetworks(nn.Module):
    """One latent source separation transformer per domain: 17,207,814 parameters.

    >>> networks = SeparationNetworks(16, num_heads=4)
    >>> (a, b), aux = networks(DomainPair(torch.randn(3, 10, 16), torch.randn(3, 4, 16)))
    >>> a.frequency.shape
    torch.Size([3, 4, 16])
    """

    def __init__(self, dim: int = 128, *, num_heads: int = 8, dropout_prob: float = 0.25) -> None:
        super().__init__()
        self.time = LatentSeparationTransformer(dim, domain="time", num_heads=num_heads, dropout_prob=dropout_prob)
        self.frequency = LatentSeparationTransformer(
            dim, domain="frequency", num_heads=num_heads, dropout_prob=dropout_prob
        )

    def forward(self, mixture: DomainPair) -> tuple[tuple[DomainPair, DomainPair], Aux]:
        """Tokens of the mixture -> tokens of the dominant source and of the interferer."""
        time_a, time_b, time_aux = self.time(mixture.time)
        frequency_a, frequency_b, frequency_aux = self.frequency(mixture.frequency)
        aux = _labelled(time_aux, "time") | _labelled(frequency_aux, "frequency")
        return (DomainPair(time_a, frequency_a), DomainPair(time_b, frequency_b)), aux
