"""Every loader on a miniature tree in the official layout, and what it says when something is missing or wrong."""

from __future__ import annotations

import csv
import gzip
import json
import struct
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from PIL import Image

from planformer.errors import InputError
from planformer.evaluation.tasks import TASKS, get_task
from planformer.evaluation.tasks.images import FashionMnist, Mnist, PathMnist

RNG = np.random.default_rng(0)


def wav(path: Path, rate: int = 8000, n: int = 800) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, RNG.standard_normal(n) * 0.1, rate)
    return path


def idx(path: Path, values: np.ndarray, *, zipped: bool = True) -> None:
    header = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    raw = header + values.astype(np.uint8).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if zipped else raw)


def mnist_tree(root: Path, counts: tuple[int, int] = (20, 10), zipped: bool = True) -> None:
    for part, count in zip(("train", "t10k"), counts, strict=True):
        end = ".gz" if zipped else ""
        idx(root / f"{part}-images-idx3-ubyte{end}", RNG.integers(0, 255, (count, 28, 28)), zipped=zipped)
        idx(root / f"{part}-labels-idx1-ubyte{end}", np.arange(count) % 10, zipped=zipped)


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_layout(tmp_path: Path, zipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mnist, "counts", (20, 10))
    mnist_tree(tmp_path / "mnist", zipped=zipped)
    data = get_task("mnist").load(tmp_path)
    assert data.items.shape == (30, 28, 28) and data.test is not None and data.test.sum() == 10
    assert data.class_names == list("0123456789")
    mnist_tree(tmp_path / "FashionMNIST" / "raw", zipped=zipped)
    assert "Ankle boot" in get_task("fashion-mnist").load(tmp_path).class_names


def test_mnist_wrong_counts_and_damaged_files(tmp_path: Path) -> None:
    mnist_tree(tmp_path / "mnist")
    with pytest.raises(InputError, match="20 images and 20 labels where 60000"):
        get_task("mnist").load(tmp_path)
    broken = tmp_path / "fashion-mnist"
    mnist_tree(broken)
    whole = (broken / "train-images-idx3-ubyte.gz").read_bytes()
    (broken / "train-images-idx3-ubyte.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a readable IDX file"):
        FashionMnist().load(tmp_path)
    (broken / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x09abc"))
    with pytest.raises(InputError, match="download it again"):
        FashionMnist().load(tmp_path)


def test_pathmnist_layout(tmp_path: Path) -> None:
    arrays = {}
    for part, count in (("train", 18), ("val", 9), ("test", 9)):
        arrays[f"{part}_images"] = RNG.integers(0, 255, (count, 64, 64, 3), dtype=np.uint8)
        arrays[f"{part}_labels"] = (np.arange(count) % 9)[:, None].astype(np.uint8)
    np.savez(tmp_path / "pathmnist_64.npz", **arrays)
    data = get_task("pathmnist").load(tmp_path)
    assert len(data) == 36 and data.test is not None and data.test.sum() == 9 and len(data.class_names) == 9
    np.savez(tmp_path / "pathmnist_64.npz", **{k: v[:, :28, :28] if "images" in k else v for k, v in arrays.items()})
    with pytest.raises(InputError, match=r"28, 28, 3"):
        PathMnist().load(tmp_path)
    del arrays["val_labels"]
    np.savez(tmp_path / "pathmnist_64.npz", **arrays)
    with pytest.raises(InputError, match="no array val_labels"):
        PathMnist().load(tmp_path)


def test_cifake_layout(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for label in ("REAL", "FAKE"):
            folder = tmp_path / "cifake" / part / label
            folder.mkdir(parents=True)
            for k in range(3):
                Image.fromarray(RNG.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(folder / f"{k:04d}.jpg")
    data = get_task("cifake").load(tmp_path)
    assert data.items.shape == (12, 32, 32, 3) and data.test is not None and data.test.sum() == 6
    Image.new("RGB", (28, 28)).save(tmp_path / "cifake" / "train" / "REAL" / "odd.jpg")
    with pytest.raises(InputError, match="28x28 pixels instead of 32x32"):
        get_task("cifake").load(tmp_path)


@pytest.mark.parametrize("header", ["Instrument (in full)", "Instrument Name"])
def test_tinysol_layout_under_both_headers(tmp_path: Path, header: str) -> None:
    rows = []
    for family, instrument, short in (("Brass", "French Horn", "Hn"), ("Strings", "Violin", "Vn")):
        for k in range(5):
            relative = f"{family}/{instrument.replace(' ', '_')}/ordinario/{short}-ord-A#{k}-f-N-N.wav"
            wav(tmp_path / "TinySOL" / relative, 44100)
            rows.append(
                {"Path": relative, "Fold": k, "Family": family, header: instrument, "Instrument (abbr.)": short}
            )
    table = tmp_path / "TinySOL" / "TinySOL_metadata.csv"
    with table.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    data = get_task("tinysol-instrument").load(tmp_path)
    assert data.class_names == ["French Horn", "Violin"] and data.signal(0).rate == 44100
    assert get_task("tinysol-family").load(tmp_path).class_names == ["Brass", "Strings"]
    assert "the official distribution has 2,913" in (get_task("tinysol-family").count_note(data) or "")
    Path(data.items[3]).unlink()
    with pytest.raises(InputError, match="there is no such file"):
        get_task("tinysol-family").load(tmp_path)


def test_gtzan_layout_names_unreadable_files(tmp_path: Path) -> None:
    from planformer.evaluation.tasks.audio import GENRES

    for genre in GENRES:
        for k in range(2):
            wav(tmp_path / "gtzan" / "genres_original" / genre / f"{genre}.{k:05d}.wav", 22050)
    (tmp_path / "gtzan" / "genres_original" / "jazz" / "jazz.00054.wav").write_bytes(b"not a sound at all")
    data = get_task("gtzan").load(tmp_path)
    assert len(data) == 20 and len(data.class_names) == 10
    assert data.notes == ("left out, unreadable: jazz.00054.wav",)


@pytest.mark.parametrize("swapped", [False, True])
def test_tidyvoice_nesting_is_inferred(tmp_path: Path, swapped: bool) -> None:
    for speaker in ("id0001", "id0002", "id0003"):
        for language in ("en", "pt-BR"):
            for k in range(3):
                parts = (language, speaker) if swapped else (speaker, language)
                wav(tmp_path / "TidyVoiceX_Dev" / parts[0] / parts[1] / f"{k}.wav", 16000)
    speakers = get_task("tidyvoice-speaker").load(tmp_path)
    assert speakers.class_names == ["id0001", "id0002", "id0003"]
    assert ("<language>/<speaker>" in speakers.notes[0]) == swapped
    languages = get_task("tidyvoice-language").load(tmp_path)
    assert languages.class_names == ["en", "pt-BR"] and languages.group_name == "speaker"


def test_tidyvoice_draws_the_same_fifty_speakers(tmp_path: Path) -> None:
    for number in range(60):
        wav(tmp_path / "TidyVoiceX_Dev" / f"id{number:04d}" / "en" / "0.wav", n=100)
    first, again = (get_task("tidyvoice-speaker").load(tmp_path) for _ in range(2))
    assert len(first.class_names) == 50 and first.class_names == again.class_names


def test_spoken_digits_layout(tmp_path: Path) -> None:
    for digit in range(2):
        for speaker in ("ann", "bob"):
            for n in range(6):
                wav(tmp_path / "fsdd" / "recordings" / f"{digit}_{speaker}_{n}.wav")
    speaker, digit = get_task("fsdd-speaker").load(tmp_path), get_task("fsdd-digit").load(tmp_path)
    assert speaker.class_names == ["ann", "bob"] and digit.class_names == ["0", "1"]
    assert digit.test is not None and digit.test.sum() == 20
    wav(tmp_path / "fsdd" / "recordings" / "noise.wav")
    with pytest.raises(InputError, match=r"unexpected file name noise\.wav"):
        get_task("fsdd-digit").load(tmp_path)


def test_seismic_layout_balances_the_test_part_and_takes_other_keys(tmp_path: Path) -> None:
    from planformer.evaluation.tasks.seismic import Seismic

    (tmp_path / "scedc").mkdir()
    with h5py.File(tmp_path / "scedc" / "all.h5", "w") as handle:
        for part, labels in (("train", [0, 1, 2] * 5), ("test", [0, 0, 0, 0, 1, 1, 1, 2, 2])):
            handle[f"{part}/waves"] = RNG.standard_normal((len(labels), 400, 3)).astype(np.float32)
            handle[f"{part}/kind"] = np.array(labels)
    with pytest.raises(InputError, match="keys kind, waves; looked for"):
        Seismic().load(tmp_path)
    data = Seismic(waveform_keys=("waves",), label_keys=("kind",)).load(tmp_path)
    assert data.items.shape == (21, 3, 400) and data.test is not None and data.test.sum() == 6
    assert np.unique(data.labels[data.test], return_counts=True)[1].tolist() == [2, 2, 2]
    assert data.signal(0).channels == 3


def test_arxiv_layout_keeps_nine_classes(tmp_path: Path) -> None:
    root = tmp_path / "arxiv-classification"
    root.mkdir()
    for split in ("train", "validation", "test"):
        table = pa.table({"text": [f"paper {k} " * 50 for k in range(22)], "label": [k % 11 for k in range(22)]})
        pq.write_table(table, root / f"{split}-00000-of-00001.parquet")
    topics, fields = get_task("arxiv-topic").load(tmp_path), get_task("arxiv-field").load(tmp_path)
    assert len(topics.class_names) == 9 and fields.class_names == ["cs", "math"]
    assert topics.test is not None and topics.test.sum() == 18 and len(topics) == 54
    assert topics.signal(0).kind == "text"


@pytest.mark.parametrize("first", [False, True])
def test_mitosis_frame_folders(tmp_path: Path, first: bool) -> None:
    for part in ("train", "test"):
        for label in ("normal", "abnormal"):
            for k in range(2):
                folder = tmp_path / "mitosis" / part / label / f"cell{k}"
                folder.mkdir(parents=True)
                for t in range(12):
                    Image.fromarray(RNG.integers(0, 255, (16, 16), dtype=np.uint8)).save(folder / f"{t:02d}.png")
    data = get_task("mitosis-first-frame" if first else "mitosis").load(tmp_path)
    assert len(data) == 8 and data.items[0].shape == (1 if first else 12, 16, 16)
    assert data.signal(0).n == 5120 * (1 if first else 12)
    (tmp_path / "mitosis" / "train" / "normal" / "empty").mkdir()
    with pytest.raises(InputError, match="without frames"):
        get_task("mitosis").load(tmp_path)


def powder_tree(root: Path) -> None:
    root.mkdir()
    for protocol in ("4G", "5G", "Wifi"):
        for station in ("bes", "browning", "honors", "meb"):
            for part in (1, 5):
                for day in (1, 2):
                    stem = root / f"{protocol}_Day_{day}_{station}_s{part}"
                    x = RNG.standard_normal(6_000) + 1j * RNG.standard_normal(6_000)
                    x.astype(np.complex64).tofile(stem.with_suffix(".bin"))
                    meta = {"global": {"core:datatype": "cf32"}, "annotations": {"transmitter": station}}
                    stem.with_suffix(".json").write_text(json.dumps(meta))


def test_powder_layout_takes_day_2_and_resamples_wifi(tmp_path: Path) -> None:
    powder_tree(tmp_path / "GlobecomPOWDER")
    data = get_task("powder").load(tmp_path)
    assert data.class_names == ["bes", "browning", "honors", "meb"]
    groups, test = np.array(data.groups), data.test
    assert data.items.shape[1] == 5120 and all("Day_2" in group for group in groups)
    assert test is not None and not set(groups[test]) & set(groups[~test])
    bad = tmp_path / "GlobecomPOWDER" / "5G_Day_2_bes_s1.json"
    bad.write_text(json.dumps({"global": {"core:datatype": "ci16"}}))
    with pytest.raises(InputError, match="datatype ci16"):
        get_task("powder").load(tmp_path)


def test_simulated_radio_sets(tmp_path: Path) -> None:
    from planformer.data.heldout import write_evaluation

    for _ in write_evaluation(tmp_path / "radio-eval", sequences=1, recordings=2):
        pass
    modulation, stations = get_task("rf-modulation").load(tmp_path), get_task("powder").load(tmp_path)
    assert len(modulation.class_names) == 8 and len(stations.class_names) == 4
    assert modulation.items.shape[1] == 5120 and "simulated" in modulation.notes[0]
    groups, test = np.array(modulation.groups), modulation.test
    assert test is not None and test.any() and not set(groups[test]) & set(groups[~test])


@pytest.mark.parametrize("name", list(TASKS))
def test_missing_data_says_where_it_looked_and_where_to_get_it(tmp_path: Path, name: str) -> None:
    task = get_task(name)
    assert not task.present(tmp_path)
    with pytest.raises(InputError) as error:
        task.load(tmp_path)
    assert str(tmp_path) in str(error.value) and task.source in str(error.value)
    assert task.type in ("physical", "semantic", "mixed") and task.licence


def test_unknown_task_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="fsdd-speaker"):
        get_task("mnst")


def test_fingerprint_follows_contents(tmp_path: Path) -> None:
    for digit in (0, 1):
        for n in range(6):
            wav(tmp_path / "fsdd" / "recordings" / f"{digit}_ann_{n}.wav")
    data = get_task("fsdd-digit").load(tmp_path)
    before = data.fingerprint()
    assert before == get_task("fsdd-digit").load(tmp_path).fingerprint()
    assert before != data.subset(range(11)).fingerprint()
    wav(tmp_path / "fsdd" / "recordings" / "0_ann_0.wav", n=900)
    assert before != data.fingerprint()


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "items", "classes"),
    [("mnist", 70_000, 10), ("fsdd-digit", 3000, 10), ("tinysol-instrument", 404, 14), ("tinysol-family", 404, 4),
     ("quake", 304, 2), ("bloodcells", 1080, 3), ("text-topic", 420, 7), ("text-field", 420, 2)],
)  # fmt: skip
def test_real_sets(data_dir: Path, name: str, items: int, classes: int) -> None:
    data = get_task(name).load(data_dir)
    assert len(data) == items and len(data.class_names) == classes
