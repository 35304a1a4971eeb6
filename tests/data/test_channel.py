"""Multipath, fading, interference and receiver."""

from __future__ import annotations

import numpy as np
import pytest

from planformer.data.channel import PROFILES, Link, Receiver, control_gain, interfere, propagate, receive
from planformer.data.seeding import complex_normal, generator


@pytest.mark.parametrize("profile", ["indoor", *PROFILES])
@pytest.mark.parametrize("doppler", [0.0, 50.0])
def test_mean_power_gain_is_one(profile: str, doppler: float) -> None:
    x = complex_normal(generator(0), 4000)
    link = Link(profile, direct_db=3.0, doppler_hz=doppler)
    gains = [np.mean(np.abs(propagate(x, link, 5e6, generator(profile, k))) ** 2) for k in range(150)]
    assert np.mean(gains) == pytest.approx(1, rel=0.2)
    assert np.std(gains) > 0.1  # it does fade


def test_multipath_is_selective_and_static_without_doppler() -> None:
    x = complex_normal(generator(1), 1 << 15)
    y = propagate(x, Link("urban", direct_db=-10), 5e6, generator(2))
    response = np.fft.fft(y) / np.fft.fft(x)
    assert np.std(np.abs(response)) > 0.2 * np.mean(np.abs(response))
    blocks = [np.fft.fft(y[k : k + 4096]) * np.conj(np.fft.fft(x[k : k + 4096])) for k in (4096, 24_576)]
    similarity = abs(np.vdot(*blocks)) / np.prod([np.linalg.norm(b) for b in blocks])
    assert similarity > 0.4


def test_doppler_spreads_a_tone_by_its_frequency() -> None:
    rate, doppler = 50e3, 100.0
    y = propagate(
        np.ones(1 << 16, np.complex64), Link("pedestrian", direct_db=-30, doppler_hz=doppler), rate, generator(3)
    )
    f = np.fft.fftfreq(y.size, 1 / rate)
    p = np.abs(np.fft.fft(y * np.hanning(y.size))) ** 2
    assert p[np.abs(f) < 1.05 * doppler].sum() > 0.995 * p.sum()
    assert p[np.abs(f) > 0.5 * doppler].sum() > 0.2 * p.sum()  # Jakes: most of it near the edges


def test_echo_does_not_wrap_around() -> None:
    x = np.zeros(2000, np.complex64)
    x[-3:] = 1
    y = propagate(x, Link("urban", direct_db=-20), 5e6, generator(4))
    assert np.max(np.abs(y[:900])) < 1e-2 * np.max(np.abs(y))


@pytest.mark.parametrize("snr", [0.0, 12.0, 30.0])
def test_noise_has_the_stated_power(snr: float) -> None:
    x = np.ones(200_000, np.complex64)
    y = receive(x, Receiver(level_dbfs=-20), Link(snr_db=snr), 5e6, generator(5))
    signal = abs(np.mean(y)) ** 2
    assert 10 * np.log10(signal / np.var(y)) == pytest.approx(snr, abs=0.2)


@pytest.mark.parametrize("control", [False, True])
def test_gain_reaches_the_level(control: bool) -> None:
    x = complex_normal(generator(6), 100_000) * np.float32(37)
    y = control_gain(x, Receiver(level_dbfs=-18, gain_control=control))
    assert 10 * np.log10(np.mean(np.abs(y) ** 2)) == pytest.approx(-18, abs=0.3)


def test_gain_control_evens_out_slow_fades() -> None:
    envelope = np.repeat([1.0, 0.3], 100_000).astype(np.float32)
    y = control_gain(complex_normal(generator(7), 200_000) * envelope, Receiver(gain_control=True))
    powers = [np.mean(np.abs(y[k : k + 20_000]) ** 2) for k in (60_000, 160_000)]
    assert powers[0] / powers[1] < 2  # was 11


def test_interferers_stand_where_they_should() -> None:
    link = Link(interference=(("carrier", 1e6, 0.0, -20.0), ("channel", -1.5e6, 3e5, -10.0)))
    y = interfere(np.zeros(1 << 16, np.complex64), link, 5e6, generator(8))
    f = np.fft.fftfreq(y.size, 1 / 5e6)
    p = np.abs(np.fft.fft(y)) ** 2 / y.size**2
    assert 10 * np.log10(p[np.abs(f - 1e6) < 1e3].sum()) == pytest.approx(-20, abs=0.5)
    assert 10 * np.log10(p[np.abs(f + 1.5e6) < 1.6e5].sum()) == pytest.approx(-10, abs=0.5)


def test_bursts_come_and_go() -> None:
    y = interfere(np.zeros(100_000, np.complex64), Link(interference=(("bursts", 0.0, 1e6, 0.0),)), 5e6, generator(9))
    silent = np.mean(np.abs(y) == 0)
    assert 0.2 < silent < 0.8
