"""Slow, obvious radio measurements that share no code with the simulator."""

from __future__ import annotations

import numpy as np
from scipy.signal import firwin2, resample_poly, welch


def occupied_bandwidth(x: np.ndarray, rate: float, share: float = 0.99) -> float:
    """Width in Hz that holds ``share`` of the power, the rest being split evenly on both sides."""
    f, p = welch(x, rate, nperseg=2048, return_onesided=False, detrend=False)
    f, p = np.fft.fftshift(f), np.fft.fftshift(p)
    total = np.cumsum(p) / p.sum()
    low, high = np.interp([(1 - share) / 2, (1 + share) / 2], total, f)
    return float(high - low)


def power_frequency(x: np.ndarray, rate: float, order: int) -> float:
    """Carrier offset from the line of x**order nearest to zero, refined by a parabola over the log spectrum."""
    size = 8 * len(x)
    spectrum = np.abs(np.fft.fft(x**order * np.hanning(len(x)), size))
    f = np.fft.fftfreq(size, 1 / rate)
    spectrum[np.abs(f) > order * 20e3] = 0
    k = int(np.argmax(spectrum))
    a, b, c = np.log(spectrum[[k - 1, k, (k + 1) % size]])
    return float((f[k] + 0.5 * (a - c) / (a - 2 * b + c) * rate / size) / order)


def nearest(symbols: np.ndarray, points: np.ndarray) -> np.ndarray:
    return points[np.argmin(np.abs(symbols[:, None] - points), axis=1)]


def demodulate(
    x: np.ndarray, rate: float, symbol_rate: float, points: np.ndarray, order: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """(equalised symbols, decisions, carrier offset in Hz) of a linear modulation with about 35 % roll-off.

    Resample to four samples a symbol, remove the carrier, filter, choose the best of four timings, then let a
    decision-directed least-squares equaliser (41 taps at four samples a symbol) remove what is linear.
    """
    ratio = (round(4 * symbol_rate / 1e4), round(rate / 1e4))
    y = resample_poly(x.astype(np.complex128), *ratio)
    # matched filter: root of a raised cosine between 0.325 and 0.675 of the symbol rate (of 4 samples a symbol)
    edges = np.linspace(0.325, 0.675, 20)
    gain = np.cos(np.pi / 2 * np.clip((edges - 0.325) / 0.35, 0, 1))
    taps = firwin2(129, [0, *(edges / 2), 1], [1, *gain, 0])
    y = np.convolve(y, taps, "same")
    offset = power_frequency(y, 4 * symbol_rate, order)
    y = y * np.exp(-2j * np.pi * offset * np.arange(len(y)) / (4 * symbol_rate))
    phase = int(np.argmax([np.mean(np.abs(y[k::4]) ** 2) for k in range(4)]))
    symbols = y[phase::4]
    symbols = symbols / np.sqrt(np.mean(np.abs(symbols) ** 2))
    rotation = np.angle(np.mean(symbols**order)) - np.angle(np.mean(points**order))
    symbols = symbols * np.exp(-1j * rotation / order)
    reach = 20
    starts = phase + 4 * np.arange(len(symbols))
    inside = (starts >= reach) & (starts < len(y) - reach)
    rows = y[starts[inside][:, None] + np.arange(-reach, reach + 1)]
    symbols = symbols[inside]
    for _ in range(4):
        decided = nearest(_track(symbols, points), points)
        weights = np.linalg.lstsq(rows, decided, rcond=None)[0]
        symbols = rows @ weights
    return symbols, nearest(symbols, points), offset


def _track(symbols: np.ndarray, points: np.ndarray, span: int = 64) -> np.ndarray:
    """Remove a slow rotation left over from the carrier estimate: decision-directed, averaged over ``span`` symbols."""
    angle, out = 0.0, symbols.copy()
    for start in range(0, len(symbols), span):
        part = symbols[start : start + span] * np.exp(-1j * angle)
        angle += float(np.angle(np.vdot(nearest(part, points), part)))
        out[start : start + span] = symbols[start : start + span] * np.exp(-1j * angle)
    return out


def image_rejection_db(symbols: np.ndarray, decided: np.ndarray) -> float:
    """Regress the symbols on the decisions and their conjugates; the ratio of the two coefficients' powers."""
    mu, nu, _ = np.linalg.lstsq(np.stack([decided, decided.conj(), np.ones_like(decided)], 1), symbols, rcond=None)[0]
    return float(20 * np.log10(abs(mu) / abs(nu)))


def error_vector_db(symbols: np.ndarray, decided: np.ndarray) -> float:
    return float(10 * np.log10(np.mean(np.abs(symbols - decided) ** 2) / np.mean(np.abs(decided) ** 2)))
