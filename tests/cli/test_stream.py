"""``planformer stream``: any pipe, any chunk size, JSON lines."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.main import main
from planformer.cli.stream import read_chunks
from planformer.signals.sigmf_files import Datatype

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)


@pytest.fixture(scope="module")
def small() -> PlanFormer:
    return PlanFormer.random(seed=0, config=SMALL)


@pytest.fixture(scope="module")
def weights(small: PlanFormer, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(small.save_pretrained(tmp_path_factory.mktemp("w")))


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["stream", *map(str, args)])
    return int(caught.value.code or 0)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def sound(n: int) -> np.ndarray:
    return (8000 * np.random.default_rng(0).standard_normal(n)).astype("<i2")


def test_running_embedding_of_pcm(
    tmp_path: Path, small: PlanFormer, weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x = sound(5000)
    (tmp_path / "x.raw").write_bytes(x.tobytes() + b"\x01")  # half a sample at the end
    assert run(tmp_path / "x.raw", "--rate", 2000, "--hilbert", "exact", "--weights", weights) == 0
    found = lines(capsys)
    assert [line["end"] for line in found] == [1.0, 2.0, 2.5]
    for line in found:
        expected = small.embed(x[: round(line["end"] * 2000)], rate=2000, kind="audio")
        np.testing.assert_allclose(line["embedding"], expected, atol=1e-5)


def test_windows_of_iq_from_standard_input(small: PlanFormer, weights: str) -> None:
    x = np.random.default_rng(0).integers(0, 255, 8000, np.uint8)  # 4,000 pairs, as rtl_sdr writes them
    command = [sys.executable, "-m", "planformer", "stream", "-", "--rate", "1000", "-t", "cu8"]
    command += ["--window", "1", "--hop", "0.5", "--weights", weights]
    result = subprocess.run(command, input=x.tobytes(), capture_output=True, check=True)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["start"] for line in found] == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    iq = (x.astype(np.float32) - 128).view(np.complex64)
    np.testing.assert_allclose(found[2]["embedding"], small.embed(iq[1000:2000], rate=1000, kind="iq"), atol=1e-5)


def test_silence_is_null_until_something_comes(
    tmp_path: Path, weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.concatenate([np.zeros(1000, "<i2"), sound(1000)])
    (tmp_path / "x.raw").write_bytes(x.tobytes())
    assert run(tmp_path / "x.raw", "--rate", 1000, "--weights", weights) == 0
    first, second = lines(capsys)
    assert first["embedding"] is None
    assert len(second["embedding"]) == 64


def test_chunks_survive_any_split() -> None:
    class Trickle(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return self.read(7)

    x = np.arange(40, dtype="<i2")
    chunks = list(read_chunks(Trickle(x.tobytes()), Datatype.parse("ri16_le", "here"), 2))
    np.testing.assert_array_equal(np.concatenate(chunks, axis=1) * 2**15, x.reshape(-1, 2).T)


@pytest.mark.parametrize(
    "args",
    [
        ["{tmp}/absent", "--rate", "8000"],
        ["{tmp}/x.raw", "--rate", "8000", "-t", "mp3"],
        ["{tmp}/x.raw", "--rate", "0"],
        ["{tmp}/x.raw", "--rate", "8000", "--kind", "image"],
        ["{tmp}/x.raw", "--rate", "8000", "--every", "0"],
        ["{tmp}/x.raw", "--rate", "8000", "--hilbert", "best"],
        ["{tmp}/x.raw", "--rate", "8000", "--kind", "iq"],
        ["{tmp}/empty", "--rate", "8000"],
        ["{tmp}/x.raw"],
    ],
)
def test_bad_input_exits_2(args: list[str], tmp_path: Path, weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.raw").write_bytes(sound(100).tobytes())
    (tmp_path / "empty").write_bytes(b"")
    assert run(*(arg.replace("{tmp}", str(tmp_path)) for arg in args), "--weights", weights) == 2
    assert "Traceback" not in capsys.readouterr().err
