"""SignalEmbedder behaves like any scikit-learn transformer."""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from planformer import PlanFormer, PlanFormerConfig, SignalEmbedder
from planformer.errors import InputError, WeightsError

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)  # segments of 1,280 samples


@pytest.fixture(scope="module")
def small() -> PlanFormer:
    return PlanFormer.random(seed=0, config=SMALL)


def tones() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(12) % 2
    frequency = np.where(labels, 0.2, 0.05) + 0.005 * rng.standard_normal(12)
    return np.sin(2 * np.pi * frequency[:, None] * np.arange(800)), labels


def test_transform_is_embed_many(small: PlanFormer) -> None:
    x, _ = tones()
    embedder = SignalEmbedder(small, rate=8000, kind="audio", batch_size=5)
    np.testing.assert_allclose(embedder.fit_transform(x), small.embed_many(list(x), rate=8000, kind="audio"), atol=1e-5)
    assert embedder.transform(x[:0]).shape == (0, 64)


def test_clone_shares_the_frozen_model_and_keeps_parameters(small: PlanFormer) -> None:
    embedder = SignalEmbedder(small, rate=8000, kind="audio", readout="tokens")
    copy = clone(embedder)
    assert copy.get_params() == embedder.get_params()
    assert copy.model is small
    with pytest.raises(NotFittedError):
        copy.transform([[1.0, 2.0]])


def test_pipeline_probe_and_grid_search(small: PlanFormer) -> None:
    x, y = tones()
    probe = make_pipeline(SignalEmbedder(small, rate=8000, kind="audio"), RidgeClassifier())
    assert cross_val_score(probe, x, y, cv=3).mean() == 1.0
    search = GridSearchCV(probe, {"signalembedder__readout": ["latent", "tokens"]}, cv=2, error_score="raise")
    assert search.fit(x, y).best_score_ == 1.0


def test_feature_names(small: PlanFormer) -> None:
    x, _ = tones()
    mono = SignalEmbedder(small).fit(x)
    assert mono.get_feature_names_out()[[0, 31, 32, 63]].tolist() == [
        "time_0",
        "time_31",
        "frequency_0",
        "frequency_31",
    ]
    stereo = SignalEmbedder(small, readout="tokens").fit(np.stack([x, x], 1))
    names = stereo.get_feature_names_out()
    assert len(set(names)) == stereo.n_features_out_ == 2 * 128
    assert names[-1] == "channel1_frequency_std_31"


def test_joblib_round_trip_keeps_no_network(tmp_path: Path, small: PlanFormer) -> None:
    folder = small.save_pretrained(tmp_path / "w")
    x, y = tones()
    probe = make_pipeline(SignalEmbedder(str(folder), rate=8000, kind="audio"), RidgeClassifier()).fit(x, y)
    joblib.dump(probe, tmp_path / "probe.joblib")
    assert (tmp_path / "probe.joblib").stat().st_size < 100_000
    again = joblib.load(tmp_path / "probe.joblib")
    np.testing.assert_array_equal(again.decision_function(x), probe.decision_function(x))


def test_stored_embedder_notices_other_weights(tmp_path: Path, small: PlanFormer) -> None:
    folder = small.save_pretrained(tmp_path / "w")
    joblib.dump(SignalEmbedder(str(folder)).fit([[1.0, 2.0, 1.0]]), tmp_path / "e.joblib")
    PlanFormer.random(seed=1, config=SMALL).save_pretrained(folder)
    with pytest.raises(WeightsError, match="fit it again"):
        joblib.load(tmp_path / "e.joblib")


def test_pickle_of_a_given_model_carries_it(tmp_path: Path, small: PlanFormer) -> None:
    joblib.dump(SignalEmbedder(small).fit([[1.0, 2.0, 1.0]]), tmp_path / "e.joblib")
    again = joblib.load(tmp_path / "e.joblib")
    np.testing.assert_array_equal(again.transform([[1.0, 2.0, 5.0]]), small.embed_many([[1.0, 2.0, 5.0]]))


def test_channel_count_must_stay(small: PlanFormer) -> None:
    x, _ = tones()
    embedder = SignalEmbedder(small).fit(x)
    with pytest.raises(InputError, match="same number of channels"):
        embedder.transform(np.stack([x, x], 1))
    with pytest.raises(InputError, match="no signals"):
        SignalEmbedder(small).fit([])
