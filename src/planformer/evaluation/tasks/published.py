"""The paper's table (Table "Frozen-encoder transfer"), in percent: linear top-1 unless the key says otherwise.

Keys: random (untrained encoder), model, top3, rbf, clip, dino, mfcc.
"""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "rf-modulation": {"random": 57.8, "model": 95.5, "top3": 99.2, "clip": 97.0, "dino": 92.2, "rbf": 88.1},
    "powder": {"random": 67.9, "model": 87.6, "clip": 55.0, "dino": 66.3, "rbf": 85.4},
    "tidyvoice-speaker": {
        "random": 60.5,
        "model": 90.1,
        "top3": 97.7,
        "clip": 97.8,
        "dino": 96.8,
        "mfcc": 93.8,
        "rbf": 86.1,
    },
    "tidyvoice-language": {
        "random": 49.9,
        "model": 69.8,
        "top3": 91.2,
        "clip": 87.3,
        "dino": 83.1,
        "mfcc": 69.7,
        "rbf": 72.9,
    },
    "tinysol-family": {"random": 91.6, "model": 91.7, "clip": 99.1, "dino": 96.5, "mfcc": 90.6, "rbf": 91.1},
    "tinysol-instrument": {
        "random": 74.8,
        "model": 80.5,
        "top3": 95.5,
        "clip": 97.5,
        "dino": 89.9,
        "mfcc": 90.0,
        "rbf": 79.9,
    },
    "gtzan": {"random": 47.1, "model": 64.1, "top3": 89.4, "clip": 82.1, "dino": 70.2, "mfcc": 62.5, "rbf": 62.4},
    "seismic": {"random": 85.4, "model": 89.0, "clip": 93.0, "dino": 94.2, "rbf": 90.2},
    "arxiv-topic": {"random": 24.2, "model": 36.9, "top3": 71.8, "rbf": 37.9},
    "arxiv-field": {"random": 77.0, "model": 82.7, "rbf": 84.0},
    "mnist": {"random": 91.8, "model": 79.2, "top3": 94.5, "clip": 98.6, "dino": 93.4, "rbf": 85.5},
    "fashion-mnist": {"random": 83.4, "model": 77.0, "top3": 96.1, "clip": 90.4, "dino": 83.3, "rbf": 81.6},
    "pathmnist": {"random": 67.1, "model": 71.3, "top3": 91.9, "clip": 92.0, "dino": 75.9, "rbf": 73.2},
    "cifake": {"random": 78.1, "model": 82.0, "clip": 94.73, "dino": 77.1, "rbf": 87.2},
    "mitosis": {"random": 65.7, "model": 68.7, "clip": 72.6, "dino": 69.3, "rbf": 67.4},
    "mitosis-first-frame": {"random": 67.4, "model": 64.1, "clip": 65.8, "dino": 63.5},
}
