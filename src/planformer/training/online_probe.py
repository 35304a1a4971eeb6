"""The online probe: a linear classifier of emitters on held-out radio sequences (paper, Appendix D, "Model Selection").

It sees the validation part of each recording only; half of it fits a ridge classifier on frozen embeddings, the other
half scores it. Closed form, so it costs one forward pass over a few hundred sequences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from planformer.data.augment import unit_power
from planformer.iq import interleave
from planformer.models.encoder import Encoder
from planformer.training.distributed import Processes, gather_rows
from planformer.training.stream import SequenceSet

FloatArray = npt.NDArray[np.float64]


@dataclass
class ProbeScore:
    """Accuracy over held-out sequences in percent, and how the embeddings fill their space."""

    accuracy: float
    effective_rank: float
    deviation: float


class OnlineProbe:
    """A fixed selection of held-out sequences, alike for every milestone and every run with the same data."""

    def __init__(self, data: SequenceSet, *, per_emitter: int = 16, seed: int = 0, batch_size: int = 32) -> None:
        labels = np.asarray(data.labels)
        rng = np.random.default_rng([seed, 77])
        fit: list[int] = []
        score: list[int] = []
        for label in np.unique(labels):
            chosen = rng.permutation(np.flatnonzero(labels == label))[: max(2, per_emitter)]
            half = (len(chosen) + 1) // 2
            fit.extend(chosen[:half].tolist())
            score.extend(chosen[half:].tolist())
        self.indices = np.asarray(fit + score, dtype=np.int64)
        self.num_fit = len(fit)
        self.labels = labels[self.indices]
        self.batch_size = batch_size
        # Held in memory once: a few hundred sequences are some 20 MB, and every milestone reads them again.
        self.inputs = interleave(unit_power(torch.from_numpy(data.sequences(self.indices))))

    @torch.no_grad()
    def embed(self, encoder: Encoder, processes: Processes | None = None) -> Tensor:
        """Embeddings ``[n, 256]``; with several processes each embeds its share."""
        processes = processes or Processes()
        mine = self.inputs[processes.rank :: processes.world]
        training = encoder.training
        encoder.eval()
        try:
            parts = [
                encoder(chunk.to(processes.device), return_aux=False).embedding for chunk in mine.split(self.batch_size)
            ]
        finally:
            encoder.train(training)
        return gather_rows(torch.cat(parts), len(self.inputs)).cpu()

    def score(self, embeddings: Tensor) -> ProbeScore:
        x = embeddings.double().numpy()
        deviation = float(x.std(0).mean())
        rank = effective_rank(x)
        fit, test = x[: self.num_fit], x[self.num_fit :]
        predicted = ridge_predict(fit, self.labels[: self.num_fit], test)
        accuracy = 100.0 * float((predicted == self.labels[self.num_fit :]).mean())
        return ProbeScore(accuracy, rank, deviation)


def ridge_predict(
    fit: FloatArray, labels: npt.NDArray[np.int64], test: FloatArray, strength: float = 1.0
) -> npt.NDArray[np.int64]:
    """One-against-all ridge regression on standardised features; ``strength`` in units of the number of samples / 100.

    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [0.1, 0.9], [0.9, 0.1]])
    >>> ridge_predict(x, np.array([0, 1, 0, 1]), x).tolist()
    [0, 1, 0, 1]
    """
    mean, deviation = fit.mean(0), fit.std(0) + 1e-9
    a, b = (fit - mean) / deviation, (test - mean) / deviation
    names = np.unique(labels)
    targets = (labels[:, None] == names[None]).astype(np.float64)
    targets -= targets.mean(0)
    gram = a.T @ a
    gram[np.diag_indices_from(gram)] += strength * len(a) / 100
    weights = np.linalg.solve(gram, a.T @ targets)
    return np.asarray(names[(b @ weights).argmax(1)])


def effective_rank(x: FloatArray) -> float:
    """exp(entropy) of the normalised eigenvalues of the covariance: how many directions carry the variance."""
    centred = x - x.mean(0)
    energy = np.linalg.svd(centred, compute_uv=False) ** 2
    total = energy.sum()
    if not np.isfinite(total) or total <= 0:
        return 0.0
    share = energy / total
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))
