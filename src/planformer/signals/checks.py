"""What makes samples unusable: NaN or infinity, values that overflow, nothing at all, or nothing but one value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError

# The square of the largest value, summed over any file, stays far below the largest float32 times a transform's gain.
MAX_MAGNITUDE = 1e30


class SampleCheck:
    """Looks at a signal block by block; :meth:`finish` says whether the whole was usable."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self._first: npt.NDArray[Any] | None = None
        self._constant: npt.NDArray[np.bool_] | None = None

    def block(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Check ``[channels, k]`` and return it as float32 or complex64."""
        if x.dtype.kind in "fc":
            self._check_values(x)
        y = x.astype(np.complex64 if np.iscomplexobj(x) else np.float32, copy=False)
        if y.shape[-1]:
            self._track_constant(y)
        self.count += y.shape[-1]
        return y

    def finish(self) -> list[int]:
        """Raise if nothing was seen or all channels are constant; return the numbers of the constant ones."""
        if not self.count or self._constant is None or self._first is None:
            raise InputError(f"{self.name}: there are no samples in it")
        if self._constant.all():
            value = "zero" if not np.any(self._first) else "one constant value"
            raise InputError(
                f"{self.name}: every sample is {value}, so there is nothing to look at; check the recording"
            )
        return [int(i) for i in np.flatnonzero(self._constant)]

    def _check_values(self, x: npt.NDArray[Any]) -> None:
        # Parts are viewed as real numbers: comparing magnitudes of complex values would overflow first.
        parts = np.ascontiguousarray(x).view(x.real.dtype)
        peak = max(abs(float(parts.max(initial=0))), abs(float(parts.min(initial=0)))) if parts.size else 0.0
        if peak <= MAX_MAGNITUDE:  # false for NaN
            return
        bad = int((~np.isfinite(x)).sum())
        if bad:
            index = self.count + int(np.flatnonzero(~np.isfinite(x).all(axis=0))[0])
            raise InputError(
                f"{self.name}: {bad} NaN or infinite samples, the first at sample {index}; clean the data first"
            )
        raise InputError(f"{self.name}: values up to {peak:.1e} are too large for single precision; rescale the data")

    def _track_constant(self, y: npt.NDArray[Any]) -> None:
        if self._first is None or self._constant is None:
            self._first, self._constant = y[:, :1].copy(), np.ones(y.shape[0], bool)
        if self._constant.any():
            self._constant &= (y == self._first).all(axis=1)
