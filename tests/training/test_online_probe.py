"""The probe finds what is there, reports chance where nothing is, and never sees a training sequence."""

import numpy as np
import pytest
import torch

from planformer.data.recordings import RecordingSet
from planformer.models.encoder import Encoder
from planformer.training.online_probe import OnlineProbe, effective_rank, ridge_predict
from training.conftest import tiny_recipe, tone_set


def test_tones_are_told_apart_by_a_random_encoder():
    torch.manual_seed(0)
    probe = OnlineProbe(tone_set(per_emitter=10), per_emitter=10)
    score = probe.score(probe.embed(Encoder(tiny_recipe().model)))
    assert score.accuracy > 60
    assert 1 < score.effective_rank < 64


def test_noise_gives_chance():
    probe = OnlineProbe(tone_set(per_emitter=40), per_emitter=40)
    noise = torch.randn(len(probe.indices), 16, generator=torch.Generator().manual_seed(0))
    assert probe.score(noise).accuracy == pytest.approx(20, abs=15)


def test_halves_are_disjoint_and_balanced():
    probe = OnlineProbe(tone_set(per_emitter=8), per_emitter=6, seed=3)
    fit, test = probe.indices[: probe.num_fit], probe.indices[probe.num_fit :]
    assert not set(fit) & set(test)
    assert np.bincount(probe.labels[: probe.num_fit]).tolist() == [3] * 5


def test_embedding_leaves_the_mode_alone():
    encoder = Encoder(tiny_recipe().model).train()
    OnlineProbe(tone_set(per_emitter=2), per_emitter=2).embed(encoder)
    assert encoder.training


def test_effective_rank_of_known_matrices():
    rng = np.random.default_rng(0)
    line = rng.normal(size=(200, 1)) * np.ones((1, 10))
    assert effective_rank(line) == pytest.approx(1, abs=1e-6)
    assert effective_rank(rng.normal(size=(4000, 10))) == pytest.approx(10, abs=0.1)
    assert effective_rank(np.zeros((5, 3))) == 0


def test_ridge_is_indifferent_to_the_features_scale():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 5))
    y = (x[:, 0] > 0).astype(np.int64)
    assert (ridge_predict(x, y, x) == ridge_predict(x * 1e4 + 7, y, x * 1e4 + 7)).all()


def test_held_out_sequences_are_never_training_sequences(tmp_path):
    """By the recordings' own bookkeeping: no sample is in both parts of any file."""
    from planformer.data.simulator import plan, write_recordings

    for _ in write_recordings(plan(["fm"], 400_000, seed=0), tmp_path, seed=0):
        pass
    parts = {}
    for split in ("train", "validation"):
        chosen = RecordingSet.from_folder(tmp_path, split)
        parts[split] = {(int(r), int(s)) for r, s in zip(chosen.recordings, chosen.starts, strict=True)}
    assert parts["train"] and parts["validation"]
    assert not parts["train"] & parts["validation"]
