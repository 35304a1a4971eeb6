"""Splits, labels, random access, worker safety, and what happens to broken files."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planformer.data import recordings as module
from planformer.data.labels import label_metadata
from planformer.data.recordings import SEQUENCE, RecordingSet, open_recording
from planformer.errors import InputError
from planformer.signals import write_sigmf

RATE = 7.69e6


def write(folder: Path, name: str, emitter: str, sequences: float, rate: float = RATE) -> Path:
    """A ramp, so that a sample's value tells where it stood."""
    n = int(sequences * SEQUENCE)
    samples = (np.arange(n) % 30_000 + 1j * (np.arange(n) // 30_000)) / 32768
    folder.mkdir(parents=True, exist_ok=True)
    labels = label_metadata(emitter=emitter, family="X310", collection="test", protocol="WiFi", day=1)
    return write_sigmf(folder / name, samples, rate, "ci16_le", labels, scale=1.0)


def position(x: np.ndarray) -> np.ndarray:
    return np.rint(x.imag * 32768) * 30_000 + np.rint(x.real * 32768)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "b", "one", "zeta", 10.5)
    write(tmp_path / "a", "two", "alpha", 7)
    write(tmp_path / "a", "three", "alpha", 1)
    return tmp_path


def test_split_is_within_each_file_without_overlap(folder: Path) -> None:
    train, validation = (RecordingSet.from_folder(folder, split) for split in ("train", "validation"))
    everything = RecordingSet.from_folder(folder)
    assert len(everything) == 18
    assert len(train) + len(validation) == len(everything)
    keys = [set(zip(part.recordings.tolist(), part.starts.tolist(), strict=True)) for part in (train, validation)]
    assert not keys[0] & keys[1]
    for number, file in enumerate(train.files):
        count = np.sum(train.recordings == number)
        assert count == max(1, int(0.8 * file.sequences))
        later = validation.starts[validation.recordings == number]
        assert later.size == 0 or later.min() >= train.starts[train.recordings == number].max() + SEQUENCE


def test_sequences_are_the_samples_of_the_file(folder: Path) -> None:
    data = RecordingSet.from_folder(folder)
    chosen = np.array([17, 0, 9, 9])
    x = data.sequences(chosen)
    assert x.shape == (4, SEQUENCE) and x.dtype == np.complex64
    for row, index in zip(x, chosen, strict=True):
        assert np.array_equal(position(row), data.starts[index] + np.arange(SEQUENCE))
    assert np.array_equal(data[3], data.sequences([3])[0])


def test_labels_follow_the_metadata(folder: Path) -> None:
    data = RecordingSet.from_folder(folder)
    assert data.emitters == ["alpha", "zeta"]
    names = [data.emitters[k] for k in data.labels]
    assert names == [str(data.files[k].label("emitter")) for k in data.recordings]
    assert set(data.families) == {"X310"} and set(data.collections) == {"test"} and len(data.protocols) == len(data)


def test_worker_processes_read_the_same(folder: Path, tmp_path: Path) -> None:
    data = RecordingSet.from_folder(folder)
    here = data.sequences(np.arange(6))  # maps are open now
    assert not pickle.loads(pickle.dumps(data))._maps
    (tmp_path / "set").write_bytes(pickle.dumps(data))
    code = (
        "import pickle, sys; import numpy as np; data = pickle.load(open(sys.argv[1], 'rb'))\n"
        "np.save(sys.argv[2], data.sequences(np.arange(6)))"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "set", tmp_path / "there.npy"], check=True, timeout=60)
    assert np.array_equal(np.load(tmp_path / "there.npy"), here)


def test_many_files_do_not_exhaust_descriptors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_MAPS", 2)
    data = RecordingSet.from_folder(folder)
    data.sequences(np.arange(len(data)))
    assert len(data._maps) == 2


def change(path: Path, key: str, value: Any) -> None:
    document = json.loads(path.read_text())
    if value is None:
        del document["global"][key]
    else:
        document["global"][key] = value
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("planformer:emitter", None, "no label planformer:emitter"),
        ("planformer:day", None, "no label planformer:day"),
        ("core:sample_rate", 5e6, "sample rate 5000000.0.*7690000"),
        ("core:sample_rate", "fast", "sample rate 'fast'"),
        ("core:sample_rate", float("nan"), "sample rate nan"),
        ("core:num_channels", 2, "2 channels"),
        ("core:datatype", "cf32_le", "datatype 'cf32_le'"),
    ],
)
def test_wrong_metadata_names_the_file(tmp_path: Path, key: str, value: Any, message: str) -> None:
    path = write(tmp_path, "bad", "a", 2)
    change(path, key, value)
    with pytest.raises(InputError, match=f"bad.sigmf-meta: .*{message}"):
        RecordingSet.from_folder(tmp_path)


@pytest.mark.parametrize(
    ("size", "message"), [(0, "0 samples"), (4, "1 samples, fewer than one sequence"), (41_001, "truncated")]
)
def test_short_and_truncated_data_name_the_file(tmp_path: Path, size: int, message: str) -> None:
    path = write(tmp_path, "bad", "a", 2.1)
    data = path.with_suffix(".sigmf-data")
    data.write_bytes(data.read_bytes()[:size])
    with pytest.raises(InputError, match=f"bad.sigmf-data: .*{message}"):
        open_recording(path)


def test_data_shorter_than_when_written_is_noticed(tmp_path: Path) -> None:
    from planformer.data.simulator import plan, write_recordings

    list(write_recordings(plan(["fm"], 1, 0)[:1], tmp_path, 0))
    data = next(tmp_path.rglob("*.sigmf-data"))
    data.write_bytes(data.read_bytes()[: -4 * SEQUENCE])
    with pytest.raises(InputError, match="truncated"):
        RecordingSet.from_folder(tmp_path)


def test_missing_data_and_garbage_metadata(tmp_path: Path) -> None:
    path = write(tmp_path, "bad", "a", 2)
    path.with_suffix(".sigmf-data").unlink()
    with pytest.raises(InputError, match=r"bad.sigmf-data is missing"):
        open_recording(path)
    for text in ("{", "[]", '{"global": 3}', "\x00\xff", "[" * 200_000):
        path.write_text(text)
        with pytest.raises(InputError, match=r"bad.sigmf-meta"):
            open_recording(path)


def test_file_cut_while_in_use(tmp_path: Path) -> None:
    path = write(tmp_path, "bad", "a", 3)
    data = RecordingSet.from_folder(tmp_path)
    path.with_suffix(".sigmf-data").write_bytes(b"\0" * 4000)
    with pytest.raises(InputError, match=r"bad.sigmf-data: 1000 samples instead of"):
        data.sequences([0])


def test_empty_and_missing_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \*.sigmf-meta"):
        RecordingSet.from_folder(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        RecordingSet.from_folder(tmp_path / "none")
    write(tmp_path, "x", "a", 2)
    with pytest.raises(InputError, match="split"):
        RecordingSet.from_folder(tmp_path, "test")  # type: ignore[arg-type]
