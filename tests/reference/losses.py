"""The formulas of Appendix C as plain loops over numbers, slow and obvious, to compare the real losses with."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

Matrix = Sequence[Sequence[float]]


def huber(error: float, delta: float) -> float:
    size = abs(error)
    return 0.5 * error**2 if size <= delta else delta * (size - 0.5 * delta)


def distances(prediction: Matrix, target: Matrix, delta: float) -> list[float]:
    return [
        sum(huber(p - t, delta) for p, t in zip(row, wanted, strict=True)) / len(row)
        for row, wanted in zip(prediction, target, strict=True)
    ]


def focal_mean(values: Sequence[float], gamma: float = 2.0, floor: float = 0.1, eps: float = 1e-8) -> float:
    count = len(values)
    mean = sum(values) / count
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1)) if count > 1 else 0.0
    exponent = gamma * (1 + math.log(1 + deviation))
    return sum(max(floor, (v / (mean + eps)) ** exponent) * v for v in values) / count


def focal_huber(prediction: Matrix, target: Matrix, delta: float = 0.05) -> float:
    return focal_mean(distances(prediction, target, delta))


def wrapped(angle: float) -> float:
    return (angle + math.pi) % (2 * math.pi) - math.pi


def code_loss(prediction: Matrix, code: Matrix, delta: float = 0.05) -> float:
    """Four linear parameters together, the phase (index 1) on its own circle."""
    linear = [[row[i] for i in (0, 2, 3, 4)] for row in prediction]
    wanted = [[row[i] for i in (0, 2, 3, 4)] for row in code]
    phase = [[wrapped(2 * math.pi * (t[1] - p[1]))] for p, t in zip(prediction, code, strict=True)]
    return focal_huber(linear, wanted, delta) + focal_huber(phase, [[0.0]] * len(phase), delta)


def phase_loss(prediction: Matrix, target: Matrix, delta: float = 0.05) -> float:
    """Interleaved rows -> PhaseFocalHuber of the angles of their complex samples."""
    errors = []
    for row, wanted in zip(prediction, target, strict=True):
        pairs = zip(row[::2], row[1::2], wanted[::2], wanted[1::2], strict=True)
        errors.append([wrapped(math.atan2(d, c) - math.atan2(b, a)) for a, b, c, d in pairs])
    return focal_huber(errors, [[0.0] * len(e) for e in errors], delta)


def spectrum(row: Sequence[float]) -> list[float]:
    """Orthonormal DFT of an interleaved row by its definition, interleaved."""
    x = [complex(i, q) for i, q in zip(row[::2], row[1::2], strict=True)]
    n = len(x)
    bins = [sum(x[t] * cmath.exp(-2j * math.pi * k * t / n) for t in range(n)) / math.sqrt(n) for k in range(n)]
    return [part for b in bins for part in (b.real, b.imag)]


def z_scores(x: Matrix, eps: float) -> list[list[float]]:
    rows, columns = len(x), len(x[0])
    out = [[0.0] * columns for _ in range(rows)]
    for j in range(columns):
        mean = sum(x[i][j] for i in range(rows)) / rows
        variance = sum((x[i][j] - mean) ** 2 for i in range(rows)) / (rows - 1)
        for i in range(rows):
            out[i][j] = (x[i][j] - mean) / math.sqrt(variance + eps)
    return out


def squared_distance(a: Sequence[float], b: Sequence[float]) -> float:
    return sum((p - q) ** 2 for p, q in zip(a, b, strict=True))


def invariance(a: Matrix, b: Matrix, labels: Sequence[int], gamma: float, *, normalise: bool) -> float:
    """Z-scored branches; mean over emitters of the mean over i < j and i = j."""
    classes = sorted(set(labels))
    total = 0.0
    for c in classes:
        members = [i for i, label in enumerate(labels) if label == c]
        pairs = [*combinations(members, 2), *((i, i) for i in members)]
        values = []
        for i, j in pairs:
            d = squared_distance(a[i], b[j]) / (len(a[i]) if normalise else 1)
            values.append((1 - math.exp(-d)) ** gamma * d)
        total += sum(values) / len(values)
    return total / len(classes)


def repulsion(a: Matrix, b: Matrix, labels: Sequence[int], margin: float, gamma: float) -> float:
    values = []
    for i, first in enumerate(labels):
        for j, second in enumerate(labels):
            if first != second:
                violation = max(0.0, margin - squared_distance(a[i], b[j]) / len(a[i]))
                values.append((1 - math.exp(-violation)) ** gamma * violation)
    return math.log(1 + sum(values) / len(values)) if values else 0.0


def covariance(z: Matrix, gamma: float) -> float:
    rows, dim = len(z), len(z[0])
    total = 0.0
    for i, j in combinations(range(dim), 2):
        c = (sum(z[k][i] * z[k][j] for k in range(rows)) / (rows - 1)) ** 2
        total += (1 - math.exp(-c)) ** gamma * c
    return total / (dim * (dim - 1))


def pearson(a: Sequence[float], b: Sequence[float]) -> float:
    return float(np.corrcoef(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))[0, 1])


def head_orthogonality(attention: np.ndarray, eps: float = 1e-4) -> float:
    """[B, H, Lq, Lk]: mean absolute off-diagonal covariance of heads, plus the lack of deviation."""
    batch, heads, queries, _ = attention.shape
    off, diagonal = [], []
    for b in range(batch):
        for q in range(queries):
            centred = attention[b, :, q] - attention[b, :, q].mean(1, keepdims=True)
            similarity = np.abs(centred @ centred.T)
            diagonal += [max(0.0, 1 - math.sqrt(similarity[h, h] + eps)) for h in range(heads)]
            off += [similarity[h, g] if h != g else 0.0 for h in range(heads) for g in range(heads)]
    return sum(off) / len(off) + sum(diagonal) / len(diagonal)


def jensen_shannon(p: Sequence[float], q: Sequence[float]) -> float:
    def divergence(x: Sequence[float], m: Sequence[float]) -> float:
        return sum(a * math.log2(a / b) for a, b in zip(x, m, strict=True) if a > 0)

    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (divergence(p, middle) + divergence(q, middle)) / 2


def cosine_squared(a: Matrix, b: Matrix) -> float:
    values = []
    for first, second in zip(a, b, strict=True):
        dot = sum(p * q for p, q in zip(first, second, strict=True))
        values.append((dot / (math.hypot(*first) * math.hypot(*second))) ** 2)
    return sum(values) / len(values)


def log_snr_error(reconstructed: float, target: float, estimated: float, injected: float, floor: float) -> float:
    estimate = math.log(reconstructed + floor) - math.log(estimated + floor)
    truth = math.log(target + floor) - math.log(injected + floor)
    return (estimate - truth) ** 2
