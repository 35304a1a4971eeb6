"""Raw samples: a fixed random projection of the prepared samples to 256 numbers, averaged over segments.

A random projection keeps distances (Johnson-Lindenstrauss), so this is what a linear probe can do without any model.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from planformer.evaluation.featurisers import Features, SegmentFeatures, Segments

WIDTH = 256


class RawSamples(SegmentFeatures):
    name = "raw"
    title = "raw samples, random projection to 256"

    def channel_features(self, segments: Segments, *, analytic: bool) -> Features:
        mean = segments.mean(axis=1)  # (channels, 5120)
        # The imaginary part of an analytic signal is a fixed function of the real one: it says nothing new.
        values = mean.real if analytic else np.ascontiguousarray(mean).view(np.float32)
        return np.asarray(values @ projection(values.shape[1]), dtype=np.float32)


@functools.lru_cache(maxsize=4)
def projection(size: int) -> npt.NDArray[np.float32]:
    """The same ``[size, 256]`` Gaussian matrix every time."""
    rng = np.random.default_rng(256)
    return (rng.standard_normal((size, WIDTH)) / np.sqrt(size)).astype(np.float32)
