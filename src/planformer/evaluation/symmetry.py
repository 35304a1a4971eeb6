"""How an embedding follows changes of its signal: the symmetries that pretraining asks for (Appendix C, equivariance).

For each change the *difference* of two embeddings, changed minus original, is mapped linearly to the parameter of the
change, on other signals than those it is tested on. R^2 near 1: the embedding moves predictably; near 0: it does not
show the change, or shows it differently for each signal. For noise the cosine to the clean embedding says how
invariant it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from planformer.evaluation import figures
from planformer.evaluation.report import Section
from planformer.evaluation.tables import Cell, Table

if TYPE_CHECKING:
    from planformer.models.planformer import PlanFormer

Segments = npt.NDArray[np.complex64]  # [n, 5120]
Floats = npt.NDArray[np.float64]
Embed = Callable[[Segments], npt.NDArray[np.floating]]

SNRS = (-10.0, -5.0, 0.0, 5.0, 10.0, 20.0)
MAX_SHIFT = 0.1  # cycles per sample, and share of the segment


@dataclass(frozen=True)
class Symmetry:
    """Held-out R^2 by change, and mean cosine to the clean embedding by SNR in dB."""

    r2: Mapping[str, float]
    cosine: Mapping[float, float]


def shift_frequency(x: Segments, amount: Floats) -> Segments:
    """Move each row's spectrum by ``amount`` cycles per sample."""
    return (x * np.exp(2j * np.pi * amount[:, None] * np.arange(x.shape[1]))).astype(np.complex64)


def shift_time(x: Segments, amount: Floats) -> Segments:
    """Delay each row circularly by a share ``amount`` of its length."""
    shifts = np.round(amount * x.shape[1]).astype(int)
    return np.stack([np.roll(row, shift) for row, shift in zip(x, shifts, strict=True)])


def rotate_phase(x: Segments, amount: Floats) -> Segments:
    """Turn each row by ``amount`` quarter turns, -1 to 1."""
    return (x * np.exp(0.5j * np.pi * amount[:, None])).astype(np.complex64)


def flip(x: Segments, amount: Floats) -> Segments:
    """Reverse the rows whose ``amount`` is positive in time."""
    return np.where(amount[:, None] > 0, x[:, ::-1], x)


def add_noise(x: Segments, snr_db: Floats, rng: np.random.Generator) -> Segments:
    """White complex noise at each row's SNR, then unit power again, as the encoder's input always has."""
    noise = (rng.standard_normal(x.shape) + 1j * rng.standard_normal(x.shape)) / np.sqrt(2)
    power = np.mean(np.abs(x) ** 2, axis=1, keepdims=True)
    noisy = x + noise * np.sqrt(power) * 10 ** (-snr_db[:, None] / 20)
    return (noisy / np.sqrt(np.mean(np.abs(noisy) ** 2, axis=1, keepdims=True))).astype(np.complex64)


CHANGES: dict[str, Callable[[Segments, Floats], Segments]] = {
    "frequency shift": shift_frequency,
    "time shift": shift_time,
    "phase": rotate_phase,
    "flip": flip,
}
SCALES = {"frequency shift": MAX_SHIFT, "time shift": MAX_SHIFT, "phase": 1.0, "flip": 1.0}


def measure(embed: Embed, signals: Segments, seed: int = 0) -> Symmetry:
    """R^2 and cosines of one embedding on ``signals`` [n, 5120] of unit power."""
    rng = np.random.default_rng(seed)
    clean = np.asarray(embed(signals), dtype=np.float64)
    r2 = {}
    for name, change in CHANGES.items():
        amount = rng.uniform(-SCALES[name], SCALES[name], len(signals))
        target = (amount > 0).astype(float) if name == "flip" else amount
        r2[name] = held_out_r2(np.asarray(embed(change(signals, amount)), np.float64) - clean, target)
    level = rng.uniform(-10, 20, len(signals))
    r2["noise"] = held_out_r2(np.asarray(embed(add_noise(signals, level, rng)), np.float64) - clean, level)
    centre = clean.mean(axis=0)
    cosine = {}
    for snr in SNRS:
        noisy = np.asarray(embed(add_noise(signals, np.full(len(signals), snr), rng)), np.float64)
        cosine[snr] = float(np.mean(_cosine(noisy - centre, clean - centre)))
    return Symmetry(r2, cosine)


def _cosine(a: Floats, b: Floats) -> Floats:
    return np.asarray((a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1) + 1e-12))


def held_out_r2(features: Floats, target: Floats, *, splits: int = 5, seed: int = 0) -> float:
    """R^2 of a ridge map on rows it was not fitted on; the penalty is chosen by leave-one-out on the others.

    >>> x = np.random.default_rng(0).standard_normal((60, 3))
    >>> held_out_r2(x, x @ np.array([1.0, -2.0, 0.5])) > 0.99
    True
    """
    order = np.random.default_rng(seed).permutation(len(target))
    predicted = np.empty(len(target))
    for test in np.array_split(order, splits):
        train = np.setdiff1d(order, test)
        predicted[test] = _ridge(features[train], target[train], features[test])
    residual = np.sum((target - predicted) ** 2)
    return float(1.0 - residual / np.sum((target - target.mean()) ** 2))


def _ridge(x: Floats, y: Floats, rows: Floats) -> Floats:
    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
    left, values, right = np.linalg.svd((x - mean) / scale, full_matrices=False)
    offset, projected = y.mean(), left.T @ (y - y.mean())
    best, weights = np.inf, np.zeros(x.shape[1])
    for penalty in 10.0 ** np.arange(-2, 6):
        shrink = values**2 / (values**2 + penalty)
        leverage = (left**2) @ shrink + 1.0 / len(y)
        error = np.mean(((y - offset - left @ (shrink * projected)) / np.maximum(1 - leverage, 1e-9)) ** 2)
        if error < best:
            best, weights = error, right.T @ (values / (values**2 + penalty) * projected)
    return np.asarray((rows - mean) / scale @ weights + offset)


def probe_signals(count: int = 120, seed: int = 1) -> Segments:
    """Half simulated radio, half synthesised sounds, one segment each, unit power."""
    from planformer.evaluation.demo import modulations, sounds
    from planformer.signals import prepare

    rows = []
    for task in (modulations(20, seed), sounds(max(10, count // 12), seed)):
        order = np.random.default_rng(seed).permutation(len(task.data))[: count // 2]
        rows += [prepare(task.data.signal(int(i)))[0, 0] for i in order]
    return np.stack(rows)


def symmetry_section(models: Mapping[str, PlanFormer], count: int = 120) -> Section:
    """The section of the report: table and plots, model beside random."""
    signals = probe_signals(count)
    found = {name: measure(_embedder(model), signals) for name, model in models.items()}
    changes = list(next(iter(found.values())).r2)
    rows = [[Cell(change), *[Cell(f"{s.r2[change]:.2f}") for s in found.values()]] for change in changes]
    rows += [[Cell(f"cosine at {snr:g} dB"), *[Cell(f"{s.cosine[snr]:.2f}") for s in found.values()]] for snr in SNRS]
    note = (
        "R² of a linear map from the embedding's change to the parameter, on held-out signals "
        f"({len(signals)}: simulated radio and synthesised sounds); cosine between noisy and clean embedding, "
        "the mean embedding removed."
    )
    bars = figures.bar_figure(
        {name: dict(s.r2) for name, s in found.items()}, title="Predictable change", y_label="held-out R²"
    )
    curves = {name: (list(s.cosine), list(s.cosine.values())) for name, s in found.items()}
    lines = figures.line_figure(curves, title="Invariance to noise", x_label="SNR, dB", y_label="cosine to clean")
    pictures = [("R² by change", bars), ("cosine by SNR", lines)]
    table = Table("Symmetries of the embedding", ["change", *found], rows, note)
    return Section("Symmetries of the embedding", pictures=pictures, table=table)


def _embedder(model: PlanFormer) -> Embed:
    return lambda segments: model.embed_segments(segments[:, None])  # (n, 1, 5120)
