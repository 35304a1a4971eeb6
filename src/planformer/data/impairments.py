"""The transmitter: a clean waveform through the hardware that a fingerprint describes (paper, Appendix E.1).

Order as in a direct-conversion radio: DAC, reconstruction filter, IQ modulator with leakage, amplifier, and the
oscillator's offset, drift and phase noise. The sampling-clock error, which shares the oscillator, is applied by the
caller as a change of the sample rate (:func:`clock_rate`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planformer.data.fingerprints import Fingerprint
from planformer.data.resampling import ComplexArray

FULL_SCALE = 4.0  # the DAC clips 12 dB over the mean power


def transmit(
    x: ComplexArray,
    hardware: Fingerprint,
    rate: float,
    carrier: float,
    rng: np.random.Generator,
    warm_ppm: float = 0.0,
    oversample: int = 1,
) -> ComplexArray:
    """Send ``x`` (unit mean power while active) at ``rate`` on ``carrier`` Hz; returns the complex envelope.

    Signals that fill their band need ``oversample`` 2, or the amplifier's regrowth would fold back into the band.

    >>> from planformer.data.seeding import generator
    >>> transmit(np.ones(64, np.complex64), Fingerprint(), 5e6, 2.4e9, generator(0)).shape
    (64,)
    """
    x = quantise(x, hardware.dac_bits)
    n = x.size
    x = filter_ripple(x, hardware, rate, oversample)
    x = modulate_iq(x, hardware)
    x = amplify(x, hardware, rate * oversample)
    x = _decimate(x, n, oversample)
    return rotate(x, oscillator_phase(x.size, hardware, rate, carrier, rng, warm_ppm))


def clock_rate(rate: float, hardware: Fingerprint, warm_ppm: float = 0.0) -> float:
    """The rate at which the transmitter's clock really runs, in Hz of a perfect receiver."""
    return rate * (1 + 1e-6 * (hardware.oscillator_ppm + warm_ppm))


def quantise(x: ComplexArray, bits: int) -> ComplexArray:
    """Round I and Q to ``bits`` bits of full scale; 0 bits: unchanged."""
    if not bits:
        return x
    step = np.float32(2 * FULL_SCALE / 2**bits)
    parts = x.view(np.float32) / step
    np.rint(parts, out=parts)
    np.clip(parts, -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1, out=parts)
    parts *= step
    return parts.view(np.complex64)


def filter_response(hardware: Fingerprint, frequency: np.ndarray) -> np.ndarray:
    """The reconstruction filter's complex gain: an echo's ripple and a tilt."""
    angle = 2 * np.pi * frequency * hardware.ripple_ns * 1e-9 + np.radians(hardware.ripple_phase_deg)
    ripple = 10 ** (hardware.ripple_db / 20) - 1
    tilt = 10 ** (hardware.tilt_db_per_mhz * frequency * 1e-6 / 20)
    return (1 + ripple * np.exp(-1j * angle)) * tilt


def filter_ripple(x: ComplexArray, hardware: Fingerprint, rate: float, oversample: int = 1) -> ComplexArray:
    """Apply :func:`filter_response` in the frequency domain and interpolate to ``oversample`` times the rate."""
    if not hardware.ripple_db and not hardware.tilt_db_per_mhz and oversample == 1:
        return x
    from scipy import fft

    size = fft.next_fast_len(x.size + 64)  # padding: the echo of the end must not wrap to the start
    spectrum = fft.fft(x, size)
    spectrum *= filter_response(hardware, np.fft.fftfreq(size, 1 / rate)).astype(np.complex64)
    if oversample > 1:
        wide = np.zeros(size * oversample, np.complex64)
        wide[: size // 2] = spectrum[: size // 2]
        wide[size // 2 - size :] = spectrum[size // 2 :]
        spectrum = wide * np.float32(oversample)
    result: ComplexArray = fft.ifft(spectrum, overwrite_x=True)[: x.size * oversample]
    return result


def _decimate(x: ComplexArray, n: int, oversample: int) -> ComplexArray:
    """Back to ``n`` samples: cut the spectrum to the native band."""
    if oversample == 1:
        return x
    from scipy import fft

    size = fft.next_fast_len(n)
    spectrum = fft.fft(x, size * oversample)
    narrow = np.concatenate([spectrum[: size // 2], spectrum[size // 2 - size :]])
    result: ComplexArray = fft.ifft(narrow, overwrite_x=True)[:n] * np.float32(1 / oversample)
    return result


def modulate_iq(x: ComplexArray, hardware: Fingerprint) -> ComplexArray:
    """Gain and phase imbalance, and leakage of the local oscillator."""
    leakage = 10 ** (hardware.leakage_dbc / 20) * np.exp(1j * np.radians(hardware.leakage_phase_deg))
    y = imbalance(x, hardware.iq_gain_db, hardware.iq_phase_deg)
    y += np.complex64(leakage)
    return y


def imbalance(x: ComplexArray, gain_db: float, phase_deg: float) -> ComplexArray:
    """``mu x + nu conj(x)``: the Q path has a gain and a phase error against the I path."""
    mu, nu = Fingerprint(iq_gain_db=gain_db, iq_phase_deg=phase_deg).image_coefficients
    y: ComplexArray = x * np.complex64(mu)
    if nu != 0:
        y += np.conj(x) * np.complex64(nu)
    return y


def amplify(x: ComplexArray, hardware: Fingerprint, rate: float) -> ComplexArray:
    """Soft compression (AM/AM, AM/PM) whose operating point partly follows the past envelope."""
    if not hardware.compression_db and not hardware.compression_deg:
        return x
    from scipy.signal import lfilter

    power = (x.real**2 + x.imag**2).astype(np.float32)
    if hardware.memory:
        pole = np.float32(np.exp(-1e9 / (rate * max(hardware.memory_ns, 1.0))))
        past: Any = lfilter(np.array([1 - pole], np.float32), np.array([1, -pole], np.float32), power)
        power += np.float32(hardware.memory) * (past - power)
    drive = 2 * power / (4 + power)  # 1 at four times the mean power, saturating at 2
    peak = 10 ** (-hardware.compression_db / 20) * np.exp(1j * np.radians(hardware.compression_deg))
    result: ComplexArray = x * (1 + np.complex64(peak - 1) * drive)
    return result


def oscillator_phase(
    n: int, hardware: Fingerprint, rate: float, carrier: float, rng: np.random.Generator, warm_ppm: float = 0.0
) -> np.ndarray:
    """Phase in cycles: offset, linear drift and phase noise of the oscillator, float64 ``[n]``."""
    t = np.arange(n) / rate
    offset = 1e-6 * (hardware.oscillator_ppm + warm_ppm) * carrier
    phase = t * (offset + 0.5e-9 * hardware.drift_ppb_per_s * carrier * t)
    if hardware.phase_noise_dbc_hz > -190:
        phase += phase_noise(n, hardware, rate, rng) / (2 * np.pi)
    return phase


def phase_noise(n: int, hardware: Fingerprint, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Gaussian phase in rad with the density of :meth:`Fingerprint.phase_noise_density`, float32 ``[n]``."""
    from scipy import fft

    from planformer.data.seeding import complex_normal

    size = fft.next_fast_len(n, real=True)
    density = hardware.phase_noise_density(np.fft.rfftfreq(size, 1 / rate).astype(np.float64))
    density[0] = 0
    spectrum = complex_normal(rng, density.size)
    spectrum *= np.sqrt(density * size * rate).astype(np.float32)
    result: np.ndarray = fft.irfft(spectrum, size)[:n]
    return result


def rotate(x: ComplexArray, cycles: np.ndarray) -> ComplexArray:
    """Multiply by exp(2 pi i cycles), keeping float32 accuracy for any number of cycles.

    >>> rotate(np.ones(2, np.complex64), np.array([0.0, 1e6 + 0.5])).real.tolist()
    [1.0, -1.0]
    """
    angle = (2 * np.pi * (cycles - np.rint(cycles))).astype(np.float32)
    turn = np.empty(x.size, np.complex64)
    turn.real = np.cos(angle)
    turn.imag = np.sin(angle)
    turn *= x
    return turn
