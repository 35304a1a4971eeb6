"""The web service: answers equal the library's, limits hold, broken and hostile uploads harm nobody."""

from __future__ import annotations

import asyncio
import io
import signal
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image

pytest.importorskip("fastapi")
import httpx
from fastapi.testclient import TestClient

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.index import fill
from planformer.deploy.index import Index
from planformer.deploy.service import create_app
from planformer.deploy.service_batching import Batcher
from planformer.deploy.service_limits import Limits
from planformer.deploy.service_reader import ReaderPool, TooLongError
from planformer.errors import InputError

SMALL = PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4)
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def model() -> PlanFormer:
    return PlanFormer.random(seed=0, config=SMALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    soundfile.write(folder / "a.wav", RNG.standard_normal(3000) / 10, 8000)
    soundfile.write(folder / "b.wav", np.sin(np.arange(5000) / 4) / 2, 8000)
    Image.fromarray(RNG.integers(0, 255, (12, 9, 3), np.uint8)).save(folder / "c.png")
    (folder / "d.txt").write_text("any bytes are a signal")
    np.save(folder / "e.npy", (RNG.standard_normal(2000) + 1j * RNG.standard_normal(2000)).astype(np.complex64))
    return folder


@pytest.fixture(scope="module")
def client(model: PlanFormer, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    index = Index.create(tmp_path_factory.mktemp("i") / "idx", fingerprint=model.fingerprint, width=64)
    fill(index, model, sorted(folder.iterdir()))
    limits = Limits(max_bytes=1 << 20, max_samples=50_000, readers=1)
    with TestClient(create_app(model, index=index, limits=limits)) as client:
        yield client


def send(client: TestClient, path: str, file: Path, name: str | None = None, **query: Any) -> httpx.Response:
    return client.post(path, files={"file": (name or file.name, file.read_bytes())}, params=query)


@pytest.mark.parametrize("name", ["a.wav", "c.png", "d.txt", "e.npy"])
def test_embed_equals_the_library(client: TestClient, model: PlanFormer, folder: Path, name: str) -> None:
    answer = send(client, "/embed", folder / name)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    np.testing.assert_allclose(found["embedding"], model.embed(folder / name), atol=1e-5)
    assert found["fingerprint"] == model.fingerprint
    assert found["channels"] == (3 if name == "c.png" else 1)
    assert "provenance" not in found


def test_raw_bytes_and_numbers(client: TestClient, model: PlanFormer, folder: Path) -> None:
    raw = client.post("/embed", content=(folder / "a.wav").read_bytes())
    np.testing.assert_allclose(raw.json()["embedding"], model.embed(folder / "a.wav"), atol=1e-5)
    z = np.load(folder / "e.npy")
    expected = model.embed(z, rate=1000.0)
    numbers = {"samples": z.real.tolist(), "imaginary": z.imag.tolist()}
    np.testing.assert_allclose(client.post("/embed?rate=1000", json=numbers).json()["embedding"], expected, atol=1e-5)
    iq = client.post("/embed?datatype=cf32_le&rate=1000", content=z.tobytes())
    assert iq.json()["kind"] == "iq"
    np.testing.assert_allclose(iq.json()["embedding"], expected, atol=1e-5)
    rows = client.post("/embed", json={"samples": [[0.0, 1.0, 5.0], [1.0, 0.0, 2.0]]}).json()
    assert (rows["channels"], len(rows["embedding"])) == (2, 128)
    table = client.post("/embed?suffix=.csv", content=b"1,2\n3,5\n4,1\n").json()
    assert table["kind"] == "array"


def test_preview_is_small_and_shows_the_tone(client: TestClient, folder: Path) -> None:
    import base64

    shown = send(client, "/embed", folder / "b.wav", preview=True).json()["preview"]
    picture = shown["spectrogram"]
    levels = np.frombuffer(base64.b64decode(picture["levels"]), np.uint8).reshape(picture["bins"], picture["columns"])
    peak = picture["high_hz"] * (1 - levels.sum(axis=1).argmax() / picture["bins"])
    assert peak == pytest.approx(8000 / (8 * np.pi), abs=80)  # sin(n / 4)
    assert max(shown["envelope"]["high"]) == pytest.approx(1, abs=1e-3)
    assert send(client, "/embed", folder / "d.txt", preview=True).status_code == 200


def test_similar_finds_the_file_itself(client: TestClient, folder: Path) -> None:
    found = send(client, "/similar", folder / "b.wav", k=2).json()
    assert found["neighbours"][0]["path"].endswith("b.wav")
    assert found["neighbours"][0]["score"] == pytest.approx(1, abs=1e-5)
    assert (len(found["neighbours"]), found["items"], found["recall"]) == (2, 5, None)
    assert send(client, "/similar", folder / "b.wav", k=0).status_code == 422


def test_denoise_and_separate_equal_the_library(client: TestClient, model: PlanFormer, folder: Path) -> None:
    answer = send(client, "/denoise", folder / "b.wav")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "audio/wav"
    wave, rate = soundfile.read(io.BytesIO(answer.content))
    expected = model.denoise(folder / "b.wav").samples[0].real
    scale = max(1.0, float(np.abs(expected).max()))
    assert rate == 8000
    np.testing.assert_allclose(wave, expected / scale, atol=1e-3)
    picture = send(client, "/denoise", folder / "c.png")
    assert Image.open(io.BytesIO(picture.content)).size == (9, 12)
    archive = zipfile.ZipFile(io.BytesIO(send(client, "/separate", folder / "e.npy").content))
    assert archive.namelist() == ["source-a.npy", "source-b.npy"]
    first = np.load(io.BytesIO(archive.read("source-a.npy")))
    np.testing.assert_allclose(first, model.separate(folder / "e.npy")[0].samples, atol=1e-4)


def test_status_and_openapi(client: TestClient, model: PlanFormer) -> None:
    assert client.get("/health").json()["status"] == "ok"
    info = client.get("/info").json()
    assert (info["fingerprint"], info["width"], info["index_items"]) == (model.fingerprint, 64, 5)
    document = client.get("/openapi.json").json()
    assert {"/embed", "/denoise", "/separate", "/similar", "/health", "/info"} <= document["paths"].keys()
    assert "multipart/form-data" in document["paths"]["/embed"]["post"]["requestBody"]["content"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.wav", b"no sound at all", "named .wav but its content is no sound file"),
        ("x.png", b"\x89PNG\r\n\x1a\n broken", "damaged or not a readable image"),
        ("x.wav", b"", "empty"),
        ("x.h5", b"\x89HDF\r\n\x1a\n" + bytes(99), "no HDF5"),
        ("x.json", b'{"global": {"core:datatype": "cf32_le", "core:dataset": "/etc/passwd"}}', "one .sigmf archive"),
        ("x.sigmf-meta", b'{"global": {"core:datatype": "cf32_le"}}', "one .sigmf archive"),
        ("x.mp4", b"#EXTM3U\n/etc/passwd\n", "playlist"),
        ("x.npy", b"\x93NUMPY\x01\x00", "damaged"),
    ],
)
def test_a_broken_file_gets_the_readers_message(
    client: TestClient, folder: Path, name: str, content: bytes, says: str
) -> None:
    answer = client.post("/embed", files={"file": (name, content)})
    assert answer.status_code == 422
    assert says in answer.json()["detail"]
    assert "/tmp" not in answer.json()["detail"]
    assert send(client, "/embed", folder / "a.wav").status_code == 200


def test_bad_requests(client: TestClient) -> None:
    assert "field 'file'" in client.post("/embed", files={"wrong": b"1"}).json()["detail"]
    for body in (b"{", b"[]", b'{"samples": "abc"}', b'{"samples": [[1, 2], [3]]}'):
        answer = client.post("/embed", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert "samples" in answer.json()["detail"]
    assert client.post("/embed?kind=smell", content=b"x").status_code == 422
    assert client.post("/embed?rate=-1", content=b"x").status_code == 422


def test_size_and_length_limits(client: TestClient) -> None:
    too_large = bytes(2 << 20)
    assert client.post("/embed", content=too_large).status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(32):
            yield bytes(1 << 16)

    assert client.post("/embed", content=chunks()).status_code == 413  # no length stated
    wave = io.BytesIO()
    soundfile.write(wave, RNG.standard_normal(60_000) / 10, 8000, format="WAV")
    answer = client.post("/embed", content=wave.getvalue())
    assert answer.status_code == 413
    assert "50,000 samples" in answer.json()["detail"]


def test_the_clients_name_is_never_used(model: PlanFormer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    with TestClient(create_app(model, limits=Limits(readers=1))) as client:
        read = client.app.state.service.readers.read  # type: ignore[attr-defined]
        monkeypatch.setattr(
            client.app.state.service.readers,  # type: ignore[attr-defined]
            "read",
            lambda path, **request: seen.append(str(path)) or read(path, **request),
        )
        for name in ("../../../tmp/evil.wav", "evil\x00.wav", "/etc/cron.d/evil.wav", "evil.sh"):
            send(client, "/embed", folder / "a.wav", name)
    assert len(seen) == 4
    assert all(Path(path).name in ("upload.wav", "upload") and "evil" not in path for path in seen)
    assert not any(Path(path).exists() for path in seen)  # and nothing is left behind


def test_token(model: PlanFormer, folder: Path) -> None:
    with TestClient(create_app(model, token="secret", limits=Limits(readers=1))) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/info").status_code == 401
        assert send(client, "/embed", folder / "d.txt").status_code == 401
        client.headers["Authorization"] = "Bearer secret"
        assert client.get("/info").status_code == 200
        assert client.post("/embed", content=b"text").status_code == 200
        assert client.post("/similar", content=b"text").status_code == 404


def test_only_known_hosts(model: PlanFormer) -> None:
    with TestClient(create_app(model, hosts=["localhost"], limits=Limits(readers=1))) as client:
        assert client.get("/health").status_code == 400  # it calls itself testserver
        assert client.get("/health", headers={"host": "localhost:8000"}).status_code == 200


def run_many(model: PlanFormer, limits: Limits, count: int, slow: bool = False) -> tuple[list[int], dict[str, Any]]:
    app = create_app(model, limits=limits)

    async def go() -> tuple[list[int], dict[str, Any]]:
        service = app.state.service
        transport = httpx.ASGITransport(app=app)
        async with service.running(app), httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            gate = threading.Event()
            service.batcher.call(gate.wait)  # the network is busy while they come in
            posts = [asyncio.create_task(client.post("/embed", content=f"text {i}")) for i in range(count)]
            if not slow:
                while sum(task.done() for task in posts) + service.batcher._queue.qsize() < count:
                    await asyncio.sleep(0.01)
                gate.set()
            answers = await asyncio.gather(*posts)
            gate.set()
            return [a.status_code for a in answers], (await client.get("/health")).json()

    return asyncio.run(go())


def test_concurrent_requests_share_batches_and_the_queue_is_bounded(model: PlanFormer) -> None:
    codes, health = run_many(model, Limits(readers=1, max_pending=6), 9)
    assert sorted(codes) == [200] * 6 + [429] * 3
    assert (health["embedded"], health["batches"], health["pending"]) == (6, 1, 0)


def test_a_request_that_waits_too_long_is_given_up(model: PlanFormer) -> None:
    codes, health = run_many(model, Limits(readers=1, max_wait=2.0), 2, slow=True)
    assert codes == [503, 503]
    assert health["pending"] == 0


def test_the_networks_threads_are_its_own(model: PlanFormer) -> None:
    """An idle team of OpenMP workers beside the network's halves its speed, so each thread has its own number."""
    before = torch.get_num_threads()
    batcher = Batcher(model, threads=before + 1)
    assert batcher.call(torch.get_num_threads).result() == before + 1
    assert torch.get_num_threads() == before
    batcher.close()
    torch.set_num_threads(before)  # threads that start later take the number that was set last


def test_batched_equals_alone(model: PlanFormer) -> None:
    batcher = Batcher(model, max_batch=4)
    items = [RNG.standard_normal((c, k, SMALL.segment)).astype(np.complex64) for c, k in ((1, 1), (2, 3), (1, 6))]
    futures = [batcher.embed(item) for item in items]
    for item, future in zip(items, futures, strict=True):
        np.testing.assert_allclose(future.result().embedding, model.embed_segments(item).reshape(-1), atol=1e-5)
    with pytest.raises(ZeroDivisionError):
        batcher.call(lambda: 1 / 0).result()
    wrong = batcher.embed(np.ones((1, 1, 7), np.complex64))
    assert wrong.exception() is not None
    assert batcher.embed(items[0]).result().segments == 1  # the thread lives on
    batcher.close()


def test_a_reading_process_that_hangs_or_dies_is_replaced(folder: Path) -> None:
    pool = ReaderPool(1, seconds=60)
    pool.read(folder / "a.wav", mode="signal")
    process = pool._all[0]._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)  # it hangs, however fast the machine is
    pool.seconds = 0.2
    with pytest.raises(InputError, match="took longer"):
        pool.read(folder / "a.wav", mode="signal")
    assert process.poll() is not None
    pool.seconds = 60
    assert pool.read(folder / "a.wav", mode="signal").facts["samples"] == 3000
    with pytest.raises(InputError, match="crashed"):
        pool.read(folder / "a.wav")  # no mode: an error that the process does not expect
    with pytest.raises(TooLongError):
        pool.read(folder / "a.wav", mode="signal", max_samples=2999)
    pool.close()


def test_a_file_that_needs_too_much_memory_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "upload.npy"
    with path.open("wb") as stream:  # 4 GB of zeros that take no room on the disk
        header = {"descr": "<c8", "fortran_order": False, "shape": (1 << 29,)}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(stream.tell() + (8 << 29))
    pool = ReaderPool(1, seconds=60, memory=1 << 30)
    with pytest.raises(InputError, match=r"memory|allocate|crashed"):
        pool.read(path, mode="signal")
    assert pool.read(folder / "a.wav", mode="signal").facts["samples"] == 3000
    pool.close()


def test_scores_of_a_probe(model: PlanFormer, folder: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    x = model.embed_many([folder / "a.wav", folder / "b.wav"])
    probe = LogisticRegression().fit(np.repeat(x, 3, axis=0), np.repeat(["noise", "tone"], 3))
    with TestClient(create_app(model, probe=probe, limits=Limits(readers=1))) as client:
        scores = send(client, "/embed", folder / "b.wav").json()["scores"]
        assert scores["tone"] > scores["noise"]
        assert sum(scores.values()) == pytest.approx(1)
        assert send(client, "/embed", folder / "c.png").json()["scores"] is None  # three channels
    with pytest.raises(InputError, match="predict_proba"):
        create_app(model, probe=object())
