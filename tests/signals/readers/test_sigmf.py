import json
import tarfile

import numpy as np
import pytest

from planformer.errors import InputError
from planformer.signals import read, write_sigmf
from reference.signal_files import complex_noise, write_metadata, write_sigmf_pair


def edit(meta, change):
    document = json.loads(meta.read_text())
    change(document)
    meta.write_text(json.dumps(document))
    return meta


def test_an_archive_reads_like_its_files(tmp_path):
    meta = write_sigmf(tmp_path / "a", complex_noise(300), 1e6)
    with tarfile.open(tmp_path / "pack.sigmf", "w") as archive:
        for path in sorted(tmp_path.glob("a.sigmf-*")):
            archive.add(path, f"a/{path.name}")
    assert np.array_equal(read(tmp_path / "pack.sigmf").samples, read(meta).samples)


def test_an_archive_without_a_recording(tmp_path):
    with tarfile.open(tmp_path / "pack.sigmf", "w"):
        pass
    with pytest.raises(InputError, match=r"no \.sigmf-meta"):
        read(tmp_path / "pack.sigmf")


def test_the_wrapping_of_early_metadata_is_taken_off(tmp_path):
    meta = write_sigmf_pair(tmp_path / "a")
    expected = read(meta).samples
    edit(meta, lambda d: d.update({"_metadata": {"global": d.pop("global"), "captures": d.pop("captures")}}))
    assert np.array_equal(read(meta).samples, expected)


def test_damaged_data_does_not_match_its_checksum(tmp_path):
    meta = write_sigmf(tmp_path / "a", complex_noise(300), 1e6)
    data = meta.with_suffix(".sigmf-data")
    raw = bytearray(data.read_bytes())
    raw[100] ^= 1
    data.write_bytes(raw)
    with pytest.raises(InputError, match="sha512"):
        read(meta)
    data.write_bytes(bytes(raw[: len(raw) // 2]))  # a whole number of samples, but not all
    with pytest.raises(InputError, match="sha512"):
        read(meta)


def test_header_and_trailing_bytes_are_left_out(tmp_path):
    meta = write_sigmf_pair(tmp_path / "a", 100)
    expected = read(meta).samples
    data = meta.with_suffix(".sigmf-data")
    data.rename(tmp_path / "a.bin")
    (tmp_path / "a.bin").write_bytes(b"HEAD" * 4 + (tmp_path / "a.bin").read_bytes() + b"TAIL")

    def change(document):
        document["global"].update({"core:dataset": "a.bin", "core:trailing_bytes": 4})
        document["captures"][0]["core:header_bytes"] = 16

    assert np.array_equal(read(edit(meta, change)).samples, expected)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", 5])
def test_a_dataset_elsewhere_is_refused(name, tmp_path):
    meta = edit(write_sigmf_pair(tmp_path / "a"), lambda d: d["global"].update({"core:dataset": name}))
    with pytest.raises(InputError, match="core:dataset"):
        read(meta)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("global"), "global"),
        (lambda d: d["global"].update({"core:num_channels": 0}), "num_channels"),
        (lambda d: d["global"].update({"core:num_channels": 3}), "whole number"),
        (lambda d: d.update(captures=[{"core:sample_start": 10**9}]), "truncated"),
        (lambda d: d.update(captures="all"), "captures"),
        (lambda d: d["global"].update({"planformer:scale": 0}), "scale"),
    ],
)
def test_metadata_that_cannot_be_right(change, says, tmp_path):
    with pytest.raises(InputError, match=says):
        read(edit(write_sigmf_pair(tmp_path / "a"), change))


def test_a_missing_rate_can_be_given(tmp_path):
    meta = write_sigmf_pair(tmp_path / "a")
    write_metadata(meta, rate=None)
    with pytest.raises(InputError, match="--rate"):
        read(meta)
    assert read(meta, rate=5e6).rate == 5e6


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"global": 3}', "[" * 100_000])
def test_what_is_no_metadata(text, tmp_path):
    meta = write_sigmf_pair(tmp_path / "a")
    meta.write_text(text)
    with pytest.raises(InputError):
        read(meta)
