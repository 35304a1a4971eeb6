"""Band-limited resampling of real or complex sequences (paper, section 4 "Preprocessing": to 5,120 points).

Two tools: :func:`resample_length` changes the number of points (FFT, exact for periodic band-limited input);
:func:`resample_rate` changes the sample rate of a recording (polyphase filter, no wrap-around).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft as sp_fft

from planformer.errors import InputError
from planformer.signals.analytic import one_sided

# The polyphase filter has about 20 max(up, down) taps; ratios with larger terms than this are approximated.
MAX_RATIO_TERM = 10_000


def resample_length(x: npt.NDArray[Any], num: int) -> npt.NDArray[np.complex64]:
    """Resample complex (or real) ``[..., n]`` to ``[..., num]`` by cutting or zero-filling its two-sided spectrum.

    >>> import numpy as np
    >>> tone = np.exp(2j * np.pi * 3 * np.arange(100) / 100)
    >>> y = resample_length(tone, 250)
    >>> bool(np.allclose(y, np.exp(2j * np.pi * 3 * np.arange(250) / 250), atol=1e-5))
    True
    """
    n = x.shape[-1]
    z = np.asarray(x, dtype=np.complex64)
    if n == num:
        return z.copy()
    spectrum = sp_fft.fft(z, axis=-1)
    keep = min(n, num)
    positive, negative = (keep + 1) // 2, keep // 2
    out = np.zeros((*x.shape[:-1], num), np.complex64)
    out[..., :positive] = spectrum[..., :positive]
    if negative:
        out[..., num - negative :] = spectrum[..., n - negative :]
    if keep % 2 == 0:  # the bin at half the lower rate belongs to both signs: share it, so that real stays real
        share = _nyquist_pair(spectrum, n, keep, downsampling=num < n)
        out[..., keep // 2] = share[0]
        if num > n:
            out[..., num - keep // 2] = share[1]
    return (sp_fft.ifft(out, axis=-1, overwrite_x=True) * np.float32(num / n)).astype(np.complex64, copy=False)


def _nyquist_pair(
    spectrum: npt.NDArray[Any], n: int, keep: int, *, downsampling: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    half = keep // 2
    if downsampling:
        both = spectrum[..., half] + spectrum[..., n - half]
        return both, both
    shared = spectrum[..., half] / 2
    return shared, shared


def analytic_resample(x: npt.NDArray[Any], num: int) -> npt.NDArray[np.complex64]:
    """Real ``[..., n]`` -> analytic signal at ``num`` points in one pass: one real FFT forward, one complex back.

    Equals ``resample_length(analytic(x), num)`` but for the bin at half the lower rate, at less than half of the cost.
    """
    n = x.shape[-1]
    spectrum = one_sided(sp_fft.rfft(np.asarray(x, dtype=np.float32), axis=-1), n)
    full = np.zeros((*x.shape[:-1], num), np.complex64)
    keep = min(spectrum.shape[-1], (num + 1) // 2)
    np.multiply(spectrum[..., :keep], np.float32(num / n), out=full[..., :keep])
    return sp_fft.ifft(full, axis=-1, overwrite_x=True).astype(np.complex64, copy=False)


def resample_rate(x: npt.NDArray[Any], rate: float, new_rate: float) -> npt.NDArray[np.complex64]:
    """Resample ``[..., n]`` from ``rate`` to ``new_rate`` Hz with a polyphase low-pass filter.

    >>> import numpy as np
    >>> resample_rate(np.ones(441, np.complex64), 44100, 16000).shape
    (160,)
    """
    from scipy.signal import resample_poly

    for name, value in (("rate", rate), ("new rate", new_rate)):
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} {value} Hz: a sample rate must be a positive number")
    ratio = Fraction(new_rate / rate).limit_denominator(MAX_RATIO_TERM)
    z = np.asarray(x, dtype=np.complex64)
    if ratio == 1:
        return z.copy()
    if not ratio:
        raise InputError(f"new rate {new_rate} Hz is more than {MAX_RATIO_TERM} times below {rate} Hz")
    return resample_poly(z, ratio.numerator, ratio.denominator, axis=-1).astype(np.complex64, copy=False)
