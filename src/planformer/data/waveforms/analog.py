"""Amplitude and frequency modulation of programme audio: SSB-AM, DSB-AM, broadcast FM with pilot and RDS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planformer.data.impairments import rotate
from planformer.data.resampling import ComplexArray
from planformer.data.seeding import generator
from planformer.data.waveforms.programme import AUDIO_RATE, STYLES, programme

PILOT_HZ = 19_000.0


@dataclass(frozen=True)
class Station:
    """How an FM station modulates: its format and the settings of its exciter."""

    style: str = "music"
    stereo: float = 0.7  # level of the difference signal
    pilot: float = 0.09  # share of the deviation
    rds: float = 0.04  # share of the deviation; 0: none
    deviation_hz: float = 75_000.0
    preemphasis_us: float = 50.0
    pilot_phase: float = 0.0  # phase of the 38 kHz subcarrier against the pilot, in cycles
    loudness: float = 0.5  # what the processor makes of the audio, RMS of full modulation
    auxiliary: float = 0.0  # share of a frequency-modulated subcarrier at 67 kHz (background music, paging)


def draw_station(name: str) -> Station:
    """The fixed settings of the station called ``name``."""
    rng = generator("station", name)
    return Station(
        style=STYLES[int(rng.integers(len(STYLES)))],
        stereo=float(rng.uniform(0.3, 1.0)),
        pilot=float(rng.uniform(0.075, 0.105)),
        rds=float(rng.choice([0.0, 0.03, 0.05])),
        deviation_hz=float(rng.uniform(62e3, 78e3)),
        preemphasis_us=float(rng.choice([50.0, 75.0])),
        pilot_phase=float(rng.uniform(-0.03, 0.03)),
        loudness=float(rng.uniform(0.12, 0.65)),
        auxiliary=float(rng.choice([0.0, 0.1])),
    )


def fm_waveform(rng: np.random.Generator, n: int, rate: float, station: Station, stretch: float = 1.0) -> ComplexArray:
    """Broadcast FM at ``rate``; ``stretch`` plays the whole broadcast that many times faster (and wider).

    >>> fm_waveform(generator(0), 2000, 200e3, Station()).shape
    (2000,)
    """
    import soxr

    work = min(rate, 192e3 * stretch)  # the composite signal is band-limited: build it no faster than needed
    count = int(np.ceil(n * work / rate)) + 8
    composite = _composite(rng, count, work / stretch, station)
    if work < rate:
        composite = soxr.resample(composite, work, rate, quality="MQ")
    phase = np.cumsum(composite[:n]) * (station.deviation_hz * stretch / rate)
    return rotate(np.ones(n, np.complex64), phase + rng.random())


def _composite(rng: np.random.Generator, n: int, rate: float, station: Station) -> np.ndarray:
    """Sum, pilot, difference on 38 kHz, RDS on 57 kHz; within +-1."""
    left = _audio_at(rng, n, rate, station.style, station.preemphasis_us)
    right = 0.6 * left + 0.4 * _audio_at(rng, n, rate, station.style, station.preemphasis_us)
    pilot = 2 * np.pi * (PILOT_HZ * np.arange(n) / rate + rng.random())
    share = 1 - station.pilot - station.rds - station.auxiliary
    left, right = (np.tanh(station.loudness / 0.28 * side) for side in (left, right))
    signal = share * (0.5 * (left + right))
    signal += share * station.stereo * 0.5 * (left - right) * np.sin(2 * pilot + 2 * np.pi * station.pilot_phase)
    signal += station.pilot * np.sin(pilot)
    if station.rds:
        bits = 2 * rng.integers(2, size=int(n / rate * 2375) + 3) - 1.0  # biphase symbols of 1187.5 bit/s
        smooth = np.interp(np.arange(n) / rate * 2375, np.arange(bits.size), bits)
        signal += station.rds * smooth * np.sin(3 * pilot)
    if station.auxiliary:
        deviation = np.cumsum(_audio_at(rng, n, rate, "music")) * (6_000 / rate)
        signal += station.auxiliary * np.sin(2 * np.pi * (67_000 * np.arange(n) / rate + deviation))
    return np.clip(signal, -1, 1)


def _audio_at(rng: np.random.Generator, n: int, rate: float, style: str, emphasis_us: float = 0.0) -> np.ndarray:
    """Programme audio interpolated to ``rate``, limited to 15 kHz, optionally pre-emphasised, within about +-1."""
    import soxr
    from scipy.signal import lfilter

    audio = programme(rng, int(np.ceil(n * AUDIO_RATE / rate)) + 64, style)
    if emphasis_us:
        pole = np.exp(-1 / (AUDIO_RATE * emphasis_us * 1e-6))
        audio = np.tanh(lfilter([1, -pole], [1 - pole], audio) * 0.6)
    samples: np.ndarray = soxr.resample(audio, AUDIO_RATE, rate, quality="MQ")
    if samples.size < n:  # the resampler may round down by one sample
        samples = np.pad(samples, (0, n - samples.size))
    return samples[:n]


def am_waveform(
    rng: np.random.Generator, n: int, rate: float, kind: str, stretch: float = 1.0, depth: float = 0.6
) -> ComplexArray:
    """``SSB-AM`` (upper or lower sideband, suppressed carrier) or ``DSB-AM`` (with carrier) of programme audio.

    >>> am_waveform(generator(0), 500, 200e3, "DSB-AM").dtype
    dtype('complex64')
    """
    from scipy.signal import hilbert

    work = min(rate, 96e3 * stretch)
    count = int(np.ceil(n * work / rate)) + 8
    audio = _audio_at(rng, count, work / stretch, STYLES[int(rng.integers(len(STYLES)))])
    if kind == "SSB-AM":
        baseband = hilbert(audio) if rng.random() < 0.5 else np.conj(hilbert(audio))
    else:
        baseband = 1 + 2 * depth * audio + 0j
    baseband /= np.sqrt(np.mean(np.abs(baseband) ** 2)) + 1e-9
    if work < rate:
        from planformer.data.resampling import resample

        baseband = resample(baseband.astype(np.complex64), work, rate)
    samples = np.zeros(n, np.complex64)
    samples[: min(n, baseband.size)] = baseband[:n]
    return samples
