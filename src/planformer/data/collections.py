"""The five collections: which emitter sends what, where and when, and the rendering of one recording.

A :class:`Recording` says everything about a file; :func:`render` turns it into samples at 7.69 MHz with generators
that depend on its name only (paper, Appendix E.1.1 to E.1.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from planformer.data.channel import Link, Receiver, interfere, propagate, receive
from planformer.data.emitters import Emitter
from planformer.data.fingerprints import Fingerprint
from planformer.data.impairments import clock_rate, rotate, transmit
from planformer.data.resampling import TARGET_RATE, ComplexArray, resample
from planformer.data.seeding import generator
from planformer.data.waveforms import analog, cellular, continuous_phase, linear, made_up, wifi

MODULATIONS = (*linear.LINEAR, "CPFSK", "GFSK", "SSB-AM", "DSB-AM", "B-FM")
MADE_UP = "made-up"  # the protocols of planformer.data.waveforms.made_up
NATIVE_RATES = {"oracle": 5e6, "powder": TARGET_RATE, "modulation": 30.72e6, "commodity": 10e6, "fm": 200e3}
CARRIERS = {"oracle": 2.45e9, "powder": 2.685e9, "modulation": 2.4e9, "commodity": 915e6, "fm": 98e6}
_EDGE = 256  # native samples rendered and dropped at both ends, where filters have their transients


@dataclass(frozen=True)
class Recording:
    """One file to be: its label, conditions and length in samples at 7.69 MHz."""

    emitter: Emitter
    protocol: str
    day: int
    index: int
    samples: int
    place: str = ""  # distance or session, a part of the file name
    held_out: bool = False  # evaluation: other seeds, one set of parameters a recording

    @property
    def name(self) -> str:
        """File stem, unique within a data set."""
        parts = [self.emitter.name, self.protocol, f"day{self.day}", self.place, f"{self.index:04d}"]
        return "_".join(part for part in parts if part)

    @property
    def native_rate(self) -> float:
        """Rate in Hz at which the original recording was made."""
        if self.emitter.setting == "powder" and self.protocol == "WiFi":
            return 5e6
        return NATIVE_RATES[self.emitter.setting]


@dataclass(frozen=True)
class Conditions:
    """What a recording went through besides the emitter's hardware; stored in its metadata."""

    link: Link
    receiver: Receiver
    temperature_ppm: float  # the day's addition to the emitter's oscillator error


def render(
    recording: Recording,
    seed: int,
    *,
    fingerprint: Fingerprint | None = None,
    link: Link | None = None,
    receiver: Receiver | None = None,
) -> tuple[ComplexArray, Conditions]:
    """Samples at 7.69 MHz in units of full scale, and the conditions they were recorded under.

    Hardware, link and receiver are drawn from the recording's name unless given (tests give ideal ones).

    >>> from planformer.data.emitters import EMITTERS
    >>> x, conditions = render(Recording(EMITTERS["fm"][0], "FM", 1, 0, 5120), seed=0)
    >>> x.shape
    (5120,)
    """
    rng = generator(seed, recording.emitter.setting, recording.name)
    collection, rate = recording.emitter.setting, recording.native_rate
    hardware = recording.emitter.fingerprint if fingerprint is None else fingerprint
    warm = 0.0 if fingerprint is not None else _temperature_ppm(recording, seed)
    link = draw_link(recording, rng) if link is None else link
    receiver = draw_receiver(recording, seed, rng) if receiver is None else receiver
    true_rate = clock_rate(rate, hardware, warm)
    native = int(np.ceil(recording.samples * true_rate / TARGET_RATE)) + 2 * _EDGE
    x = _WAVEFORMS[collection](recording, rng, native)
    x = transmit(x, hardware, rate, CARRIERS[collection], rng, warm, oversample=2 if _fills_band(recording) else 1)
    x = propagate(x, link, rate, rng)
    x = interfere(x, link, rate, rng)
    x = receive(x, receiver, link, rate, rng)
    x = resample(x, true_rate)
    start = (x.size - recording.samples) // 2
    return x[start : start + recording.samples], Conditions(link, receiver, warm)


def _fills_band(recording: Recording) -> bool:
    """OFDM uses most of its native band; the other collections are oversampled already or of constant envelope."""
    return recording.emitter.setting in ("oracle", "powder")


def _temperature_ppm(recording: Recording, seed: int) -> float:
    """Oscillators wander with the day's temperature: 0.2 ppm, other for each emitter and day."""
    return float(0.2 * generator(seed, "temperature", recording.emitter.name, recording.day).standard_normal())


def draw_receiver(recording: Recording, seed: int, rng: np.random.Generator) -> Receiver:
    """One radio a collection and day; level and gain control change with every recording."""
    collection = recording.emitter.setting
    day = generator(seed, "receiver", collection, recording.day, recording.held_out)
    return Receiver(
        offset_hz=float(CARRIERS[collection] * 1e-6 * (day.uniform(-1, 1) + rng.uniform(-0.6, 0.6))),
        iq_gain_db=float(day.uniform(-0.1, 0.1)),
        iq_phase_deg=float(day.uniform(-0.5, 0.5)),
        dc_dbfs=float(rng.uniform(-70, -45)),
        level_dbfs=float(rng.uniform(-24, -13)),
        gain_control=bool(rng.random() < 0.4),
        bandwidth=float(day.uniform(0.9, 0.96)),
    )


def draw_link(recording: Recording, rng: np.random.Generator) -> Link:
    """Channel, noise and interference of one recording, by the surroundings of its collection."""
    collection, rate = recording.emitter.setting, recording.native_rate
    interference = _draw_interference(rng, rate) if rng.random() < 0.35 else ()
    if collection == "modulation":
        low = 0.0 if recording.held_out else 12.0
        return Link("wired", snr_db=float(rng.uniform(low, low + 30)))
    if collection in ("oracle", "commodity"):
        feet = float(recording.place.removesuffix("ft") or 20)
        return Link(
            "indoor",
            delay_spread_ns=float(rng.uniform(15, 70)),
            direct_db=float(rng.uniform(2, 14)),
            doppler_hz=float(rng.choice([0.0, rng.uniform(1, 15)])),
            snr_db=float(rng.uniform(28, 42) - 20 * np.log10(feet / 14) * 0.8),
            interference=interference,
        )
    profile = str(rng.choice(["pedestrian", "vehicular", "urban"], p=[0.5, 0.35, 0.15]))
    if collection == "fm":
        return Link(profile, 0.0, float(rng.uniform(3, 15)), float(rng.uniform(0, 10)), float(rng.uniform(12, 45)),
                    interference)  # fmt: skip
    # rooftop to a fixed receiver: mostly in sight
    return Link(profile, 0.0, float(rng.uniform(6, 18)), float(rng.choice([0.0, rng.uniform(2, 90)])),
                float(rng.uniform(12, 32)), interference)  # fmt: skip


def _draw_interference(rng: np.random.Generator, rate: float) -> tuple[tuple[str, float, float, float], ...]:
    """One or two neighbours: carriers, noise-like channels at the band's edge, bursts."""
    result = []
    for _ in range(int(rng.integers(1, 3))):
        kind = str(rng.choice(["carrier", "channel", "bursts"]))
        width = float(rate * 10 ** rng.uniform(-2.5, -0.7))
        offset = float(rate * rng.choice([-1, 1]) * rng.uniform(0.2, 0.45))
        result.append((kind, offset, width, float(rng.uniform(-35, -8))))
    return tuple(result)


def _modulation_waveform(recording: Recording, rng: np.random.Generator, n: int) -> ComplexArray:
    """Blocks of one modulation, each with its own symbol rate, pulse and level; held out: one block."""
    if recording.held_out:
        return modulated(rng, n, recording.protocol, samples_per_symbol=8)
    parts, left = [], n
    while left > 0:
        count = min(left, int(rng.integers(60_000, 200_000)))
        usual = rng.random() < 0.4  # the paper's 8 samples per symbol, and slower ones
        speed = 8 if usual else round(8 * 2 ** rng.uniform(0, 4.5))
        block = modulated(rng, count, recording.protocol, samples_per_symbol=speed)
        if rng.random() < 0.3:
            block = _keyed(rng, block, speed)
        if not usual and rng.random() < 0.6:  # anywhere in the band that will be kept
            room = 0.45 * TARGET_RATE - 0.75 * NATIVE_RATES["modulation"] / speed
            block = rotate(block, np.arange(count) * (rng.uniform(-1, 1) * max(room, 0) / NATIVE_RATES["modulation"]))
        parts.append(block * np.float32(10 ** (rng.uniform(-6, 0) / 20)))
        left -= count
    x = np.concatenate(parts)
    x *= np.float32(1 / np.sqrt(np.mean(np.abs(x) ** 2)))
    return x


def _keyed(rng: np.random.Generator, x: ComplexArray, samples_per_symbol: int) -> ComplexArray:
    """Bursts and silence: on and off with ramps of two symbols, burst lengths from 20 to 400 symbols."""
    gate = np.zeros(x.size, np.float32)
    position = int(rng.integers(40 * samples_per_symbol))
    while position < x.size:
        length = int(10 ** rng.uniform(1.3, 2.6) * samples_per_symbol)
        gate[position : position + length] = 1
        position += length + int(10 ** rng.uniform(0.8, 2.3) * samples_per_symbol)
    ramp = 2 * samples_per_symbol
    smooth = np.cumsum(np.concatenate([gate[:1].repeat(ramp), gate]))
    result: ComplexArray = x * ((smooth[ramp:] - smooth[:-ramp]) / ramp).astype(np.float32)
    return result


def modulated(rng: np.random.Generator, n: int, name: str, samples_per_symbol: int) -> ComplexArray:
    """``n`` samples at 30.72 MHz of one of the eleven modulations, other parameters random.

    >>> modulated(generator(0), 1000, "GFSK", 8).shape
    (1000,)
    """
    if name in linear.LINEAR:
        return linear.linear_waveform(rng, n, name, samples_per_symbol, float(rng.uniform(0.2, 0.5)))
    if name == "CPFSK":
        return continuous_phase.cpm_waveform(rng, n, samples_per_symbol, index=float(rng.uniform(0.45, 0.9)))
    if name == "GFSK":
        return continuous_phase.cpm_waveform(
            rng,
            n,
            samples_per_symbol,
            index=float(rng.uniform(0.3, 0.7)),
            pulse="gaussian",
            product=float(rng.uniform(0.3, 0.5)),
        )
    # audio is played faster, so that its bandwidth is to the band what the digital signals' is
    stretch = 160.0 / samples_per_symbol * float(rng.uniform(0.5, 1.5))
    rate = NATIVE_RATES["modulation"]
    if name == "B-FM":
        return analog.fm_waveform(rng, n, rate, analog.draw_station(str(rng.integers(1000))), stretch)
    return analog.am_waveform(rng, n, rate, name, 4 * stretch, depth=float(rng.uniform(0.3, 0.9)))


def _commodity_waveform(recording: Recording, rng: np.random.Generator, n: int) -> ComplexArray:
    """Narrow-band CPM, 10 to 15 kHz wide, at a small tuning offset."""
    width = float(rng.uniform(10e3, 15e3))
    pulse = str(rng.choice(["raised cosine", "gaussian"]))
    return continuous_phase.cpm_waveform(
        rng,
        n,
        NATIVE_RATES["commodity"] / (width / 1.25),
        index=float(rng.uniform(0.4, 0.6)),
        pulse=pulse,
        levels=int(rng.choice([2, 4], p=[0.8, 0.2])),
    )


def _powder_waveform(recording: Recording, rng: np.random.Generator, n: int) -> ComplexArray:
    senders = {
        "WiFi": wifi.wifi_waveform,
        "4G": cellular.lte_waveform,
        "5G": cellular.nr_waveform,
        MADE_UP: made_up.made_up_waveform,
    }
    return senders[recording.protocol](rng, n)


def _oracle_waveform(recording: Recording, rng: np.random.Generator, n: int) -> ComplexArray:
    return wifi.oracle_waveform(rng, n)


def _fm_waveform(recording: Recording, rng: np.random.Generator, n: int) -> ComplexArray:
    return analog.fm_waveform(rng, n, recording.native_rate, analog.draw_station(recording.emitter.name))


_WAVEFORMS: dict[str, Callable[[Recording, np.random.Generator, int], ComplexArray]] = {
    "oracle": _oracle_waveform,
    "powder": _powder_waveform,
    "modulation": _modulation_waveform,
    "commodity": _commodity_waveform,
    "fm": _fm_waveform,
}
