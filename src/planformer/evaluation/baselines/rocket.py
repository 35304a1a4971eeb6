"""Random-kernel features after MiniRocket (Dempster et al. 2021), written anew and kept small.

All 84 kernels of nine taps with three weights of 2 and six of -1, exponentially growing dilations; a feature is the
share of outputs above a bias (PPV). Biases are quantiles of the outputs on up to 16 unlabelled items.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from planformer.evaluation.featurisers import Features, SegmentFeatures, Segments, item_segments
from planformer.evaluation.tasks import TaskData

DILATIONS = (1, 4, 16, 64, 256)
BIASES = 2
KERNELS = np.array(
    [[2.0 if tap in chosen else -1.0 for tap in range(9)] for chosen in itertools.combinations(range(9), 3)], np.float32
)  # (84, 9)


class RandomKernels(SegmentFeatures):
    name = "rocket"
    title = "random kernels (MiniRocket style)"

    def __init__(self) -> None:
        super().__init__(None)
        self.biases: npt.NDArray[np.float32] | None = None  # (dilations, 84, BIASES)

    def prepare_formula(self, data: TaskData) -> None:
        rng = np.random.default_rng(84)
        rows = rng.permutation(len(data))[:16]
        levels = np.linspace(0, 1, BIASES + 2)[1:-1]
        collected = []
        for segments, analytic in item_segments(data.subset(rows), self.config):
            x = _rows(segments[:1, :1], analytic)[:1]
            quantiles = [np.quantile(_convolve(x, d)[0], levels, axis=1) for d in DILATIONS]
            collected.append(np.stack(quantiles).transpose(0, 2, 1))  # (dilations, 84, BIASES)
        self.biases = np.mean(collected, axis=0).astype(np.float32)

    def channel_features(self, segments: Segments, *, analytic: bool) -> Features:
        if self.biases is None:
            raise ValueError("prepare_formula has to see the data first: the biases are quantiles of it")
        channels = segments.shape[0]
        x = _rows(segments, analytic)
        shares = []
        for k, dilation in enumerate(DILATIONS):
            out = _convolve(x, dilation)  # (rows, 84, n)
            shares += [(out > self.biases[k, :, b, None]).mean(axis=2) for b in range(BIASES)]
        ppv = np.concatenate(shares, axis=1)  # (rows, 84 * dilations * BIASES)
        # Rows are (channel, part, segment): average over segments, keep I and Q of radio apart.
        parts = 1 if analytic else 2
        return ppv.reshape(channels, parts, -1, ppv.shape[1]).mean(axis=2).reshape(channels, -1).astype(np.float32)


def _rows(segments: Segments, analytic: bool) -> npt.NDArray[np.float32]:
    """Segments ``[channels, S, n]`` -> real rows ``[channels * parts * S, n]``."""
    parts = segments.real[:, None] if analytic else np.stack([segments.real, segments.imag], axis=1)
    return np.ascontiguousarray(parts.reshape(-1, segments.shape[2]), dtype=np.float32)


def _convolve(x: npt.NDArray[np.float32], dilation: int) -> npt.NDArray[np.float32]:
    """All kernels at one dilation, zero-padded: rows ``[r, n]`` -> ``[r, 84, n]``."""
    n = x.shape[1]
    padded = np.pad(x, ((0, 0), (4 * dilation, 4 * dilation)))
    shifts = np.stack([padded[:, k * dilation : k * dilation + n] for k in range(9)], axis=1)  # (r, 9, n)
    return np.asarray(KERNELS @ shifts)
