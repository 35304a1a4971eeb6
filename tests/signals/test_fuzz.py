"""Valid files of every kind, damaged at random: only the project's own error may come out, soon, with little memory."""

import faulthandler
import resource
import time
import zlib

import numpy as np
import pytest

from planformer.errors import PlanFormerError
from planformer.signals import prepare, read
from reference.signal_files import VALID, make_file

FAST, MANY = 300, 10_000
SECONDS_A_FILE = 10.0
MEMORY_MB = 1024
EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x80\x00\x00\x00",
    b"\x01\x00\x00\x00",
)


def flip_bits(raw, rng):
    for at in rng.integers(0, len(raw), rng.integers(1, 9)):
        raw[at] ^= 1 << rng.integers(0, 8)


def flip_header(raw, rng):
    for at in rng.integers(0, min(len(raw), 200), rng.integers(1, 5)):
        raw[at] = rng.integers(0, 256)


def put_extreme(raw, rng):
    at = rng.integers(0, max(1, min(len(raw), 300) - 4))
    raw[at : at + 4] = EXTREMES[rng.integers(0, len(EXTREMES))]


def truncate(raw, rng):
    del raw[rng.integers(0, len(raw)) :]


def cut_out(raw, rng):
    start, stop = sorted(rng.integers(0, len(raw), 2))
    del raw[start:stop]


def repeat(raw, rng):
    start, stop = sorted(rng.integers(0, len(raw), 2))
    raw[stop:stop] = raw[start : min(stop, start + 5000)]


def blank(raw, rng):
    start, stop = sorted(rng.integers(0, len(raw), 2))
    raw[start:stop] = bytes(stop - start)


def insert_noise(raw, rng):
    at = rng.integers(0, len(raw))
    raw[at:at] = rng.bytes(rng.integers(1, 300))


MUTATIONS = (flip_bits, flip_header, put_extreme, truncate, cut_out, repeat, blank, insert_noise)


def mutated(raw, rng):
    damaged = bytearray(raw)
    for _ in range(rng.integers(1, 3)):
        if damaged:
            MUTATIONS[rng.integers(0, len(MUTATIONS))](damaged, rng)
    return bytes(damaged)


def attack(name, folder, count):
    """Read ``count`` damaged copies; returns how many were read all the same."""
    path = make_file(name, folder)
    victims = [path, path.with_suffix(".sigmf-data")] if name == "sigmf" else [path]
    originals = [victim.read_bytes() for victim in victims]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    survived = 0
    for index in range(count):
        which = index % len(victims)
        victims[which].write_bytes(mutated(originals[which], rng))
        start = time.process_time()
        try:
            segments = prepare(read(path, rate=1e6))
        except PlanFormerError as error:
            assert "\n" not in str(error), error
        else:
            survived += 1
            assert segments.dtype == np.complex64
            assert np.isfinite(segments.view(np.float32)).all()
        assert time.process_time() - start < SECONDS_A_FILE, f"mutation {index} took too long"
        victims[which].write_bytes(originals[which])
    return survived


def check(name, folder, count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    faulthandler.dump_traceback_later(60 + count * 0.2, exit=True)  # a hang must not hang the whole run
    try:
        survived = attack(name, folder, count)
    finally:
        faulthandler.cancel_dump_traceback_later()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) / 1024 < MEMORY_MB
    assert survived < count, "no mutation did any harm: the attack does not reach the reader"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(VALID) - {"text"}))
def test_damaged_files(name, tmp_path):
    check(name, tmp_path, FAST)


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(VALID) - {"text"}))
def test_many_damaged_files(name, tmp_path):
    check(name, tmp_path, MANY)


@pytest.mark.filterwarnings("ignore")
def test_any_bytes_are_text_or_refused(tmp_path):
    """Text is the reader of last resort, so it meets every kind of bytes, also such as look like another format."""
    rng = np.random.default_rng(0)
    starts = [
        b"", b"RIFF\x00\x00\x00\x00WAVE", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\x93NUMPY", b"PK\x03\x04", b"OggS",
        b"fLaC", b"\x00\x00\x00\x18ftypmp42", b"\x1a\x45\xdf\xa3", b"MS\x03", b"000001D ", b"\x89HDF\r\n\x1a\n", b"ID3",
        b"{", b"BM", b"P5 3 3 255 ", b"\xff\xfb\x90", b"FORM\x00\x00\x00\x00AIFF", b"II*\x00",
    ]  # fmt: skip
    for index in range(FAST):
        path = tmp_path / "bytes"
        path.write_bytes(starts[index % len(starts)] + rng.bytes(rng.integers(0, 600)))
        try:
            assert prepare(read(path)).shape[-1] == 5120
        except PlanFormerError as error:
            assert "\n" not in str(error)
