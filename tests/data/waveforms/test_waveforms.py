"""Occupied bandwidth, envelope and structure of every waveform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import welch

from planformer.data.channel import Link, Receiver
from planformer.data.collections import MODULATIONS, Recording, render
from planformer.data.emitters import EMITTERS, HELD_OUT_RADIO, Emitter
from planformer.data.fingerprints import Fingerprint
from planformer.data.seeding import generator
from planformer.data.waveforms import analog, cellular, continuous_phase, linear, made_up, wifi
from planformer.data.waveforms.programme import STYLES, programme
from planformer.data.waveforms.symbols import constellation
from reference.radio import occupied_bandwidth

RATE = 7.69e6


def recorded(emitter: Emitter, protocol: str, samples: int = 80_000) -> np.ndarray:
    """The waveform alone, through the whole path of a recording."""
    recording = Recording(emitter, protocol, 2, 0, samples, held_out=True)
    return render(recording, 1, fingerprint=Fingerprint(), link=Link(), receiver=Receiver())[0]


@pytest.mark.parametrize("name", linear.LINEAR)
def test_linear_modulations_occupy_the_symbol_rate_and_their_rolloff(name: str) -> None:
    width = occupied_bandwidth(recorded(HELD_OUT_RADIO, name), RATE)
    assert 0.98 * 3.84e6 < width < 1.35 * 3.84e6  # 99 % lies inside (1 + rolloff) times the symbol rate


def test_frequency_modulations_occupy_what_their_index_says() -> None:
    rng, sps = generator(0), 40
    msk = continuous_phase.cpm_waveform(rng, 200_000, sps, index=0.5)
    gmsk = continuous_phase.cpm_waveform(rng, 200_000, sps, index=0.5, pulse="gaussian", product=0.3)
    wide = continuous_phase.cpm_waveform(rng, 200_000, sps, index=1.5)
    # textbook: 99 % of MSK within 1.18 symbol rates, of GMSK (BT 0.3) within 0.91
    assert occupied_bandwidth(msk, sps) == pytest.approx(1.18, abs=0.06)
    assert occupied_bandwidth(gmsk, sps) == pytest.approx(0.92, abs=0.06)
    assert occupied_bandwidth(wide, sps) > 1.8
    for x in (msk, gmsk, wide):
        assert np.allclose(np.abs(x), 1, atol=1e-5)


def test_phase_turns_by_the_index_each_symbol() -> None:
    x = continuous_phase.cpm_waveform(generator(1), 4000, 20, index=0.5)
    turns = np.diff(np.unwrap(np.angle(x)).astype(float))  # +-pi h / 20 a sample
    assert np.median(np.abs(turns)) == pytest.approx(np.pi * 0.5 / 20, rel=0.01)


@pytest.mark.parametrize(("protocol", "width"), [("WiFi", 4.06e6), ("4G", 4.5e6), ("5G", 4.2e6)])
def test_ofdm_fills_its_carriers(protocol: str, width: float) -> None:
    measured = occupied_bandwidth(recorded(EMITTERS["powder"][0], protocol, 400_000), RATE)
    assert measured == pytest.approx(width, rel=0.1)


def test_commodity_radios_are_narrow() -> None:
    x = recorded(EMITTERS["commodity"][0], "CPM", 800_000)
    f, p = welch(x, RATE, nperseg=1 << 16, return_onesided=False)
    inside = p[np.abs(f) < 7.5e3].sum() / p.sum()
    assert inside > 0.98  # 15 kHz of 7.69 MHz


def test_fm_station_follows_carson_and_has_a_pilot() -> None:
    rate, station = 400e3, analog.Station(style="music", loudness=0.5, deviation_hz=75e3)
    x = analog.fm_waveform(generator(3), 400_000, rate, station)
    width = occupied_bandwidth(x, rate)
    assert 60e3 < width < 2 * (75e3 + 61e3)
    baseband = np.diff(np.unwrap(np.angle(x)).astype(float)) * rate / (2 * np.pi) / station.deviation_hz
    f, p = welch(baseband, rate, nperseg=1 << 15)
    pilot = np.sum(p[np.abs(f - 19e3) < 60]) * (f[1] - f[0])
    assert np.sqrt(2 * pilot) == pytest.approx(station.pilot, rel=0.1)
    gap = np.mean(p[(f > 16.5e3) & (f < 18e3)])
    assert np.mean(p[(f > 56e3) & (f < 58e3)]) > 3 * gap  # the RDS subcarrier


def test_single_sideband_is_single() -> None:
    x = analog.am_waveform(generator(4), 200_000, 192e3, "SSB-AM")
    spectrum = np.abs(np.fft.fft(x)) ** 2
    upper, lower = spectrum[1:100_000].sum(), spectrum[100_000:].sum()
    assert max(upper, lower) > 300 * min(upper, lower)


def test_double_sideband_has_a_carrier_and_a_real_envelope() -> None:
    x = analog.am_waveform(generator(5), 100_000, 192e3, "DSB-AM", depth=0.5)
    assert abs(np.mean(x)) > 0.7
    assert np.max(np.abs(x.imag)) < 1e-3


def test_wifi_frame_has_its_training_fields_and_pilots() -> None:
    frame = wifi.frame(generator(0), "QPSK", 12)
    assert np.allclose(frame[:144], frame[16:160], atol=1e-5)  # ten equal short symbols
    assert np.allclose(frame[192:256], frame[256:320], atol=1e-5)  # two equal long symbols
    symbols = frame[320:].reshape(-1, 80)
    assert np.allclose(symbols[:, :16], symbols[:, 64:], atol=1e-5)  # cyclic prefix
    carriers = np.fft.fft(symbols[:, 16:], axis=1) * np.sqrt(52) / 64
    pilots = carriers[:, [-21, -7, 7, 21]]
    assert np.allclose(np.abs(pilots), 1, atol=1e-4)
    assert np.allclose(carriers[:, 0], 0, atol=1e-4)
    distance = np.abs(carriers[1:, 1][:, None] - constellation("QPSK")).min(1)
    assert distance.max() < 1e-3


def test_every_oracle_radio_sends_the_same_frames() -> None:
    assert all(a is b for a, b in zip(wifi.playlist(), wifi.playlist(), strict=True))
    longest = max(range(127), key=lambda k: wifi.playlist()[k].size)
    frame = wifi.playlist()[longest]
    sent = wifi.oracle_waveform(generator("any"), 600_000)
    correlation = np.abs(np.fft.ifft(np.fft.fft(sent, 1 << 20) * np.conj(np.fft.fft(frame, 1 << 20))))
    assert correlation.max() > 0.99 * np.sum(np.abs(frame) ** 2)


def test_lte_prefix_and_synchronisation() -> None:
    x = cellular.lte_waveform(generator(7), 100_000)
    lag = np.mean(x[512:] * np.conj(x[:-512])) / np.mean(np.abs(x) ** 2)
    assert 0.03 < abs(lag) < 0.12  # the prefix is 36 of 548 samples
    assert np.mean(np.abs(x) ** 2) == pytest.approx(1, rel=0.15)
    zc = cellular.zadoff_chu(25)
    assert np.allclose(np.abs(zc), 1, atol=1e-6)
    m = cellular.m_sequence().real
    shifted = [float(np.dot(m, np.roll(m, k))) for k in range(1, 127)]
    assert np.allclose(shifted, -1)  # two-valued autocorrelation


def test_made_up_protocols_differ_from_recording_to_recording_and_are_not_the_standards() -> None:
    """Unit power; what repeats after the size of the transform is the prefix. LTE and NR have 512 and 256."""
    assert not {256, cellular.LTE_SIZE} & set(made_up.SIZES)
    found = set()
    for k in range(24):
        x = made_up.made_up_waveform(generator("made-up", k), 60_000)
        assert x.shape == (60_000,) and x.dtype == np.complex64
        assert np.mean(np.abs(x) ** 2) == pytest.approx(1, rel=0.3)
        power = np.mean(np.abs(x) ** 2)
        lags = {size: abs(np.mean(x[size:] * np.conj(x[:-size]))) / power for size in made_up.SIZES}
        best = max(lags, key=lags.__getitem__)
        if lags[best] > 0.025:
            found.add(best)
    assert len(found) > 4


@pytest.mark.parametrize("name", ["BPSK", "QPSK", "8PSK", "PAM4", "16QAM", "64QAM", "256QAM"])
def test_constellations_have_unit_power(name: str) -> None:
    points = constellation(name)
    assert np.mean(np.abs(points) ** 2) == pytest.approx(1, abs=1e-6)
    assert len(np.unique(np.round(points, 5))) == points.size


@pytest.mark.parametrize("name", MODULATIONS)
def test_all_modulations_have_unit_power_at_any_speed(name: str) -> None:
    from planformer.data.collections import modulated

    for speed in (8, 61):
        x = modulated(generator(name), 100_000, name, speed)
        assert x.dtype == np.complex64
        assert np.mean(np.abs(x) ** 2) == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("style", STYLES)
def test_programme_is_limited_audio(style: str) -> None:
    audio = programme(generator(style), 48_000, style)
    assert np.max(np.abs(audio)) <= 1
    assert 0.1 < np.sqrt(np.mean(audio**2)) < 0.5
    f, p = welch(audio, 32_000, nperseg=4096)
    assert p[f < 5000].sum() > 0.5 * p.sum()  # mostly low, as speech and music are
