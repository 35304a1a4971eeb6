"""reconstruct, denoise, separate on files: each format stays what it was; messages; the streamed path."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from planformer.cli.main import main
from planformer.config import PlanFormerConfig
from planformer.models.planformer import PlanFormer
from planformer.models.restoration import Restorer
from planformer.models.restoration_files import restore_file
from planformer.signals import PreprocessConfig, read, write_sigmf

SMALL = PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small untrained model with decoder and separation networks, stored as a trained one would be."""
    folder = tmp_path_factory.mktemp("weights")
    restorer = Restorer.random(0, SMALL)
    PlanFormer(restorer.encoder).save_pretrained(folder)
    restorer.save(folder)
    return folder


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(arg) for arg in args])
    return int(stop.value.code or 0)


def stereo(path: Path, n: int = 12_000) -> Path:
    t = np.arange(n) / 8000
    x = 0.3 * np.stack([np.sin(2 * np.pi * 440 * t), np.cos(2 * np.pi * 300 * t)], 1)
    soundfile.write(path, x, 8000, subtype="PCM_24")
    return path


def test_wav_stays_wav(tmp_path: Path, weights: Path) -> None:
    source = stereo(tmp_path / "in.wav")
    assert run("denoise", source, "-o", tmp_path / "out.wav", "--weights", weights) == 0
    before, after = soundfile.info(str(source)), soundfile.info(str(tmp_path / "out.wav"))
    for name in ("samplerate", "channels", "frames", "format", "subtype"):
        assert getattr(before, name) == getattr(after, name)


def test_denoise_filters_the_input_or_writes_what_was_decoded(tmp_path: Path, weights: Path) -> None:
    source, outputs = stereo(tmp_path / "in.wav"), []
    for name, more in (("filtered.wav", []), ("decoded.wav", ["--decoded"])):
        assert run("denoise", source, "-o", tmp_path / name, "--weights", weights, *more) == 0
        outputs.append(soundfile.read(tmp_path / name)[0])
    model = PlanFormer.from_pretrained(weights)
    for output, refined in zip(outputs, (True, False), strict=True):
        expected = np.clip(model.denoise(source, refined=refined).samples.real.T, -1, 1)  # PCM ends there
        np.testing.assert_allclose(output, expected, atol=2e-6)
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3


def test_suffix_is_the_inputs_where_none_is_given(tmp_path: Path, weights: Path) -> None:
    run("denoise", stereo(tmp_path / "in.wav"), "-o", tmp_path / "out", "--weights", weights)
    assert (tmp_path / "out.wav").is_file()


@pytest.mark.parametrize("datatype", ["ci16_le", "cf32_le"])
def test_sigmf_stays_sigmf(tmp_path: Path, weights: Path, datatype: str) -> None:
    x = 0.4 * np.exp(0.2j * np.arange(11_000))
    metadata = {"global": {"core:author": "somebody"}, "captures": [{"core:sample_start": 0, "core:frequency": 2.4e9}]}
    source = write_sigmf(tmp_path / "in", x, 1e6, datatype, metadata)
    assert run("reconstruct", source, "-o", tmp_path / "out.sigmf-meta", "--weights", weights) == 0
    document = json.loads((tmp_path / "out.sigmf-meta").read_text())
    assert document["global"]["core:datatype"] == datatype
    assert document["global"]["core:author"] == "somebody"
    assert document["captures"][0]["core:frequency"] == 2.4e9
    assert read(tmp_path / "out.sigmf-meta").n == 11_000


def test_png_stays_png_of_its_size(tmp_path: Path, weights: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (24, 30, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    args = ("-o", tmp_path / "out.png", "--weights", weights, "--compare", tmp_path / "compare.png")
    assert run("reconstruct", tmp_path / "in.png", *args) == 0
    with Image.open(tmp_path / "out.png") as out:
        assert (out.format, out.size, out.mode) == ("PNG", (30, 24), "RGB")
    assert (tmp_path / "compare.png").is_file()


def test_separate_writes_two_files(tmp_path: Path, weights: Path) -> None:
    source = stereo(tmp_path / "in.wav", 7000)
    assert run("separate", source, "-o", tmp_path / "out.wav", "--weights", weights) == 0
    assert {p.name for p in tmp_path.glob("out*")} == {"out-a.wav", "out-b.wav"}
    assert soundfile.info(str(tmp_path / "out-b.wav")).frames == 7000


def test_reference_and_ablation_table(tmp_path: Path, weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = stereo(tmp_path / "in.wav", 6000)
    args = ("-o", tmp_path / "out.wav", "--weights", weights, "--reference", source, "--ablate")
    assert run("denoise", source, *args) == 0
    printed = capsys.readouterr().out
    assert "SI-SDR" in printed
    for variant in ("as trained", "skips zeroed", "latents zeroed", "random weights"):
        assert variant in printed


def test_streamed_equals_read_restored_and_written(tmp_path: Path, weights: Path) -> None:
    source = stereo(tmp_path / "in.wav", 9000)
    model = PlanFormer.from_pretrained(weights)
    (target,) = restore_file(model.restorer, "denoise", source, tmp_path / "out.wav", batch_size=2)
    expected = model.denoise(source).samples.real
    np.testing.assert_allclose(read(target, channels="each").samples.real, np.clip(expected, -1, 1), atol=1e-4)


def test_streamed_file_keeps_the_relation_of_loud_and_quiet(tmp_path: Path) -> None:
    """With normalise="signal" a file is read twice: its power first."""
    config = SMALL.model_copy(update={"preprocess": PreprocessConfig(normalise="signal")})
    restorer = Restorer.random(0, config)
    x = 0.5 * np.sin(np.arange(20_000) / 5)
    x[10_000:] /= 50
    soundfile.write(tmp_path / "in.wav", x, 8000, subtype="FLOAT")
    (target,) = restore_file(restorer, "denoise", tmp_path / "in.wav", tmp_path / "out.wav", batch_size=2)
    expected = restorer.run(read(tmp_path / "in.wav", channels="each"), "denoise")[0].samples.real
    np.testing.assert_allclose(read(target, channels="each").samples.real, expected, atol=1e-5)


def test_an_array_file(tmp_path: Path, weights: Path) -> None:
    np.save(tmp_path / "in.npy", np.sin(np.arange(6000) / 9).astype(np.float32))
    assert run("denoise", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--weights", weights, "--kind", "array") == 0
    assert np.load(tmp_path / "out.npy").shape == (1, 6000)


def test_without_decoder_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    PlanFormer.random(0, SMALL).save_pretrained(tmp_path / "weights")
    source = stereo(tmp_path / "in.wav")
    assert run("denoise", source, "-o", tmp_path / "out.wav", "--weights", tmp_path / "weights") == 2
    message = capsys.readouterr().err.strip()
    assert message.count("\n") == 0
    assert "no decoder" in message
    assert not (tmp_path / "out.wav").exists()


@pytest.mark.parametrize(
    ("output", "message"), [("in.wav", "input itself"), ("missing/out.wav", "no folder"), ("out.png", "picture size")]
)
def test_bad_outputs(
    tmp_path: Path, weights: Path, capsys: pytest.CaptureFixture[str], output: str, message: str
) -> None:
    source = stereo(tmp_path / "in.wav", 6000)
    assert run("denoise", source, "-o", tmp_path / output, "--weights", weights) == 2
    assert message in capsys.readouterr().err
