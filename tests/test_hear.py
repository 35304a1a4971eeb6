"""The HEAR interface: shapes, types and times that its validator asks for, and the meaning of both embeddings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planformer import PlanFormer, PlanFormerConfig, hear
from planformer.errors import InputError

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)


@pytest.fixture(scope="module")
def model() -> hear.HearModel:
    return hear.HearModel(PlanFormer.random(seed=0, config=SMALL))


def audio(sounds: int = 2, samples: int = 5000) -> torch.Tensor:
    return torch.rand(sounds, samples, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_attributes(model: hear.HearModel) -> None:
    assert isinstance(model, torch.nn.Module)
    assert model.sample_rate in (16000, 22050, 32000, 44100, 48000)
    assert model.scene_embedding_size == model.timestamp_embedding_size == 64
    assert model.to("cpu").planformer.device.type == "cpu"


def test_scene_is_embed(model: hear.HearModel) -> None:
    x = audio()
    z = hear.get_scene_embeddings(x, model)
    assert z.dtype == torch.float32
    for row, sound in zip(z, x, strict=True):
        expected = model.planformer.embed(sound.numpy(), rate=16000, kind="audio")
        np.testing.assert_allclose(row.numpy(), expected, atol=1e-5)


def test_timestamps(model: hear.HearModel) -> None:
    z, times = hear.get_timestamp_embeddings(audio(samples=4001), model)
    assert z.shape == (2, 6, 64)
    assert times.shape == (2, 6)
    assert z.dtype == times.dtype == torch.float32
    assert times[1].tolist() == [0, 50, 100, 150, 200, 250]


def test_a_timestamp_sees_its_surroundings_only(model: hear.HearModel) -> None:
    x = audio(1, 16000)
    changed = x.clone()
    changed[:, 12_000:] = torch.sin(torch.arange(4000.0))
    before, times = hear.get_timestamp_embeddings(x, model)
    after, _ = hear.get_timestamp_embeddings(changed, model)
    difference = (before - after).norm(dim=-1)[0] / before.norm(dim=-1)[0]
    half = 1000 * SMALL.segment / 2 / 16000  # 40 ms; the change starts at 750 ms
    assert difference[times[0] + half <= 750].max() == 0
    assert difference[times[0] - half >= 750].min() > 0.01


def test_a_timestamp_is_embed_of_its_surroundings(model: hear.HearModel) -> None:
    x = audio(2, 6000)
    z, times = hear.get_timestamp_embeddings(x, model)
    half = SMALL.segment // 2
    padded = np.pad(x.numpy(), ((0, 0), (half, half)))
    for sound, rows in zip(padded, z, strict=True):
        for start, row in zip((times[0] * 16).long().tolist(), rows, strict=True):
            expected = model.planformer.embed(sound[start : start + 2 * half], rate=16000, kind="audio")
            np.testing.assert_allclose(row.numpy(), expected, atol=1e-5)


def test_silence_and_short_clips(model: hear.HearModel) -> None:
    assert torch.isfinite(hear.get_scene_embeddings(torch.zeros(1, 4000), model)).all()
    z, times = hear.get_timestamp_embeddings(audio(1, 10), model)
    assert z.shape[1] == times.shape[1] == 1


def test_load_model_and_bad_input(model: hear.HearModel) -> None:
    assert hear.load_model("random:1").scene_embedding_size == 256
    for bad in (torch.zeros(5), torch.zeros(1, 5, dtype=torch.int64), torch.zeros(1, 0), torch.full((1, 9), torch.nan)):
        with pytest.raises(InputError):
            hear.get_scene_embeddings(bad, model)
