"""Sixty steps of the whole single-source objective on a handful of simulated emitters, with a narrow encoder.

What is measured is on sequences of the same emitters that were not trained on, in evaluation mode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from planformer.config import PlanFormerConfig
from planformer.data.augment import AugmentedBatch, augment
from planformer.data.collections import render
from planformer.data.simulator import plan
from planformer.iq import interleave
from planformer.losses.config import ObjectiveConfig
from planformer.losses.diagnostics import effective_rank
from planformer.losses.led import code_distances, code_errors
from planformer.losses.total import (
    DomainPair,
    NoiseInputs,
    SingleSourceInputs,
    SingleSourceObjective,
    SymmetryInputs,
    merge_aux,
)
from planformer.models.auxiliary import SymmetryNetworks
from planformer.models.encoder import Encoder

SEQUENCE, PER_EMITTER = 1280, 96  # a quarter of the usual window keeps the run short
COLLECTIONS = ("oracle", "powder", "commodity", "fm")
SNR = (10.0, 40.0)


def simulated(per_collection: int = 2) -> tuple[Tensor, Tensor]:
    """Unit-power sequences ``[emitter, PER_EMITTER, SEQUENCE]``, two emitters of each collection, and their labels."""
    sequences = []
    for collection in COLLECTIONS:
        chosen: dict[str, list[np.ndarray]] = {}
        for recording in plan([collection], 30_000_000, seed=0):
            parts = chosen.setdefault(recording.emitter.name, [])
            if len(chosen) > per_collection and recording.emitter.name == list(chosen)[-1]:
                chosen.pop(recording.emitter.name)
                continue
            if len(parts) < 2:
                x = render(recording, seed=0)[0][: PER_EMITTER // 2 * SEQUENCE]
                parts.append(x.reshape(-1, SEQUENCE))
            if len(chosen) == per_collection and all(len(p) == 2 for p in chosen.values()):
                break
        sequences += [np.concatenate(parts) for parts in chosen.values()]
    x = torch.from_numpy(np.stack([s[:PER_EMITTER] for s in sequences])).to(torch.complex64)
    return x / x.abs().square().mean(-1, keepdim=True).sqrt(), torch.arange(len(sequences))


@dataclass
class Sanity:
    """Figures before and after training."""

    led_error: float  # loss of the code predicted from the input difference
    mean_error: float  # the same for predicting the mean code
    rank: float  # effective rank of the embedding of held-out noisy sequences
    emitter_accuracy: float  # nearest class centre, noisy sequences, centres from the training half
    fisher: float  # between- over within-emitter variance of the embedding
    frequency_r2: float  # of the shift, read by ridge regression from the embedding's difference
    time_r2: float
    time_samples: float
    frequency_share: float


class Run:
    """Encoder, networks and objective; ``step`` trains, ``measure`` reports on held-out sequences."""

    def __init__(
        self,
        objective: ObjectiveConfig,
        *,
        seed: int = 0,
        statistics: str = "separate",
        dropout_prob: float = 0.25,
        lr: float = 1e-3,
    ) -> None:
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.encoder = Encoder(PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4, start="balanced"))
        self.networks = SymmetryNetworks(32, 256, num_heads=4, statistics=statistics, dropout_prob=dropout_prob)
        self.objective = SingleSourceObjective(objective)
        parameters = [*self.encoder.parameters(), *self.networks.parameters()]
        self.optimizer = torch.optim.Adam([p for p in parameters if p.requires_grad], lr=lr)
        data, self.emitters = simulated()
        order = torch.randperm(PER_EMITTER, generator=self.generator)
        self.train_data, self.test_data = data[:, order[: PER_EMITTER // 2]], data[:, order[PER_EMITTER // 2 :]]

    def draw(self, data: Tensor, per_emitter: int, generator: torch.Generator) -> tuple[Tensor, Tensor, AugmentedBatch]:
        pick = torch.randint(0, data.shape[1], (per_emitter,), generator=generator)
        x = data[:, pick].flatten(0, 1)  # (emitters per_emitter, SEQUENCE)
        return interleave(x), self.emitters.repeat_interleave(per_emitter), augment(x, generator, snr_range=SNR)

    def forward(
        self, clean: Tensor, labels: Tensor, batch: AugmentedBatch
    ) -> tuple[SymmetryInputs, SingleSourceInputs]:
        n = len(clean)
        out = self.encoder(torch.cat((clean, batch.noisy)), blindspot=torch.arange(2 * n) >= n)
        tokens = DomainPair(out.time_tokens[:n], out.frequency_tokens[:n])
        quiet = DomainPair(out.time_latent[:n], out.frequency_latent[:n])
        moved = DomainPair(out.time_latent[n:], out.frequency_latent[n:])
        symmetry, aux = self.networks(tokens, quiet, moved, batch.code, labels, pool=self.encoder.pool)
        noise = NoiseInputs(out.noise_power[n:], batch.noise_power)
        return symmetry, SingleSourceInputs(symmetry, noise, merge_aux(encoder=out.aux, latent=aux))

    def step(self, per_emitter: int = 4) -> dict[str, float]:
        self.encoder.train()
        self.networks.train()
        _, inputs = self.forward(*self.draw(self.train_data, per_emitter, self.generator))
        output = self.objective(inputs)
        self.optimizer.zero_grad()
        output.total.backward()
        self.optimizer.step()
        return {name: float(term) for name, term in output.raw.items()}

    @torch.no_grad()
    def measure(self) -> Sanity:
        self.encoder.eval()
        self.networks.eval()
        g = torch.Generator().manual_seed(99)
        parts = [self.forward(*self.draw(self.test_data, 6, g))[0] for _ in range(5)]
        seen = [self.forward(*self.draw(self.train_data, 6, g))[0] for _ in range(2)]
        join = lambda read: torch.cat([read(part) for part in parts])  # noqa: E731
        labels, code, predicted = join(lambda p: p.labels), join(lambda p: p.code), join(lambda p: p.predicted_input)
        embedding, clean = join(lambda p: p.augmented.joined()), join(lambda p: p.clean.joined())
        raw = [led_loss(self.objective, x, code) for x in (predicted, code.mean(0).expand_as(code))]
        errors = code_errors(predicted, code, SEQUENCE)
        accuracy, fisher = separation(
            torch.cat([p.augmented.joined() for p in seen]), torch.cat([p.labels for p in seen]), embedding, labels
        )
        change = embedding - clean
        return Sanity(
            led_error=raw[0],
            mean_error=raw[1],
            rank=effective_rank(embedding),
            emitter_accuracy=accuracy,
            fisher=fisher,
            frequency_r2=ridge_r2(change, code[:, 0]),
            time_r2=ridge_r2(change, code[:, 4]),
            time_samples=float(errors["time_samples"]),
            frequency_share=float(errors["frequency_rate_share"]),
        )


def led_loss(objective: SingleSourceObjective, prediction: Tensor, code: Tensor) -> float:
    """The code's loss in one number: mean Huber distance, linear parameters and phase."""
    linear, phase = code_distances(prediction, code, objective.config.focal)
    return float(linear.mean() + phase.mean())


def separation(train: Tensor, train_labels: Tensor, test: Tensor, labels: Tensor) -> tuple[float, float]:
    """Accuracy of the nearest class centre after whitening each dimension, and the Fisher ratio of the test rows."""
    mean, scale = train.mean(0), train.std(0) + 1e-9
    train, test = (train - mean) / scale, (test - mean) / scale
    centres = torch.stack([train[train_labels == c].mean(0) for c in train_labels.unique()])
    accuracy = float((torch.cdist(test, centres).argmin(1) == labels).float().mean())
    within = torch.stack([test[labels == c].var(0, correction=0) for c in labels.unique()]).mean(0).sum()
    return accuracy, float((test.var(0, correction=0).sum() - within) / within)


def ridge_r2(x: Tensor, y: Tensor, penalty: float = 1.0) -> float:
    """Five-fold R^2 of a ridge regression from standardised x."""
    x, y = x.double().numpy(), y.double().numpy()
    x = (x - x.mean(0)) / (x.std(0) + 1e-12)
    folds = np.arange(len(x)) % 5
    predicted = np.empty_like(y)
    for fold in range(5):
        a, b = x[folds != fold], y[folds != fold]
        weights = np.linalg.solve(a.T @ a + penalty * np.eye(a.shape[1]), a.T @ (b - b.mean()))
        predicted[folds == fold] = x[folds == fold] @ weights + b.mean()
    return float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())
