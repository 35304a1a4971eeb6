"""``planformer serve``: starts on localhost, answers, stops; bad options in one line."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.main import main

pytest.importorskip("fastapi")
import httpx

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(PlanFormer.random(seed=0, config=SMALL).save_pretrained(tmp_path_factory.mktemp("w")))


def test_a_real_server(weights: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "planformer", "serve", "--port", str(port), "--weights", weights, "--readers", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(400):
            try:
                assert httpx.get(url + "/health").json()["status"] == "ok"
                break
            except httpx.TransportError:
                assert process.poll() is None
                time.sleep(0.2)
        answer = httpx.post(url + "/embed", content=b"any bytes are a signal", timeout=60)
        assert len(answer.json()["embedding"]) == 64
        assert httpx.get(url + "/health", headers={"host": "evil.example"}).status_code == 400
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130, -signal.SIGINT)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--index", "none"], "planformer index add"), (["--probe", "none.joblib"], "not a classifier")],
)
def test_bad_options(
    weights: str, options: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = [str(tmp_path / value) if value.startswith("none") else value for value in options]
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "--weights", weights, *options])
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err
