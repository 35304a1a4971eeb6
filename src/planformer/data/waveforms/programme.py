"""Programme-like audio: voiced and unvoiced speech, music with harmonics and drums; the content of AM and FM."""

from __future__ import annotations

import numpy as np

AUDIO_RATE = 32_000.0  # a broadcast studio: nothing above 15 kHz
STYLES = ("speech", "music", "dance", "classical")


def programme(rng: np.random.Generator, n: int, style: str) -> np.ndarray:
    """``n`` samples of audio at 32 kHz, RMS near 0.25, within +-1, float64.

    >>> from planformer.data.seeding import generator
    >>> bool(abs(programme(generator(0), 4800, "music")).max() <= 1)
    True
    """
    lead = int(rng.integers(2000))  # start in the middle of whatever is going on
    total = n + lead
    if style == "speech":
        audio = _speech(rng, total)
    else:
        audio = _music(rng, total, drums={"dance": 0.8, "music": 0.4, "classical": 0.0}[style])
    audio = audio[lead:]
    scale = np.sqrt(np.mean(audio**2)) + 1e-3
    limited: np.ndarray = np.tanh(0.3 * audio / scale)  # the limiter of a studio chain
    return limited


def _music(rng: np.random.Generator, n: int, drums: float) -> np.ndarray:
    """Notes of a scale with decaying harmonics and vibrato, over optional noise bursts on the beat."""
    audio = np.zeros(n)
    root = 55 * 2 ** rng.uniform(0, 1.5)
    position = 0
    while position < n:
        length = int(AUDIO_RATE * rng.uniform(0.08, 0.5))
        stop = min(position + length, n)
        t = np.arange(stop - position) / AUDIO_RATE
        envelope = np.minimum(t / 0.01, 1) * np.exp(-t * rng.uniform(1, 8))
        for _ in range(int(rng.integers(1, 5))):
            pitch = root * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 11]) / 12 + rng.integers(0, 4))
            harmonics = np.arange(1, min(24, int(15_000 / pitch) + 1))
            weights = harmonics ** -rng.uniform(0.6, 2.0)
            vibrato = 0.004 * np.sin(2 * np.pi * rng.uniform(4, 7) * t)
            angle = 2 * np.pi * pitch * t * (1 + vibrato)
            audio[position:stop] += envelope * (weights @ np.sin(np.outer(harmonics, angle) + rng.random() * 6))
        if rng.random() < drums:
            decay = np.exp(-t * rng.uniform(20, 80))
            audio[position:stop] += 2 * decay * rng.standard_normal(t.size)
        position = stop
    return audio


def _speech(rng: np.random.Generator, n: int) -> np.ndarray:
    """Syllables: a glottal pulse train or noise through three formant resonators, with pauses."""
    from scipy.signal import lfilter

    audio = np.zeros(n)
    pitch = rng.uniform(85, 240)
    position = 0
    while position < n:
        stop = min(position + int(AUDIO_RATE * rng.uniform(0.06, 0.25)), n)
        count = stop - position
        kind = rng.random()
        if kind < 0.68:  # voiced
            contour = pitch * (1 + 0.15 * np.sin(2 * np.pi * (rng.random() + np.arange(count) / AUDIO_RATE * 2)))
            turns = np.cumsum(contour) / AUDIO_RATE
            source = np.diff(np.floor(turns), prepend=0.0) - contour / AUDIO_RATE
        elif kind < 0.88:  # unvoiced
            source = 0.02 * np.diff(rng.standard_normal(count), prepend=0.0)
        else:
            position = stop
            continue
        for low, high in ((280, 850), (900, 2300), (2300, 3300)):
            radius = np.exp(-np.pi * rng.uniform(60, 160) / AUDIO_RATE)
            angle = 2 * np.pi * rng.uniform(low, high) / AUDIO_RATE
            source = lfilter([1 - radius], [1, -2 * radius * np.cos(angle), radius**2], source)
        envelope = np.sin(np.pi * (np.arange(count) + 0.5) / count) ** 0.5
        audio[position:stop] += envelope * source / (np.sqrt(np.mean(source**2)) + 1e-9)
        position = stop
    return audio
