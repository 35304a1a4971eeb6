"""Restoration of signals: length, scale, mean, kinds, ablations, weights on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from planformer.config import PlanFormerConfig
from planformer.errors import InputError, WeightsError
from planformer.iq import interleave
from planformer.models.planformer import PlanFormer
from planformer.models.restoration import Restorer
from planformer.models.restoration_compare import (
    RunningComparison,
    ablation_table,
    compare,
    compare_files,
    draw,
    si_sdr_db,
    snr_db,
)
from planformer.models.restoration_scale import Scale
from planformer.signals import PreprocessConfig, Signal, from_array, read

SMALL = PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4)
SHORT_WINDOWS = SMALL.model_copy(update={"window": 256})  # a segment of 1,280 samples
WHOLE_SIGNAL = SMALL.model_copy(update={"preprocess": PreprocessConfig(normalise="signal")})


class Echo(Restorer):
    """A perfect network: gives back what it is given, so that only the preparation is under test."""

    def decode(self, x: torch.Tensor, task: str) -> list[torch.Tensor]:  # type: ignore[override]
        self.seen = x
        self.powers = x.square().sum(-1) / (x.shape[-1] // 2)
        return [x, 0.5 * x] if task == "separate" else [x]


def echo_for(config: PlanFormerConfig) -> Echo:
    networks = Restorer.random(0, config)
    return Echo(networks.encoder, networks.decoder, networks.separation, refined=False)


@pytest.fixture(scope="module")
def echo() -> Echo:
    return echo_for(SMALL)


@pytest.fixture(scope="module")
def restorer() -> Restorer:
    return Restorer.random(0, SMALL)


def tone(n: int, level: float = 1.0) -> Signal:
    return from_array(level * np.sin(np.arange(n) / 7) + 5 * level, rate=8000, kind="audio")


@pytest.mark.parametrize("n", [100, 3000, 5120, 5121, 9000, 20_000])
def test_length_scale_and_mean_come_back(echo: Echo, n: int) -> None:
    for level in (1e-3, 1.0, 1e4):
        signal = tone(n, level)
        (out,) = echo.run(signal, "reconstruct")
        assert (out.n, out.rate, out.kind) == (n, 8000, "audio")
        np.testing.assert_allclose(out.samples, signal.samples, atol=2e-5 * level)


def test_network_sees_unit_power_without_mean(echo: Echo) -> None:
    echo.run(tone(5120, 70.0), "denoise")
    z = torch.view_as_complex(echo.seen.unflatten(-1, (-1, 2)))
    assert abs(z.abs().square().mean().item() - 1) < 1e-4
    assert z.mean().abs() < 1e-4


def test_padding_does_not_count_as_power(echo: Echo) -> None:
    echo.run(tone(1000), "denoise")
    z = torch.view_as_complex(echo.seen.unflatten(-1, (-1, 2)))[0]
    assert abs(z[:1000].abs().square().mean().item() - 1) < 1e-3
    assert z[1000:].abs().max() == 0


def loud_then_quiet(n: int = 20_480) -> Signal:
    """A real signal whose second half has a hundredth of the first half's amplitude, on an offset."""
    x = np.sin(np.arange(n) / 7)
    x[n // 2 :] /= 100
    return from_array(40 * x + 7, rate=8000, kind="audio")


@pytest.mark.parametrize("config", [SMALL, WHOLE_SIGNAL])
def test_scale_comes_back_however_power_is_measured(config: PlanFormerConfig) -> None:
    signal = loud_then_quiet()
    (out,) = echo_for(config).run(signal, "reconstruct")
    np.testing.assert_allclose(out.samples, signal.samples, atol=1e-4)
    _, half = echo_for(config).run(signal, "separate")  # this network halves what it sees: without the mean
    mean = signal.samples.mean()
    if config is WHOLE_SIGNAL:
        np.testing.assert_allclose(half.samples - mean, (signal.samples - mean) / 2, atol=1e-4)
    else:
        ratio = np.std(half.samples.real) / np.std(signal.samples.real)
        assert abs(ratio - 0.5) < 0.01


def test_networks_see_unit_power_of_each_segment_or_of_the_signal() -> None:
    signal = loud_then_quiet()
    own, whole = echo_for(SMALL), echo_for(WHOLE_SIGNAL)
    own.run(signal, "denoise")
    whole.run(signal, "denoise")
    torch.testing.assert_close(own.powers, torch.ones(5), atol=1e-3, rtol=0)
    expected = np.mean(np.abs(signal.samples[0, :5120] - signal.samples.mean()) ** 2) / np.var(signal.samples)
    assert abs(whole.powers[0].item() - expected) < 1e-2  # about 2: the loud half of a signal of unit power
    assert whole.powers[-1] < 1e-3


def test_power_of_the_whole_signal_counts_for_short_ones_and_for_each_frame() -> None:
    short = tone(3000, 50.0)
    whole = echo_for(WHOLE_SIGNAL)
    np.testing.assert_allclose(whole.run(short, "denoise")[0].samples, short.samples, atol=2e-3)
    frames = np.random.default_rng(0).integers(0, 255, (2, 8, 8))
    frames[1] = 100 + frames[1] // 20  # a frame of little contrast
    video = from_array(frames.astype(np.uint8), kind="video", rate=25.0)
    powers = []
    for restorer in (echo_for(SMALL), whole):
        np.testing.assert_allclose(restorer.run(video, "denoise")[0].samples, video.samples, atol=1e-2)
        powers.append(restorer.powers[0].item())  # of the last frame
    assert abs(powers[0] - 1) < 0.01
    assert powers[1] < 0.1


def test_blocks_that_come_once_are_refused_where_the_whole_signal_counts() -> None:
    signal = loud_then_quiet()
    blocks = [signal.samples[:, :9000], signal.samples[:, 9000:]]
    whole = echo_for(WHOLE_SIGNAL)
    out = np.concatenate(list(whole.stream_blocks(blocks, "denoise", remove_mean=True)), -1)
    np.testing.assert_allclose(out[0], signal.samples, atol=1e-4)
    with pytest.raises(InputError, match=r"normalise='signal'.*list of blocks"):
        next(whole.stream_blocks(iter(blocks), "denoise", remove_mean=True))


def test_a_constant_has_no_power_to_divide_by() -> None:
    scale = Scale.of(np.full((1, 100), 3.3, np.complex64), remove_mean=True)
    assert scale.rms.max() == 0
    np.testing.assert_array_equal(scale.to_unit(np.ones((1, 4), np.complex64)), 0)


@pytest.mark.parametrize("n", [900, 1280, 1281, 6000])
def test_models_with_short_windows_overlap_by_their_own_window(n: int) -> None:
    echo = echo_for(SHORT_WINDOWS)
    assert (echo.overlap, echo.encoder.config.segment) == (256, 1280)
    signal = tone(n)
    np.testing.assert_allclose(echo.run(signal, "reconstruct")[0].samples, signal.samples, atol=2e-5)
    real = Restorer(echo.encoder, echo.decoder)
    assert real.run(signal, "denoise")[0].n == n


def test_an_overlap_beyond_half_a_segment_is_refused(restorer: Restorer) -> None:
    with pytest.raises(InputError, match="half a segment, 2560"):
        Restorer(restorer.encoder, restorer.decoder, overlap=3000)


def test_channels_are_kept(echo: Echo) -> None:
    x = np.stack([np.sin(np.arange(7000) / 5), 3 * np.cos(np.arange(7000) / 11)])
    (out,) = echo.run(from_array(x, rate=1.0), "reconstruct")
    np.testing.assert_allclose(out.samples.real, x, atol=1e-3)


def test_complex_signals_keep_their_mean(echo: Echo) -> None:
    x = np.exp(0.1j * np.arange(6000)) + 2
    (out,) = echo.run(from_array(x), "reconstruct")
    np.testing.assert_allclose(out.samples[0], x, atol=1e-4)


def test_two_sources(echo: Echo) -> None:
    signal = from_array(np.exp(0.1j * np.arange(6000)))
    a, b = echo.run(signal, "separate")
    np.testing.assert_allclose(b.samples, a.samples / 2, atol=1e-5)


@pytest.mark.parametrize("shape", [(20, 30), (64, 80), (10, 12, 3)])
def test_images_small_and_larger_than_a_segment(echo: Echo, shape: tuple[int, ...]) -> None:
    y, x = np.mgrid[: shape[0], : shape[1]]
    pixels = (127 + 100 * np.sin(x / 6) * np.cos(y / 5)).astype(np.uint8)
    image = from_array(pixels if len(shape) == 2 else np.stack([pixels] * 3, -1), kind="image")
    (out,) = echo.run(image, "reconstruct")
    assert out.samples.shape == image.samples.shape
    assert np.abs(out.samples.real - image.samples.real).mean() < 1


def test_video_frame_by_frame(echo: Echo) -> None:
    video = from_array(np.random.default_rng(0).integers(0, 255, (3, 8, 8), np.uint8), kind="video", rate=25.0)
    (out,) = echo.run(video, "denoise")
    np.testing.assert_allclose(out.samples, video.samples, atol=1e-2)


def test_silence_inside_a_signal_stays_finite(restorer: Restorer) -> None:
    x = np.zeros(12_000)
    x[:3000] = np.sin(np.arange(3000))
    (out,) = restorer.run(from_array(x), "denoise")
    assert np.isfinite(out.samples).all()


def test_random_weights_are_near_zero_decibel(restorer: Restorer) -> None:
    signal = from_array(np.exp(0.3j * np.arange(6000)))
    (out,) = restorer.run(signal, "reconstruct")
    assert -8 < snr_db(signal.samples, out.samples) < 1.5


def test_blocks_equal_the_whole(restorer: Restorer) -> None:
    signal = from_array(np.exp(0.3j * np.arange(11_000)))
    blocks = [signal.samples[:, i : i + 1700] for i in range(0, 11_000, 1700)]
    parts = list(restorer.stream_blocks(blocks, "denoise", remove_mean=False, batch_size=2))
    whole = restorer.run(signal, "denoise")[0].samples
    np.testing.assert_allclose(np.concatenate(parts, -1)[0], whole, atol=1e-4)


class Clean(Restorer):
    """A network that knows the signal: a tone, whatever the noise."""

    def decode(self, x: torch.Tensor, task: str) -> list[torch.Tensor]:  # type: ignore[override]
        samples = torch.exp(0.3j * torch.arange(x.shape[-1] // 2)).to(torch.complex64)
        return [interleave(samples).expand_as(x)]


@pytest.mark.parametrize("n", [1500, 5120, 9000])
def test_the_decoded_waveform_filters_the_input(restorer: Restorer, n: int) -> None:
    """Where the waveform is right but for its size and phase, as of a decoder that hears where a signal is."""
    rng = np.random.default_rng(0)
    tone = 0.7 * np.exp(1j * (0.3 * np.arange(n) + 1))
    noise = rng.normal(size=(2, n)).T.copy().view(np.complex128)[:, 0] / np.sqrt(2)
    knowing = Clean(restorer.encoder, restorer.decoder)
    refined, decoded = (knowing.variant(refined=r).run(from_array(tone + noise), "denoise")[0] for r in (True, False))
    before = snr_db(tone, tone + noise)
    assert snr_db(tone, refined.samples[0]) > before + 8
    assert snr_db(tone, decoded.samples[0]) < snr_db(tone, refined.samples[0])
    reconstructed = knowing.run(from_array(tone + noise), "reconstruct")[0].samples
    np.testing.assert_array_equal(reconstructed, decoded.samples)


def test_a_signal_too_short_for_a_spectrum_is_decoded_only(restorer: Restorer) -> None:
    signal = from_array(np.exp(0.3j * np.arange(200)))
    refined, decoded = (restorer.variant(refined=r).run(signal, "denoise")[0].samples for r in (True, False))
    np.testing.assert_array_equal(refined, decoded)


def test_each_ablation_changes_the_output(restorer: Restorer) -> None:
    signal = from_array(np.exp(0.3j * np.arange(5120)))
    outputs = []
    for ablation in ("none", "skips", "latent"):
        variant = restorer.variant(ablation=ablation)  # type: ignore[arg-type]
        outputs.append(variant.run(signal, "reconstruct")[0].samples)
    assert not np.allclose(outputs[0], outputs[1])
    assert not np.allclose(outputs[0], outputs[2])
    rows = ablation_table(restorer, signal, "reconstruct", signal)
    assert [row["variant"] for row in rows] == ["as trained", "skips zeroed", "latents zeroed", "random weights"]


def test_weights_round_trip(restorer: Restorer, tmp_path: Path) -> None:
    PlanFormer(restorer.encoder).save_pretrained(tmp_path)
    restorer.save(tmp_path)
    model = PlanFormer.from_pretrained(tmp_path)
    x = np.sin(np.arange(6000) / 9)
    expected = restorer.run(from_array(x), "denoise")[0].samples
    np.testing.assert_allclose(model.denoise(x).samples, expected, atol=1e-5)
    assert len(model.separate(x)) == 2


def test_without_decoder_weights_the_message_says_what_to_do(restorer: Restorer, tmp_path: Path) -> None:
    PlanFormer(restorer.encoder).save_pretrained(tmp_path)
    with pytest.raises(WeightsError, match=r"no decoder.*networks\.decoder"):
        PlanFormer.from_pretrained(tmp_path).denoise(np.sin(np.arange(6000)))
    with pytest.raises(WeightsError, match="without a decoder"):
        PlanFormer(restorer.encoder).reconstruct(np.sin(np.arange(6000)))


def test_without_separation_weights(restorer: Restorer) -> None:
    alone = Restorer(restorer.encoder, restorer.decoder)
    with pytest.raises(WeightsError, match="separation"):
        alone.run(from_array(np.sin(np.arange(6000))), "separate")


def test_decoder_of_another_encoder_is_refused(restorer: Restorer) -> None:
    other = Restorer.random(0)
    with pytest.raises(WeightsError, match="another encoder"):
        Restorer(restorer.encoder, other.decoder)


def test_options_for_files_are_refused_for_arrays(restorer: Restorer) -> None:
    with pytest.raises(InputError, match="only for paths"):
        restorer.run_item(np.ones(10), "denoise", key="x")


def test_decibels() -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 100_000))
    assert abs(snr_db(x, x + 0.1 * noise) - 20) < 0.2
    assert abs(snr_db(x, np.zeros_like(x))) < 1e-6
    assert abs(si_sdr_db(x, 5 * (x + 0.1 * noise)) - 20) < 0.2


def test_running_figures_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5000)) + 1j * rng.normal(size=(2, 5000)) + [[100], [-3j]]
    y = 0.7 * x + 0.2 * rng.normal(size=x.shape)
    centred = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    for size in (5000, 777, 1):
        running = RunningComparison()
        for start in range(0, 5000, size):
            running.add(x[:, start : start + size], y[:, start : start + size])
        expected = {"snr_db": snr_db(*centred), "si_sdr_db": si_sdr_db(*centred)}
        assert running.result() == pytest.approx(expected, abs=1e-6)


def test_running_figures_of_a_perfect_and_of_an_inverted_copy() -> None:
    signal = tone(6000, 300.0)
    assert min(compare(signal, signal).values()) > 100
    inverted = compare(signal, from_array(-signal.samples.real, rate=8000, kind="audio"))
    assert abs(inverted["snr_db"] + 6.02) < 0.01
    assert inverted["si_sdr_db"] > 100


@pytest.mark.parametrize("samples", [70_000, 65_536])
def test_files_are_compared_as_signals_are(samples: int, tmp_path: Path) -> None:
    t = np.arange(samples)
    x = np.stack([np.sin(t / 5), np.cos(t / 9)], 1) / 3
    soundfile.write(tmp_path / "a.wav", x, 8000, subtype="FLOAT")
    soundfile.write(tmp_path / "b.wav", 0.9 * x + 0.01, 8000, subtype="FLOAT")
    a, b = (read(tmp_path / name, channels="each") for name in ("a.wav", "b.wav"))
    found = compare_files(tmp_path / "a.wav", tmp_path / "b.wav")
    assert found["snr_db"] == pytest.approx(compare(a, b)["snr_db"], abs=1e-4)
    assert found["snr_db"] == pytest.approx(20, abs=1e-3)


def test_reference_of_another_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="same recording"):
        compare(tone(100), tone(101))
    x = np.sin(np.arange(131_072))
    soundfile.write(tmp_path / "a.wav", x, 8000)
    soundfile.write(tmp_path / "shorter.wav", x[:65_536], 8000)
    soundfile.write(tmp_path / "stereo.wav", np.stack([x, x], 1), 8000)
    for other, message in (("shorter.wav", "differ in length"), ("stereo.wav", "1 channels")):
        with pytest.raises(InputError, match=message):
            compare_files(tmp_path / "a.wav", tmp_path / other)


@pytest.mark.parametrize("kind", ["audio", "iq", "image"])
def test_picture(kind: str, tmp_path: Path) -> None:
    if kind == "image":
        signal = from_array(np.arange(600, dtype=np.uint8).reshape(20, 30), kind="image")
    else:
        x = np.exp(0.3j * np.arange(6000))
        signal = from_array(x if kind == "iq" else x.real, rate=1e3, kind=kind)  # type: ignore[arg-type]
    path = draw(tmp_path / "compare.png", signal, {"first": signal, "second": signal})
    assert path.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InputError, match=r"\.png"):
        draw(tmp_path / "compare.jpg", signal, {"first": signal})
