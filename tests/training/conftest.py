"""A tiny encoder and an easy data set in memory: a whole run takes a second."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from planformer.training.recipe import Recipe, build_recipe, merge
from planformer.training.sources import MemorySet
from planformer.training.stream import BatchStream
from planformer.training.trainee import Trainee

# With four channels a channel attention has one hidden unit, which the open start may silence: so it is not used here.
TINY: dict[str, Any] = {
    "model": {"window": 256, "channels": [4, 8, 16], "dim": 32, "num_heads": 4, "start": "balanced"},
    "data": {"batch_size": 8, "emitters_per_batch": 4},
    "schedule": {"milestones": 3, "steps_per_milestone": 2},
    "curriculum": {"cycles": 3},
    "optimizer": {"learning_rate": 1e-3},
    "networks": {"decoder": "none", "projection_dim": 32},
    "separation": {"share": 0.0},
    "probe": {"per_emitter": 4, "tsne_every_milestones": 0, "pictures_every_milestones": 0},
    "monitor": {"tensorboard": False, "min_effective_rank": 0.0},
}
SEGMENT = 1280


def tiny_recipe(*changes: str, **sections: Any) -> Recipe:
    return build_recipe(merge(TINY, sections), changes)


def tone_set(per_emitter: int = 12, emitters: int = 5, seed: int = 0) -> MemorySet:
    """Emitter k sends tones around its own frequency, in noise."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(emitters), per_emitter)
    n = np.arange(SEGMENT)
    frequency = (labels + 1) / (2.5 * emitters) + rng.normal(0, 0.002, len(labels))
    tones = np.exp(2j * np.pi * (frequency[:, None] * n + rng.random((len(labels), 1))))
    noise = rng.normal(size=tones.shape) + 1j * rng.normal(size=tones.shape)
    return MemorySet((tones + 0.2 * noise).astype(np.complex64), labels)


@pytest.fixture
def data() -> MemorySet:
    return tone_set()


@pytest.fixture
def held_out() -> MemorySet:
    return tone_set(per_emitter=6, seed=1)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def build(*changes):
    """Fresh networks of the tiny recipe with ``changes``, and the stream of their batches."""
    recipe = tiny_recipe(*changes)
    torch.manual_seed(0)
    return Trainee(recipe), BatchStream(tone_set(), recipe)
