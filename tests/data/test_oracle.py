"""ORACLE in miniature, in its distributed naming, with the traps that public copies have."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planformer.data.conversion import convert, decide_datatype, read_blocks
from planformer.data.oracle import find_oracle
from planformer.data.recordings import RecordingSet
from planformer.data.seeding import complex_normal, generator
from planformer.errors import InputError

TONE = 0.4e6


def signal(n: int, seed: object = 0) -> np.ndarray:
    tone = np.exp(2j * np.pi * TONE * np.arange(n) / 5e6)
    return 0.02 * (tone + 0.1 * complex_normal(generator(seed), n))


def add(
    root: Path,
    serial: str,
    feet: int,
    run: int,
    *,
    dtype: type = np.complex128,
    stated: str = "cf32",
    folder: str = "",
    n: int = 12_000,
) -> Path:
    """One recording; as distributed: float64 pairs, SigMF 0.02 wrapped, a datatype that need not be true."""
    place = root / "KRI-16Devices-RawData" / (folder or f"{feet}ft")
    place.mkdir(parents=True, exist_ok=True)
    data = place / f"WiFi_air_X310_{serial}_{feet}ft_run{run}.sigmf-data"
    signal(n, serial).astype(dtype).tofile(data)
    header = {"core:version": "0.0.2", "core:sample_rate": 5000000.0, "core:datatype": stated}
    document = {"data_file": data.name, "_metadata": {"global": header, "captures": [{"core:sample_start": 0}]}}
    data.with_suffix(".sigmf-meta").write_text(json.dumps(document))
    return data


def test_finds_the_papers_subset(tmp_path: Path) -> None:
    for feet in (2, 14, 26, 32, 38, 50, 62):
        for run in (1, 2):
            add(tmp_path, "3123D7B", feet, run, folder="32ft-6db" if feet == 32 else "", n=600)
    assert sorted(r.labels["place"] for r in find_oracle(tmp_path)) == ["14ft", "26ft", "38ft", "50ft"]
    assert len(find_oracle(tmp_path, feet=[32], runs=[1, 2])) == 2
    assert find_oracle(tmp_path)[0].labels["emitter"] == "oracle-3123D7B"


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("stated", ["cf32", "cf32_le", "cf64", "cf64_le", "cf128", "nonsense"])
def test_width_is_decided_by_the_values(tmp_path: Path, dtype: type, stated: str) -> None:
    data = add(tmp_path, "3123D52", 14, 1, dtype=dtype, stated=stated)
    datatype, reason = decide_datatype(data, stated)
    assert datatype == ("cf32_le" if dtype is np.complex64 else "cf64_le")
    truthful = (dtype is np.complex64 and "32" in stated) or (
        dtype is np.complex128 and stated[2:] in ("64", "64_le", "128")
    )
    assert ("but only" in reason) == (not truthful)
    samples = np.concatenate(list(read_blocks(find_oracle(tmp_path)[0])))
    assert np.allclose(samples, signal(12_000, "3123D52"), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-5, 1.0, 3000.0])
def test_width_is_decided_at_any_level(tmp_path: Path, scale: float) -> None:
    for dtype, name in ((np.complex64, "cf32_le"), (np.complex128, "cf64_le")):
        data = tmp_path / "x.sigmf-data"
        (signal(5000) * scale).astype(dtype).tofile(data)
        assert decide_datatype(data, None)[0] == name


def test_conversion_keeps_time_frequency_and_label(tmp_path: Path) -> None:
    add(tmp_path / "raw", "3123EFE", 38, 1, n=40_000)
    recording = find_oracle(tmp_path / "raw")[0]
    path, new = convert(recording, tmp_path / "out")
    assert new and convert(recording, tmp_path / "out") == (path, False)
    data = RecordingSet.from_folder(tmp_path / "out")
    assert data.files[0].samples == pytest.approx(40_000 * 7.69 / 5, abs=2)
    x = data.sequences([4])[0]
    peak = np.argmax(np.abs(np.fft.fft(x * np.hanning(x.size), 1 << 16))) / (1 << 16) * 7.69e6
    assert peak == pytest.approx(TONE, abs=200)
    assert data.emitters == ["oracle-3123EFE"]
    assert np.abs(x).max() <= 1


def test_streamed_resampling_equals_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from planformer.data.resampling import resample, resample_blocks

    x = signal(50_000).astype(np.complex64)
    blocks = np.concatenate(list(resample_blocks((x[k : k + 7000] for k in range(0, 50_000, 7000)), 5e6)))
    assert np.allclose(blocks, resample(x, 5e6), atol=1e-6)


def test_errors_name_the_file_and_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such folder.*KRI-16Devices"):
        find_oracle(tmp_path / "none")
    with pytest.raises(InputError, match=r"no ORACLE recordings of \[14, 26, 38, 50\] ft.*WiFi_air_X310"):
        find_oracle(tmp_path)
    data = add(tmp_path, "3123D7B", 14, 1)
    meta = data.with_suffix(".sigmf-meta")
    meta.write_text(meta.read_text().replace("5000000.0", "20e6"))
    with pytest.raises(InputError, match=r"run1.sigmf-meta: sample rate 20000000.0"):
        find_oracle(tmp_path)
    meta.write_text("{")
    with pytest.raises(InputError, match=r"run1.sigmf-meta: not readable as JSON"):
        find_oracle(tmp_path)
    meta.write_text("{}")
    with pytest.raises(InputError, match=r"run1.sigmf-meta: no 'global'"):
        find_oracle(tmp_path)
    meta.unlink()
    with pytest.raises(InputError, match=r"run1.sigmf-meta: missing"):
        find_oracle(tmp_path)


def test_unknown_radio_garbage_and_truncation(tmp_path: Path) -> None:
    add(tmp_path / "a", "ABCDEF0", 14, 1)
    with pytest.raises(InputError, match="ABCDEF0 is none of ORACLE's 16"):
        find_oracle(tmp_path / "a")
    data = add(tmp_path / "b", "3123D7B", 14, 1)
    data.write_bytes(generator(3).bytes(40_000))
    with pytest.raises(InputError, match="neither float32 nor float64"):
        find_oracle(tmp_path / "b")
    data.write_bytes(b"\0" * 8)
    with pytest.raises(InputError, match="not one complex sample"):
        find_oracle(tmp_path / "b")
    data = add(tmp_path / "c", "3123D7B", 14, 1)
    data.write_bytes(data.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"truncated\?"):
        convert(find_oracle(tmp_path / "c")[0], tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.sigmf-meta"))
