"""Ray Data: two workers give the plain engine's rows, a killed one loses nothing, a missing package says what to do."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from PIL import Image

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.main import main
from planformer.deploy import scale
from planformer.deploy.corpus import Row, RowOptions, embed_rows
from planformer.errors import InputError, MissingExtraError

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["embed", *map(str, args)])
    return int(caught.value.code or 0)


@pytest.fixture(scope="module")
def model() -> PlanFormer:
    return PlanFormer.random(seed=0, config=SMALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of three kinds and of one to three channels, and one that can't be read."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for i in range(24):
        soundfile.write(folder / f"{i:02}.wav", rng.standard_normal(2000 + 200 * i) / 10, 8000)
    Image.fromarray(rng.integers(0, 255, (9, 9, 3), np.uint8)).save(folder / "picture.png")
    (folder / "note.txt").write_text("any bytes are a signal")
    (folder / "broken.wav").write_bytes(b"RIFF\x00\x00\x00\x00WAVEjunk")
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """One cluster of two cores for all tests here."""
    try:
        ray = scale.import_ray()
    except MissingExtraError as error:
        pytest.skip(str(error))
    with ExitStack() as stack:
        for chance in (1, 2, 3):  # Ray gives its own processes 30 s to start, which a busy machine may not keep
            try:
                stack.enter_context(scale._cluster(ray, 2))
                break
            except scale.WorkersLostError:
                if chance == 3:
                    raise
        yield ray


@pytest.mark.slow  # starting Ray takes longer than all other tests of the folder together
def test_two_workers_equal_the_plain_engine(
    cluster: Any, model: PlanFormer, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same table: names, order, types, metadata; the numbers to 1e-6. Relative paths are the driver's."""
    weights = model.save_pretrained(tmp_path / "weights")
    monkeypatch.chdir(folder.parent)
    tables = []
    for engine in (["ray", "--workers", 2], ["torch"]):
        out = tmp_path / f"{engine[0]}.parquet"
        assert run(folder.name, "-r", "-k", "-o", out, "--weights", weights, "--engine", *engine) == 1
        tables.append(pq.read_table(out))
    ray, plain = tables
    assert ray.schema.equals(plain.schema, check_metadata=True)
    assert plain.num_rows == 26
    for name in ("path", "kind", "channels", "segments"):
        assert ray[name].to_pylist() == plain[name].to_pylist()
    for a, b in zip(ray["embedding"].to_pylist(), plain["embedding"].to_pylist(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=0)


@pytest.mark.slow  # starting Ray takes longer than all other tests of the folder together
def test_a_bad_file_ends_the_run_with_its_name_and_the_other_engine_finishes_it(
    cluster: Any, model: PlanFormer, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = model.save_pretrained(tmp_path / "weights")
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"RIFF\x00\x00\x00\x00WAVEjunk")
    files = [folder / "00.wav", folder / "01.wav", bad]
    out = tmp_path / "o.parquet"
    assert run(*files, "-o", out, "--weights", weights, "--engine", "ray", "--workers", 1) == 2
    assert "bad.wav" in capsys.readouterr().err
    soundfile.write(bad, np.sin(np.arange(900)), 8000)
    assert run(*files, "-o", out, "--weights", weights) == 0
    assert pq.read_table(out)["path"].to_pylist() == [str(file) for file in files]


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    """SIGKILL to the process of one worker while it works: every row arrives, once, with the plain numbers."""
    import psutil

    model = PlanFormer.random(seed=0, config=PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4))
    rng = np.random.default_rng(0)
    files = [tmp_path / f"{i:03}.wav" for i in range(120)]
    for file in files:
        soundfile.write(file, rng.standard_normal(30_000) / 10, 8000)
    killed: list[int] = []
    rows: list[Row] = []
    for row in scale.ray_rows(model, files, RowOptions(batch_size=4), workers=2):
        rows.append(row)
        if not killed:
            family = psutil.Process().children(recursive=True)
            at_work = [child for child in family if "MapWorker" in " ".join(child.cmdline())]
            assert len(at_work) == 2
            at_work[0].send_signal(signal.SIGKILL)
            killed.append(at_work[0].pid)
    assert killed
    assert len(rows) == len(files)
    found = {row.path: row for row in rows}
    assert set(found) == {str(file) for file in files}
    for row in embed_rows(model, files, RowOptions()):
        np.testing.assert_allclose(found[row.path].embedding, row.embedding, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_a_file_that_kills_its_worker_every_time_is_a_bad_file(cluster: Any, tmp_path: Path) -> None:
    class Fragile(PlanFormer):  # local, so that it travels to the workers by value
        def iter_embed(self, items: Any, **options: Any) -> Any:
            import os
            import signal

            if any("poison" in str(item) for item in items):
                os.kill(os.getpid(), signal.SIGKILL)
            return super().iter_embed(items, **options)

    model = Fragile(PlanFormer.random(seed=0, config=SMALL).encoder)
    files = [tmp_path / name for name in ("a.txt", "poison.txt", "b.txt", "c.txt")]
    for file in files:
        file.write_text(f"text of {file.name}")
    rows = {Path(row.path).name: row for row in scale.ray_rows(model, files, RowOptions(), workers=1)}
    assert set(rows) == {"a.txt", "poison.txt", "b.txt", "c.txt"}
    assert [name for name, row in rows.items() if row.error is not None] == ["poison.txt"]
    assert "brought its worker down 3 times" in str(rows["poison.txt"].error)


def test_without_ray_the_line_says_how_to_get_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"planformer\[scale\]"):
        scale.import_ray()
    assert run(folder / "00.wav", "-o", tmp_path / "o.csv", "--engine", "ray") == 2
    assert "pip install 'planformer[scale]'" in capsys.readouterr().err


def test_bad_options(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder / "00.wav", "-o", tmp_path / "o.csv", "--engine", "steam") == 2
    assert run(folder / "00.wav", "-o", tmp_path / "o.csv", "--workers", "2") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_file_under_two_names_has_two_rows(model: PlanFormer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's part alone: what Ray would call in another process."""
    monkeypatch.chdir(folder)
    worker = scale.Worker.__new__(scale.Worker)
    worker._model, worker._options = model, RowOptions()
    ledger = scale.Ledger()
    worker._begin, worker._end = ledger.begin, ledger.end
    names = ["note.txt", str(folder / "note.txt"), "broken.wav"]
    table = pa.table({"name": names, "file": [str(folder / Path(name).name) for name in names]})
    bad, first, second = sorted(scale._unpack(worker(table)), key=lambda row: row.error is None)
    assert [first.path, second.path, bad.path] == names
    assert np.array_equal(first.embedding, second.embedding)
    assert str(bad.error).startswith("broken.wav: ")  # the user's name for it, not the absolute path
    assert not ledger._counts


def test_a_group_in_which_a_worker_died_goes_file_by_file(model: PlanFormer, folder: Path) -> None:
    worker = scale.Worker.__new__(scale.Worker)
    worker._model, worker._options = model, RowOptions()
    ledger = scale.Ledger()
    worker._begin, worker._end = ledger.begin, ledger.end
    files = [str(folder / name) for name in ("note.txt", "00.wav", "01.wav")]
    for key in (f"group of {files[0]}", files[1], files[1], files[1]):  # it died in the group, then thrice at 00.wav
        ledger.begin(key)
    rows = list(scale._unpack(worker(pa.table({"name": files, "file": files}))))
    assert [row.path for row in rows if row.error is None] == [files[0], files[2]]
    assert "00.wav: brought its worker down 3 times" in str(rows[1].error)


def test_rows_survive_the_journey() -> None:
    """Embeddings of different widths, zeros at their end, and errors, through Arrow and back."""
    rows = [
        Row("a", "image", 3, 1, np.array([1.5, 0, 0], np.float32)),
        Row("b", "audio", 1, 9, np.zeros(1, np.float32)),
        Row("c", error=InputError("c: damaged")),
    ]
    back = list(scale._unpack(scale._pack(rows)))
    assert [(r.path, r.kind, r.channels, r.segments) for r in back] == [
        ("a", "image", 3, 1),
        ("b", "audio", 1, 9),
        ("c", "", 0, 0),
    ]
    assert [r.embedding.tolist() for r in back] == [[1.5, 0, 0], [0], []]
    assert [str(r.error) for r in back] == ["None", "None", "c: damaged"]


CLIENT = """
import ray, sys
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False, _node_ip_address=sys.argv[1].split(":")[0])
print("inside", ray.get(ray.remote(lambda: 6 * 7).remote()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("token", ["right", "wrong", "none"])
def test_a_cluster_of_our_own_refuses_who_has_no_token(token: str) -> None:
    """Ray's ports are open to the network, and who is let in can run code."""
    if importlib.util.find_spec("ray") is None:  # not importorskip: the token must be there before the import
        pytest.skip("ray is not installed")
    ray = scale.import_ray()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    if token != "none":
        environment["RAY_AUTH_MODE"] = "token"
        environment["RAY_AUTH_TOKEN"] = os.environ["RAY_AUTH_TOKEN"] if token == "right" else "0" * 64
    with scale._cluster(ray, 1):
        address = ray.get_runtime_context().gcs_address
        command = [sys.executable, "-c", CLIENT, address]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
            inside, said = "inside 42" in done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            inside, said = b"inside" in (error.stdout or b""), str(error.stderr)
    assert inside == (token == "right"), said
