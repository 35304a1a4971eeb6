"""The encoder's and the baselines' features, the cache's keys, and the pictures for vision models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image

from planformer import PlanFormer, PlanFormerConfig
from planformer.errors import InputError
from planformer.evaluation.baselines import BASELINES, get_baseline
from planformer.evaluation.baselines.peers import VisionTower
from planformer.evaluation.baselines.rocket import KERNELS, _convolve
from planformer.evaluation.baselines.spectrograms import audio_pictures, colour, mel_filters, radio_pictures, stft_power
from planformer.evaluation.cache import FeatureCache
from planformer.evaluation.featurisers import Advance, EncoderFeatures, Features, Featuriser
from planformer.evaluation.tasks import TaskData
from planformer.evaluation.tasks.base import as_labels
from planformer.signals import PreprocessConfig, from_array


@pytest.fixture(scope="module")
def small_model() -> PlanFormer:
    return PlanFormer.random(0, PlanFormerConfig(channels=(4, 8, 16), dim=32))


def tones(n: int = 6, length: int = 6000) -> TaskData:
    t = np.arange(length) / 8000
    rows = np.stack([np.sin(2 * np.pi * (300 + 200 * k) * t) for k in range(n)])
    return TaskData(rows.astype(np.float32), as_labels(["a", "b"] * (n // 2)), "audio", 8000.0)


def images(n: int = 4) -> TaskData:
    pixels = np.random.default_rng(0).integers(0, 255, (n, 12, 12, 3), dtype=np.uint8)
    return TaskData(pixels, as_labels(["a", "b"] * (n // 2)), "image")


def radio(n: int = 4) -> TaskData:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((n, 5120)) + 1j * rng.standard_normal((n, 5120))).astype(np.complex64)
    return TaskData(x, as_labels(["a", "b"] * (n // 2)), "iq", 1e6)


@pytest.mark.parametrize("data", [tones(), images(), radio()], ids=["audio", "image", "iq"])
def test_both_readouts_equal_the_public_model(small_model: PlanFormer, data: TaskData) -> None:
    both = EncoderFeatures(small_model, "m").both_readouts(data)
    for readout in ("latent", "tokens"):
        direct = small_model.embed_many(list(data.items), rate=data.rate, kind=data.kind, readout=readout)  # type: ignore[arg-type]
        np.testing.assert_allclose(both[readout], direct, atol=2e-4)


def test_a_mix_of_kinds_and_channels_is_averaged_over_channels(small_model: PlanFormer, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    soundfile.write(tmp_path / "a.wav", rng.standard_normal(900) * 0.1, 8000)
    Image.fromarray(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8)).save(tmp_path / "b.png")
    mixed = TaskData([tmp_path / "a.wav", tmp_path / "b.png"], as_labels(["a", "b"]), "")
    values = EncoderFeatures(small_model, "m").features(mixed)
    assert values.shape == (2, 64)
    picture = small_model.embed(tmp_path / "b.png").reshape(3, 64)
    np.testing.assert_allclose(values[1], picture.mean(axis=0), atol=2e-4)
    assert get_baseline("log-spectrum").features(mixed).shape == (2, 256)


@pytest.mark.parametrize("name", ["raw", "log-spectrum", "rocket", "mfcc"])
def test_baselines_are_finite_deterministic_and_tell_tones_apart(name: str) -> None:
    data, baseline = tones(), get_baseline(name)
    first = baseline.features(data)
    assert np.isfinite(first).all() and len(first) == len(data)
    np.testing.assert_array_equal(first, get_baseline(name).features(data))
    assert np.linalg.norm(first[0] - first[1]) > 1e-3


def test_widths_are_those_promised() -> None:
    assert get_baseline("raw").features(tones()).shape[1] == 256
    assert get_baseline("log-spectrum").features(images()).shape[1] == 3 * 256
    assert get_baseline("mfcc").features(tones()).shape[1] == 26
    assert get_baseline("mfcc").not_applicable(images()) == "sound only"


def test_log_spectrum_sees_negative_frequencies_of_radio_only() -> None:
    n = np.arange(5120)
    pair = np.stack([np.exp(2j * np.pi * 0.2 * n), np.exp(-2j * np.pi * 0.2 * n)]).astype(np.complex64)
    up, down = get_baseline("log-spectrum").features(TaskData(pair, as_labels(["a", "b"]), "iq", 1.0))[:, :128]
    assert up.argmax() > 64 > down.argmax()
    real = TaskData(pair.real.copy(), as_labels(["a", "b"]), "audio", 8000.0)
    same, also = get_baseline("log-spectrum").features(real)[:, :128]
    assert same.argmax() == also.argmax() == pytest.approx(0.2 * 256, abs=1)


def test_random_kernels_convolve_as_numpy_does() -> None:
    assert KERNELS.shape == (84, 9) and (KERNELS.sum(axis=1) == 0).all()
    x = np.random.default_rng(0).standard_normal((1, 60)).astype(np.float32)
    dilated = np.zeros(25)
    dilated[::3] = KERNELS[5][::-1]
    np.testing.assert_allclose(_convolve(x, 3)[0, 5], np.convolve(x[0], dilated, mode="same"), atol=1e-4)


def test_rocket_refuses_to_guess_its_biases() -> None:
    with pytest.raises(ValueError, match="see the data first"):
        get_baseline("rocket").channel_features(np.ones((1, 1, 5120), np.complex64), analytic=True)  # type: ignore[attr-defined]


def test_unknown_baseline_is_named() -> None:
    with pytest.raises(InputError, match="log-spectrum"):
        get_baseline("mfccs")
    assert set(BASELINES) >= {"clip", "dino"}


class Counting(Featuriser):
    """Counts how often it is really asked."""

    name, title = "counting", "counting"

    def __init__(self, identity: str) -> None:
        self._identity, self.calls = identity, 0

    @property
    def identity(self) -> str:
        return self._identity

    def features(self, data: TaskData, advance: Advance | None = None) -> Features:
        self.calls += 1
        return np.full((len(data), 2), self.calls, np.float32)


def test_cache_hits_only_when_method_and_data_are_the_same(tmp_path: Path) -> None:
    cache, method, data = FeatureCache(tmp_path), Counting("one"), tones()
    first, hit = cache.features(method, data)
    again, hit_again = FeatureCache(tmp_path).features(method, data)
    assert (hit, hit_again, method.calls) == (False, True, 1)
    np.testing.assert_array_equal(first, again)
    changed = TaskData(data.items + 1e-6, data.labels, data.kind, data.rate)
    assert not cache.features(method, changed)[1]
    assert not cache.features(method, TaskData(data.items, data.labels, data.kind, 16000.0))[1]
    assert not cache.features(Counting("two"), data)[1]
    for file in tmp_path.glob("*.npz"):
        file.write_bytes(b"damaged")
    assert not FeatureCache(tmp_path).features(method, data)[1]


def test_cache_never_serves_other_weights_preprocessing_or_readout(tmp_path: Path) -> None:
    narrow = PlanFormerConfig(channels=(4, 8, 16), dim=32)
    tiled = narrow.model_copy(update={"preprocess": PreprocessConfig(short="tile")})
    data, cache = tones(2, 3000), FeatureCache(tmp_path)
    found = {}
    for name, seed, config in (("seed 0", 0, narrow), ("seed 1", 1, narrow), ("tile", 0, tiled)):
        model = PlanFormer.random(seed, config)
        values, hit = cache.features(EncoderFeatures(model, name), data)
        assert not hit
        found[name] = values
        tokens, hit = cache.features(EncoderFeatures(model, name, readout="tokens"), data)
        assert hit and tokens.shape[1] == 2 * values.shape[1]  # made in the same pass
    assert not np.allclose(found["seed 0"], found["seed 1"]) and not np.allclose(found["seed 0"], found["tile"])


def test_a_training_step_changes_the_identity() -> None:
    import torch

    model = PlanFormer.random(0, PlanFormerConfig(channels=(4, 8, 16), dim=32))
    before = EncoderFeatures(model, "m").identity
    with torch.no_grad():
        next(iter(model.encoder.parameters())).add_(1e-3)
    assert EncoderFeatures(PlanFormer(model.encoder), "m").identity != before


def test_spectrogram_geometry_is_the_papers() -> None:
    assert stft_power(np.random.default_rng(0).standard_normal(5120), 1024, 22).shape == (513, 233)
    assert mel_filters(16000.0).shape == (128, 1025)
    peaks = mel_filters(22050.0).argmax(axis=1) * 22050.0 / 2048
    assert (np.diff(peaks) >= 0).all() and peaks[-1] < 8000
    tone = np.sin(2 * np.pi * 0.125 * np.arange(5120))
    assert abs(stft_power(tone, 1024, 22).mean(axis=1).argmax() - 128) <= 1


def test_pictures_are_coloured_and_sized() -> None:
    ramp = colour(np.linspace(0, 1, 64)[:, None] * np.ones((1, 40)))
    assert ramp.shape == (224, 224, 3) and ramp.dtype == np.uint8
    assert ramp[0, 0].tolist() == pytest.approx([253, 231, 37], abs=6)  # Viridis: high values yellow, on top
    assert ramp[-1, 0].tolist() == pytest.approx([68, 1, 84], abs=6)
    sound = from_array(np.random.default_rng(0).standard_normal(5120 * 2 + 100), rate=16000, kind="audio")
    assert audio_pictures(sound).shape == (2, 224, 224, 3)
    quake = from_array(np.random.default_rng(0).standard_normal((3, 3000)), rate=100, kind="seismic")
    assert radio_pictures(quake).shape == (3, 224, 224, 3)


def test_vision_tower_pools_windows_and_normalises() -> None:
    import torch
    from torch import nn

    class MeanColour(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(dim=(2, 3))

    class Tower(VisionTower):
        name, title, variable = "tower", "tower", "PLANFORMER_NOT_SET"

    tower = Tower(MeanColour())
    assert tower.features(tones()).shape == (6, 3)
    grey = TaskData(np.full((2, 8, 8), 128, np.uint8), as_labels(["a", "b"]), "image")
    expected = (128 / 255 - np.array(tower.mean)) / np.array(tower.std)
    np.testing.assert_allclose(tower.features(grey)[0], expected, rtol=1e-4)
    assert tower.not_applicable(TaskData([b"text"], as_labels(["a"]), "text")) is not None
    assert "PLANFORMER_NOT_SET" in (Tower().not_applicable(grey) or "")


def test_a_file_that_is_not_the_towers_weights_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from planformer.errors import WeightsError
    from planformer.evaluation.baselines.peers import VisionTower

    class Tower(VisionTower):
        name, title, variable = "tower", "tower", "PLANFORMER_TOWER"

        def build(self, weights: Path) -> Any:
            raise RuntimeError("Error(s) in loading state_dict:\nMissing key(s)")

    monkeypatch.setenv("PLANFORMER_TOWER", str(tmp_path))
    with pytest.raises(WeightsError, match=r"tower: .* is not its weights \(Error\(s\) in loading state_dict:\)$"):
        _ = Tower().tower


@pytest.mark.parametrize(("library", "name"), [("open_clip", "clip"), ("timm", "dino")])
def test_weights_on_disk_give_the_librarys_own_numbers(
    library: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way with the real packages and random weights; where extra ``peers`` is not there, it is skipped."""
    package = pytest.importorskip(library, reason="extra peers", exc_type=ImportError)
    import torch
    from safetensors.torch import save_file

    from planformer.evaluation.baselines.peers import Clip, Dino

    if name == "clip":
        theirs = package.create_model("ViT-B-32-quickgelu", pretrained=None).eval()
        tower: Clip | Dino = Clip()
    else:
        theirs = package.create_model("vit_small_patch16_dinov3", pretrained=False, num_classes=0).eval()
        tower = Dino()
    save_file({key: value.contiguous() for key, value in theirs.state_dict().items()}, tmp_path / "w.safetensors")
    monkeypatch.setenv(tower.variable, str(tmp_path / "w.safetensors"))
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = (theirs.visual if name == "clip" else theirs)(x)
        torch.testing.assert_close(tower.tower(x), expected, atol=1e-5, rtol=1e-5)
    assert expected.shape == (1, {"clip": 512, "dino": 384}[name])


@pytest.mark.slow
def test_a_tower_of_clips_geometry_runs_on_the_papers_pictures() -> None:
    """ViT-B/32 with random weights: patches of 32, width 768, 12 layers, projection to 512."""
    import torch
    from torch import nn

    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 768, 32, stride=32, bias=False)
            self.cls, self.positions = nn.Parameter(torch.zeros(1, 1, 768)), nn.Parameter(torch.zeros(1, 50, 768))
            layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True, norm_first=True)
            self.before, self.blocks = nn.LayerNorm(768), nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
            self.after, self.projection = nn.LayerNorm(768), nn.Linear(768, 512, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = self.patches(x).flatten(2).transpose(1, 2)  # (b, 49, 768)
            tokens = torch.cat([self.cls.expand(len(x), -1, -1), tokens], dim=1) + self.positions
            return self.projection(self.after(self.blocks(self.before(tokens))[:, 0]))

    from planformer.evaluation.baselines.peers import Clip

    clip = Clip(Vit().eval())
    assert clip.parameters() == pytest.approx(87.8e6, rel=0.01)
    assert clip.features(tones(2)).shape == (2, 512)
    assert clip.features(images(2)).shape == (2, 512)
    quake = TaskData(np.random.default_rng(0).standard_normal((2, 3, 3000)), as_labels(["a", "b"]), "seismic", 100.0)
    assert clip.features(quake).shape == (2, 3 * 512)
