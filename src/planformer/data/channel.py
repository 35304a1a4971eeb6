"""What happens between transmitter and file: multipath with Doppler, interference, receiver, gain control.

All of it is drawn per recording (and per day), never per emitter, so that it carries no label.
Power delay profiles: the extended models of 3GPP TS 36.104 for outdoor links, exponential decay for indoor ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planformer.data.impairments import imbalance, rotate
from planformer.data.resampling import ComplexArray
from planformer.data.seeding import complex_normal

# name -> (delays in ns, powers in dB)
PROFILES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "pedestrian": ((0, 30, 70, 90, 110, 190, 410), (0, -1, -2, -3, -8, -17.2, -20.8)),
    "vehicular": ((0, 30, 150, 310, 370, 710, 1090, 1730, 2510), (0, -1.5, -1.4, -3.6, -0.6, -9.1, -7, -12, -16.9)),
    "urban": ((0, 50, 120, 200, 230, 500, 1600, 2300, 5000), (-1, -1, -1, 0, 0, 0, -3, -5, -7)),
}


@dataclass(frozen=True)
class Link:
    """The conditions of one recording."""

    profile: str = "wired"  # wired, indoor, or a key of PROFILES
    delay_spread_ns: float = 40.0  # indoor only
    direct_db: float = 10.0  # power of the direct path over the scattered ones (Rice factor)
    doppler_hz: float = 0.0
    snr_db: float = 300.0  # mean power while active over the receiver's noise in the native band
    interference: tuple[tuple[str, float, float, float], ...] = ()  # (kind, offset Hz, width Hz, level dBc)


@dataclass(frozen=True)
class Receiver:
    """The recording radio on one day: its own small errors, common to every emitter it hears."""

    offset_hz: float = 0.0
    iq_gain_db: float = 0.0
    iq_phase_deg: float = 0.0
    dc_dbfs: float = -200.0
    level_dbfs: float = -15.0
    gain_control: bool = False
    bandwidth: float = 1.0  # passband of the anti-alias filter, share of the native rate; 1: no filter


def propagate(x: ComplexArray, link: Link, rate: float, rng: np.random.Generator) -> ComplexArray:
    """Multipath: a direct path and scattered taps with Jakes fading; unit mean power gain.

    >>> from planformer.data.seeding import generator
    >>> propagate(np.ones(100, np.complex64), Link("indoor"), 5e6, generator(0)).shape
    (100,)
    """
    if link.profile == "wired":
        return x * np.complex64(np.exp(2j * np.pi * rng.random()))
    from scipy import fft

    delays, powers = _taps(link, rng)
    size = fft.next_fast_len(x.size + int(delays.max() * 1e-9 * rate) + 16)
    spectrum = fft.fft(x, size)
    turn = (-2j * np.pi * np.fft.fftfreq(size, 1 / rate) * 1e-9).astype(np.complex64)
    direct = 10 ** (link.direct_db / 10)
    gains = _fading(len(delays), x.size, link.doppler_hz, rate, rng)  # [taps, n or 1]
    gains *= np.sqrt(powers / (1 + direct)).astype(np.float32)[:, None]
    gains[0] += np.complex64(np.sqrt(direct / (1 + direct)) * np.exp(2j * np.pi * rng.random()))
    if link.doppler_hz == 0:  # one transfer function for the whole recording
        response = sum(gains[k] * np.exp(turn * np.float32(d)) for k, d in enumerate(delays))
        still: ComplexArray = fft.ifft(spectrum * response)[: x.size]
        return still
    out = np.zeros(x.size, np.complex64)
    for gain, delay in zip(gains, delays, strict=True):
        delayed = x if delay == 0 else fft.ifft(spectrum * np.exp(turn * np.float32(delay)))[: x.size]
        out += gain * delayed
    return out


def _taps(link: Link, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Delays in ns and powers summing to 1."""
    if link.profile == "indoor":
        delays = np.concatenate([[0.0], np.sort(rng.exponential(link.delay_spread_ns, 5))])
        powers = np.exp(-delays / link.delay_spread_ns) * rng.uniform(0.3, 1.0, 6)
    else:
        table = PROFILES[link.profile]
        delays = np.array(table[0], float) * rng.uniform(0.7, 1.3)
        powers = 10 ** (np.array(table[1]) / 10)
    return delays, powers / powers.sum()


def _fading(taps: int, n: int, doppler: float, rate: float, rng: np.random.Generator) -> ComplexArray:
    """Unit-power tap gains ``[taps, n]``: sixteen plane waves each, computed on a coarse grid and interpolated."""
    if doppler == 0:
        return complex_normal(rng, taps, 1)
    grid = np.linspace(0, n / rate, max(4, int(64 * doppler * n / rate)) + 2)
    waves = 16
    shifts = doppler * np.cos(2 * np.pi * rng.random((taps, waves)))
    start = 2 * np.pi * rng.random((taps, waves))
    coarse = np.exp(1j * (2 * np.pi * shifts[..., None] * grid + start[..., None])).sum(1) / np.sqrt(waves)
    t = np.arange(n) / rate
    return np.stack([np.interp(t, grid, row) for row in coarse]).astype(np.complex64)


def interfere(x: ComplexArray, link: Link, rate: float, rng: np.random.Generator) -> ComplexArray:
    """Add the link's interferers: a carrier, band-limited noise, or bursts of it."""
    for kind, offset, width, level_db in link.interference:
        amplitude = np.float32(10 ** (level_db / 20))
        if kind == "carrier":
            other = np.ones(x.size, np.complex64)
        else:
            other = _band_noise(x.size, width / rate, rng)
        if kind == "bursts":
            other *= _gate(x.size, rate, rng)
        x = x + amplitude * rotate(other, np.arange(x.size) * (offset / rate) + rng.random())
    return x


def _band_noise(n: int, width: float, rng: np.random.Generator) -> ComplexArray:
    """Unit-power Gaussian noise within +-width / 2 of the sample rate, made at a low rate and interpolated."""
    from scipy import fft

    size = fft.next_fast_len(n)
    spectrum = np.zeros(size, np.complex64)
    half = max(1, int(size * width / 2))
    spectrum[: half + 1] = complex_normal(rng, half + 1)
    spectrum[-half:] = complex_normal(rng, half)
    result: ComplexArray = fft.ifft(spectrum, overwrite_x=True)[:n] * np.float32(size / np.sqrt(2 * half + 1))
    return result


def _gate(n: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """On and off with exponential durations around 0.3 ms."""
    edges = np.cumsum(rng.exponential(3e-4 * rate, int(n / (3e-4 * rate) * 2) + 20)).astype(int)
    gate = np.zeros(n, np.float32)
    for on, off in zip(edges[::2], edges[1::2], strict=False):
        gate[on:off] = 1
    return gate


def receive(x: ComplexArray, receiver: Receiver, link: Link, rate: float, rng: np.random.Generator) -> ComplexArray:
    """Tune, add noise, filter, apply the receiver's errors and its gain; the result is in units of full scale."""
    if receiver.offset_hz:
        x = rotate(x, np.arange(x.size) * (-receiver.offset_hz / rate))
    if link.snr_db < 200:
        noise = complex_normal(rng, x.size)
        noise *= np.float32(10 ** (-link.snr_db / 20))
        x = x + noise
    if receiver.bandwidth < 1:
        x = _anti_alias(x, receiver.bandwidth)
    x = imbalance(x, receiver.iq_gain_db, receiver.iq_phase_deg)
    x = control_gain(x, receiver)
    return x + np.complex64(10 ** (receiver.dc_dbfs / 20) * np.exp(2j * np.pi * rng.random()))


def _anti_alias(x: ComplexArray, bandwidth: float) -> ComplexArray:
    from scipy import fft

    size = fft.next_fast_len(x.size)
    f = np.abs(np.fft.fftfreq(size)).astype(np.float32) * 2 / bandwidth
    spectrum = fft.fft(x, size)
    spectrum *= 1 / np.sqrt(1 + f**32)  # maximally flat, order 16
    result: ComplexArray = fft.ifft(spectrum, overwrite_x=True)[: x.size]
    return result


def control_gain(x: ComplexArray, receiver: Receiver, block: int = 1024) -> ComplexArray:
    """Bring the recording to the receiver's level; with gain control, follow the level of each block slowly."""
    from scipy.signal import lfilter

    power = x.real**2 + x.imag**2
    mean = float(np.mean(power)) + 1e-20
    level = np.float32(10 ** (receiver.level_dbfs / 20) / np.sqrt(mean))
    if not receiver.gain_control:
        return x * level
    blocks = power[: power.size // block * block].reshape(-1, block).mean(1) / mean
    smooth = lfilter([0.2], [1, -0.8], blocks - 1) + 1
    gain = np.clip(smooth, 0.1, 10) ** -0.5
    centres = (np.arange(gain.size) + 1) * block  # the loop acts after the block it has measured
    return x * (level * np.interp(np.arange(x.size), centres, gain).astype(np.float32))
