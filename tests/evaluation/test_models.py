"""Naming of weights, and reconstruction strips that appear only where there is a decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planformer import PlanFormer, PlanFormerConfig
from planformer.errors import WeightsError
from planformer.evaluation.demo import digits, sounds
from planformer.evaluation.models import load_model, random_encoders
from planformer.evaluation.reconstruction import reconstruction_section, snr_db, with_noise
from planformer.models.restoration import Restorer
from planformer.signals import from_array

NARROW = PlanFormerConfig(channels=(4, 8, 16), dim=32)


def test_random_weights_are_called_random() -> None:
    judged = load_model("random:2")
    assert judged.name == "random:2" and not judged.trained and "RANDOM" in judged.weights and judged.folder is None
    assert [encoder.name for encoder in random_encoders(judged, 3)] == ["random:0", "random:1"]


def test_random_weights_of_another_start_are_other_weights_under_another_name() -> None:
    judged = load_model("random:0")
    others = random_encoders(judged, 2, start="balanced")
    assert [encoder.name for encoder in others] == ["random-balanced:0", "random-balanced:1"]
    assert all(encoder.model.config.start == "balanced" for encoder in others)
    assert others[0].model.fingerprint != judged.model.fingerprint, "the same seed, another start"


def test_a_weights_folder_is_called_trained_and_has_its_own_random_controls(tmp_path: Path) -> None:
    PlanFormer(PlanFormer.random(5, NARROW).encoder).save_pretrained(tmp_path / "weights")
    judged = load_model(tmp_path / "weights")
    assert judged.trained and judged.name == "planformer" and str(tmp_path) in judged.weights
    controls = random_encoders(judged, 3)
    assert len(controls) == 3 and all(c.model.config == judged.model.config for c in controls)
    assert len({c.identity for c in controls} | {judged.readouts()[0].identity}) == 4


def test_missing_folder_is_an_error_and_never_falls_back(tmp_path: Path) -> None:
    with pytest.raises(WeightsError):
        load_model(tmp_path / "nothing", fall_back=True)


def test_strips_need_a_decoder(tmp_path: Path) -> None:
    model = PlanFormer(PlanFormer.random(0, NARROW).encoder)
    model.save_pretrained(tmp_path)
    tasks = [digits(10), sounds(10)]
    assert reconstruction_section(model.encoder, None, tasks) is None
    assert reconstruction_section(model.encoder, tmp_path, tasks) is None
    Restorer.random(0, NARROW).save(tmp_path)
    section = reconstruction_section(model.encoder, tmp_path, tasks)
    assert section is not None and [name for name, _ in section.pictures] == [
        "reconstruct, digits", "denoise, digits", "reconstruct, sounds", "denoise, sounds",
    ]  # fmt: skip
    assert all(png.startswith(b"\x89PNG") for _, png in section.pictures)


@pytest.mark.parametrize("kind", ["audio", "iq"])
def test_noise_of_a_strip_has_its_power_and_its_side_of_the_band(kind: str) -> None:
    x = np.exp(0.2j * np.arange(8192)) + 3
    signal = from_array(x if kind == "iq" else x.real, kind=kind)  # type: ignore[arg-type]
    noisy = with_noise(signal, 5, np.random.default_rng(0))
    noise, varies = noisy.samples - signal.samples, signal.samples - signal.samples.mean()
    assert 10 * np.log10(np.mean(np.abs(varies) ** 2) / np.mean(np.abs(noise) ** 2)) == pytest.approx(5, abs=0.2)
    power = np.abs(np.fft.fft(noise[0])) ** 2
    assert (power[4097:].sum() < 1e-6 * power.sum()) == (kind == "audio")


def test_snr() -> None:
    x = np.random.default_rng(0).standard_normal(1000)
    assert snr_db(x, x + 0.1 * np.sqrt(np.mean(x**2))) == pytest.approx(20.0, abs=0.1)
