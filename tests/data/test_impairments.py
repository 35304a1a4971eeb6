"""Physics of the transmitter, measured from written recordings by code that shares nothing with the simulator."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from scipy.signal import welch

from planformer.data.channel import Link, Receiver
from planformer.data.collections import CARRIERS, Recording, render
from planformer.data.emitters import EMITTERS, HELD_OUT_RADIO
from planformer.data.fingerprints import FAMILIES, Fingerprint, draw_fingerprint
from planformer.data.impairments import amplify, clock_rate, phase_noise, quantise, rotate, transmit
from planformer.data.recordings import RecordingSet
from planformer.data.seeding import generator
from planformer.data.simulator import write_recordings
from planformer.data.waveforms.symbols import constellation
from reference.radio import demodulate, error_vector_db, image_rejection_db

RATE, SYMBOL_RATE = 7.69e6, 3.84e6
QPSK = constellation("QPSK")


def wired(hardware: Fingerprint, samples: int = 60_000, protocol: str = "QPSK", **link: float) -> np.ndarray:
    recording = Recording(HELD_OUT_RADIO, protocol, 2, 0, samples, held_out=True)
    return render(recording, 3, fingerprint=hardware, link=Link(**link), receiver=Receiver())[0]


def test_perfect_hardware_gives_a_clean_constellation() -> None:
    symbols, decided, offset = demodulate(wired(Fingerprint()), RATE, SYMBOL_RATE, QPSK, 4)
    assert error_vector_db(symbols, decided) < -38
    assert abs(offset) < 5
    assert len(np.unique(decided)) == 4


@pytest.mark.parametrize("name", ["8PSK", "16QAM", "64QAM"])
def test_equalised_recording_shows_the_right_points(name: str) -> None:
    points = constellation(name)
    order = 8 if name == "8PSK" else 4
    symbols, decided, _ = demodulate(wired(Fingerprint(), protocol=name, snr_db=35), RATE, SYMBOL_RATE, points, order)
    counts = [np.sum(decided == point) for point in points]
    assert min(counts) > 0.7 * len(decided) / len(points)
    assert error_vector_db(symbols, decided) < -30
    for point in points:  # each cluster sits on its point
        assert abs(np.mean(symbols[decided == point]) - point) < 0.02


@pytest.mark.parametrize(("gain", "phase"), [(0.4, 0.0), (0.0, 3.0), (-0.6, -2.0)])
def test_image_rejection_is_the_fingerprints(gain: float, phase: float) -> None:
    hardware = Fingerprint(iq_gain_db=gain, iq_phase_deg=phase, oscillator_ppm=0.8)
    symbols, decided, _ = demodulate(wired(hardware, snr_db=35), RATE, SYMBOL_RATE, QPSK, 4)
    assert image_rejection_db(symbols, decided) == pytest.approx(hardware.image_rejection_db, abs=0.5)


@pytest.mark.parametrize("ppm", [-2.0, 0.3, 1.1])
def test_carrier_offset_is_the_fingerprints(ppm: float) -> None:
    _, _, offset = demodulate(wired(Fingerprint(oscillator_ppm=ppm), snr_db=30), RATE, SYMBOL_RATE, QPSK, 4)
    assert offset == pytest.approx(ppm * 1e-6 * CARRIERS["modulation"], abs=5)


@pytest.mark.parametrize("snr", [15.0, 25.0])
def test_error_vector_follows_the_noise(snr: float) -> None:
    # the matched filter keeps the symbol rate of the native band's noise: a gain of 30.72 / 3.84 = 9 dB
    symbols, decided, _ = demodulate(wired(Fingerprint(), snr_db=snr), RATE, SYMBOL_RATE, QPSK, 4)
    assert error_vector_db(symbols, decided) == pytest.approx(-(snr + 10 * np.log10(8)), abs=0.6)


def test_error_vector_is_the_sum_of_image_phase_noise_and_noise() -> None:
    hardware = Fingerprint(iq_gain_db=0.3, iq_phase_deg=2.0, phase_noise_dbc_hz=-82, phase_noise_corner_hz=2e5)
    symbols, decided, _ = demodulate(wired(hardware, snr_db=28), RATE, SYMBOL_RATE, QPSK, 4)
    f = np.linspace(100.0, SYMBOL_RATE / 2, 100_000)
    wander = 2 * np.trapezoid(hardware.phase_noise_density(f), f)
    expected = 10 ** (-hardware.image_rejection_db / 10) + wander + 10 ** (-(28 + 10 * np.log10(8)) / 10)
    assert error_vector_db(symbols, decided) == pytest.approx(10 * np.log10(expected), abs=1.0)


def test_phase_noise_measured_from_a_recording_has_the_fingerprints_spectrum() -> None:
    hardware = Fingerprint(phase_noise_dbc_hz=-80, phase_noise_corner_hz=5e4, phase_noise_floor_dbc_hz=-125)
    symbols, decided, _ = demodulate(wired(hardware, 160_000), RATE, SYMBOL_RATE, QPSK, 4)
    f, density = welch(np.angle(symbols * decided.conj()), SYMBOL_RATE, nperseg=8192, return_onesided=True)
    for low, high in ((5e3, 2e4), (4e4, 6e4), (1.5e5, 2.5e5)):
        band = (f > low) & (f < high)
        measured = 10 * np.log10(np.mean(density[band]) / 2)  # one-sided to two-sided
        expected = 10 * np.log10(np.mean(hardware.phase_noise_density(f[band])))
        assert measured == pytest.approx(expected, abs=1.0)


def test_phase_noise_is_a_spectrum_not_a_random_walk() -> None:
    hardware = draw_fingerprint("any", "HackRF")
    phase = phase_noise(1 << 19, hardware, 10e6, generator(1))
    f, density = welch(phase, 10e6, nperseg=1 << 14)
    plateau = np.mean(density[(f > 4e3) & (f < 1e4)])
    closer = np.mean(density[(f > 600) & (f < 1500)])
    assert closer < 3 * plateau  # a random walk would rise a hundredfold


def test_full_emitter_agrees_with_its_metadata(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Everything at once, as written: drawn hardware, receiver and noise; compared with the stored fingerprint."""
    recordings = [Recording(HELD_OUT_RADIO, "QPSK", 2, k, 80_000, held_out=True) for k in range(8)]
    assert all(new for _, new in write_recordings(recordings, tmp_path, 5))
    checked = 0
    for file, path in zip(
        RecordingSet.from_folder(tmp_path).files, sorted(tmp_path.rglob("*.sigmf-meta")), strict=True
    ):
        header = json.loads(path.read_text())["global"]
        conditions = header["planformer:conditions"]
        if conditions["link"]["snr_db"] < 14:
            continue
        raw = np.fromfile(file.data, "<i2").astype(np.float32).view(np.complex64) / 32768
        symbols, decided, offset = demodulate(raw, RATE, SYMBOL_RATE, QPSK, 4)
        hardware = Fingerprint(**header["planformer:fingerprint"])
        ppm = hardware.oscillator_ppm + conditions["temperature_ppm"]
        expected = ppm * 1e-6 * CARRIERS["modulation"] - conditions["receiver"]["offset_hz"]
        assert offset == pytest.approx(expected, abs=25)
        assert image_rejection_db(symbols, decided) == pytest.approx(hardware.image_rejection_db, abs=3)
        checked += 1
    assert checked >= 2


def test_sampling_clock_follows_the_oscillator() -> None:
    hardware = Fingerprint(oscillator_ppm=20.0)
    assert clock_rate(10e6, hardware) == pytest.approx(10e6 + 200)
    # the same symbols on a fast clock end earlier: correlate the ends of two recordings that differ in the clock only
    slow, fast = wired(Fingerprint(), 400_000), wired(hardware, 400_000)
    cycles = -20e-6 * CARRIERS["modulation"] * np.arange(400_000) / RATE
    fast = rotate(fast, cycles)
    lag = []
    for part in (slice(2000, 12_000), slice(388_000, 398_000)):
        a, b = slow[part], fast[part]
        correlation = np.abs(np.fft.ifft(np.fft.fft(a, 8 * 10_000) * np.fft.fft(b, 8 * 10_000).conj()))
        k = int(np.argmax(correlation))
        lag.append(k if k < 40_000 else k - 80_000)
    assert lag[1] - lag[0] == pytest.approx(386_000 * 20e-6, abs=1.1)


def test_leakage_is_a_line_at_the_carrier() -> None:
    x = wired(Fingerprint(leakage_dbc=-25, oscillator_ppm=2.0), protocol="16QAM")
    line = np.mean(x * np.exp(-2j * np.pi * 2e-6 * CARRIERS["modulation"] * np.arange(x.size) / RATE))
    assert 20 * np.log10(abs(line) / np.sqrt(np.mean(np.abs(x) ** 2))) == pytest.approx(-25, abs=1.0)


def test_amplifier_compresses_and_turns_peaks() -> None:
    hardware = Fingerprint(compression_db=1.0, compression_deg=5.0)
    y = amplify(np.full(8, 2, np.complex64), hardware, 1e7)  # 6 dB over unit power
    assert 20 * np.log10(abs(y[0]) / 2) == pytest.approx(-1.0, abs=1e-3)
    assert np.degrees(np.angle(y[0])) == pytest.approx(5.0, abs=1e-3)
    small = amplify(np.full(8, 0.1, np.complex64), hardware, 1e7)
    assert abs(small[0]) == pytest.approx(0.1, rel=2e-3)


def test_amplifier_memory_remembers_the_past_envelope() -> None:
    hardware = Fingerprint(compression_db=1.0, compression_deg=0.0, memory=0.5, memory_ns=500.0)
    step = np.concatenate([np.full(50, 0.1), np.full(200, 2.0)]).astype(np.complex64)
    gain = np.abs(amplify(step, hardware, 10e6))[50:] / 2
    assert gain[0] > gain[5] > gain[100]  # compression builds up with the time constant
    assert 20 * np.log10(gain[-1]) == pytest.approx(-1.0, abs=0.01)


def test_oversampled_amplifier_does_not_fold_regrowth() -> None:
    """A signal filling 80 % of the band: third-order products beyond the band's edge must not come back."""
    rng = generator(2)
    n = 1 << 15
    spectrum = np.where(np.abs(np.fft.fftfreq(n)) < 0.4, np.exp(2j * np.pi * rng.random(n)), 0)
    x = (np.fft.ifft(spectrum) * np.sqrt(n / 0.8)).astype(np.complex64)
    hardware = Fingerprint(compression_db=2.0)
    outside = []
    for oversample in (1, 2):
        y = transmit(x, hardware, 5e6, 2.4e9, rng, oversample=oversample)[500:-500]
        f, p = welch(y, 1.0, nperseg=1024, return_onesided=False)
        outside.append(np.mean(p[np.abs(f) > 0.45]))
    assert outside[1] < 0.8 * outside[0]


@pytest.mark.parametrize("bits", [8, 12])
def test_quantisation_noise(bits: int) -> None:
    x = (generator(0).standard_normal(40_000) * 0.5).astype(np.complex64)
    noise = np.mean((quantise(x, bits) - x).real ** 2)
    assert noise == pytest.approx((8 / 2**bits) ** 2 / 12, rel=0.05)


def test_families_are_farther_apart_than_their_members() -> None:
    names = [field.name for field in dataclasses.fields(Fingerprint)]
    keys = [name for name in names if "phase_deg" not in name and "_ns" not in name]
    table = {
        emitter.name: np.array([getattr(emitter.fingerprint, key) for key in keys]) for emitter in EMITTERS["commodity"]
    }
    values = np.array(list(table.values()))
    scaled = (values - values.mean(0)) / (values.std(0) + 1e-9)
    distance = np.linalg.norm(scaled[:, None] - scaled[None], axis=-1)
    family = np.repeat(np.arange(4), 3)
    same = (family[:, None] == family) & ~np.eye(12, dtype=bool)
    np.fill_diagonal(distance, np.inf)
    assert np.array_equal(family[distance.argmin(1)], family)  # the most similar radio is of the same product
    assert distance[same].mean() < 0.5 * distance[family[:, None] != family].mean()


def test_fingerprints_belong_to_names() -> None:
    assert draw_fingerprint("a", "X310") == draw_fingerprint("a", "X310")
    assert draw_fingerprint("a", "X310") != draw_fingerprint("b", "X310")
    assert all(draw_fingerprint("a", family).memory >= 0 for family in FAMILIES)
