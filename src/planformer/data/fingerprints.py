"""Hardware fingerprints: what makes one transmitter differ from the next (paper, Appendix E.1).

A family (a product) has a centre for every parameter and a spread between its members; a radio's fingerprint is
drawn once from its *name*, so the same radio sends with the same hardware in every data set ever simulated.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planformer.data.seeding import generator


@dataclass(frozen=True)
class Fingerprint:
    """The hardware of one transmitter. The defaults are a perfect transmitter."""

    iq_gain_db: float = 0.0  # gain of the Q path over the I path
    iq_phase_deg: float = 0.0  # deviation of the two paths from quadrature
    leakage_dbc: float = -200.0  # local-oscillator leakage (DC offset before the mixer), relative to mean power
    leakage_phase_deg: float = 0.0
    oscillator_ppm: float = 0.0  # error of the reference: carrier *and* sampling clock derive from it
    drift_ppb_per_s: float = 0.0
    phase_noise_dbc_hz: float = -200.0  # plateau inside the synthesiser's loop bandwidth
    phase_noise_corner_hz: float = 1e5  # loop bandwidth: falls 20 dB a decade beyond
    phase_noise_floor_dbc_hz: float = -200.0
    compression_db: float = 0.0  # loss of amplifier gain at an instantaneous power 6 dB over the mean (AM/AM)
    compression_deg: float = 0.0  # its phase shift there (AM/PM)
    memory: float = 0.0  # share of the amplifier's operating point that follows the *past* envelope
    memory_ns: float = 200.0  # time constant of that past
    dac_bits: int = 0  # 0: no quantisation
    ripple_db: float = 0.0  # amplitude of the transmit filter's ripple over frequency
    ripple_ns: float = 200.0  # its echo delay: the ripple repeats every 1 / delay in frequency
    ripple_phase_deg: float = 0.0
    tilt_db_per_mhz: float = 0.0

    @property
    def image_rejection_db(self) -> float:
        """Power of the signal over the power of its IQ image.

        >>> round(Fingerprint(iq_gain_db=0.5, iq_phase_deg=2).image_rejection_db, 1)
        29.5
        """
        mu, nu = self.image_coefficients
        return float(20 * np.log10(abs(mu) / max(abs(nu), 1e-12)))

    @property
    def image_coefficients(self) -> tuple[complex, complex]:
        """(mu, nu) of ``mu x + nu conj(x)``: I is ideal, Q has the gain and phase error."""
        q = 10 ** (self.iq_gain_db / 20) * np.exp(1j * np.radians(self.iq_phase_deg))
        return complex((1 + q) / 2), complex((1 - q) / 2)

    def phase_noise_density(self, frequency: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Two-sided density of the phase in rad²/Hz: plateau with 1/f flicker below 1 kHz, 1/f² roll-off, floor."""
        f = np.abs(frequency)
        plateau = 10 ** (self.phase_noise_dbc_hz / 10) * (1 + 1e3 / np.maximum(f, 10.0))
        density: npt.NDArray[np.float64] = plateau / (1 + (f / self.phase_noise_corner_hz) ** 2)
        return density + 10 ** (self.phase_noise_floor_dbc_hz / 10)


@dataclass(frozen=True)
class Family:
    """Centre and member-to-member spread (half width of a uniform range) of every parameter of one product."""

    centre: Fingerprint
    spread: dict[str, float]


_X310_SPREAD = {
    "iq_gain_db": 0.35, "iq_phase_deg": 2.4, "leakage_dbc": 5.0, "leakage_phase_deg": 180.0, "oscillator_ppm": 1.0,
    "drift_ppb_per_s": 20.0, "phase_noise_dbc_hz": 4.0, "phase_noise_corner_hz": 3e4, "phase_noise_floor_dbc_hz": 3.0,
    "compression_db": 0.35, "compression_deg": 2.5, "memory": 0.2, "memory_ns": 120.0, "ripple_db": 0.3,
    "ripple_ns": 120.0, "ripple_phase_deg": 180.0, "tilt_db_per_mhz": 0.12,
}  # fmt: skip


def _spread(scale: float, **changes: float) -> dict[str, float]:
    """The X310's spread with the size of the errors scaled; phases and delays stay free."""
    free = {"leakage_phase_deg", "ripple_phase_deg", "memory_ns", "ripple_ns"}
    return {key: value if key in free else value * scale for key, value in _X310_SPREAD.items()} | changes


FAMILIES: dict[str, Family] = {
    "X310": Family(
        Fingerprint(0.05, 0.3, -40.0, 0.0, 0.1, 0.0, -97.0, 6e4, -138.0, 0.5, 2.0, 0.25, 250.0, 16, 0.4, 300.0),
        _X310_SPREAD,
    ),
    "X310-rooftop": Family(  # base stations drive an amplifier and a long feeder
        Fingerprint(0.1, 0.5, -38.0, 0.0, 0.2, 0.0, -95.0, 7e4, -136.0, 1.1, 4.0, 0.35, 400.0, 16, 1.2, 350.0),
        _spread(1.3, ripple_db=0.8, tilt_db_per_mhz=0.35),
    ),
    "B210": Family(
        Fingerprint(0.3, 1.5, -36.0, 0.0, 1.5, 0.0, -88.0, 1.2e5, -132.0, 0.8, 3.0, 0.25, 200.0, 12, 0.5, 250.0),
        _spread(0.5, oscillator_ppm=0.8),
    ),
    "HackRF": Family(
        Fingerprint(-0.8, 4.0, -26.0, 0.0, 12.0, 0.0, -80.0, 4e4, -122.0, 1.6, 6.0, 0.3, 300.0, 8, 1.0, 200.0),
        _spread(0.45, oscillator_ppm=3.0),
    ),
    "UBX160": Family(
        Fingerprint(-0.15, -0.8, -44.0, 0.0, -0.8, 0.0, -100.0, 5e4, -142.0, 0.4, -1.5, 0.2, 150.0, 16, 0.3, 300.0),
        _spread(0.4, oscillator_ppm=0.5),
    ),
    "PlutoSDR": Family(
        Fingerprint(0.5, -2.5, -31.0, 0.0, -11.0, 0.0, -84.0, 2e5, -127.0, 1.2, 5.0, 0.3, 250.0, 12, 0.8, 180.0),
        _spread(0.45, oscillator_ppm=3.0),
    ),
    "FM-transmitter": Family(  # exciter with a real modulator: no IQ image, good oscillator
        Fingerprint(0.0, 0.0, -70.0, 0.0, 0.0, 0.0, -108.0, 2e4, -140.0, 0.2, 1.0, 0.2, 4000.0, 16, 0.3, 4000.0),
        _spread(1.0, iq_gain_db=0.02, iq_phase_deg=0.1, memory_ns=2000.0, ripple_ns=2000.0, tilt_db_per_mhz=4.0),
    ),
}  # fmt: skip

_NOT_NEGATIVE = ("compression_db", "memory", "memory_ns", "ripple_db", "ripple_ns", "phase_noise_corner_hz")


def draw_fingerprint(name: str, family: str) -> Fingerprint:
    """The fixed hardware of the radio called ``name``, a member of ``family``.

    >>> draw_fingerprint("oracle-3123D7B", "X310") == draw_fingerprint("oracle-3123D7B", "X310")
    True
    """
    member = FAMILIES[family]
    rng = generator("fingerprint", family, name)
    values = dataclasses.asdict(member.centre)
    for key, half_width in member.spread.items():
        value = values[key] + half_width * rng.uniform(-1, 1)
        values[key] = float(max(value, 0.02 * half_width) if key in _NOT_NEGATIVE else value)
    return Fingerprint(**values)
