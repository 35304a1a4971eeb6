"""Reading and preprocessing on one core, beside plain NumPy/SciPy loops that do the same (paper, section 4).

Times are processor time, so other work on the machine does not count; each is the best of several runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

IMAGES = 60_000
PLAIN_IMAGES = 1_500
CHUNK = 2_000  # 60,000 segments at once would be 2.5 GB


def run() -> list[dict[str, object]]:
    """Rows for ``python -m benchmarks signals``."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_images(), *_segments(), *_sound(Path(folder)), *_radio(Path(folder)), *_text(Path(folder))]


def _seconds(work: Callable[[], object], repeats: int = 3) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def _row(name: str, amount: float, unit: str, ours: float, plain: float, note: str) -> dict[str, object]:
    """``plain`` is the time of the plain loop for the same amount."""
    return {"name": name, "value": amount / ours, "unit": unit, "ratio": plain / ours, "note": note}


def _images() -> list[dict[str, object]]:
    from planformer.signals import prepare_images

    images = np.random.default_rng(0).integers(0, 256, (IMAGES, 28, 28), dtype=np.uint8)

    def ours() -> None:
        for start in range(0, IMAGES, CHUNK):
            prepare_images(images[start : start + CHUNK])

    def plain() -> None:
        for image in images[:PLAIN_IMAGES]:
            plain_image(image)

    plain_seconds = _seconds(plain, 1) * IMAGES / PLAIN_IMAGES
    note = f"60,000 images of 28x28, against scipy hilbert + resample, one by one ({PLAIN_IMAGES} of them)"
    return [_row("MNIST-sized images to IQ", IMAGES, "images/s", _seconds(ours, 1), plain_seconds, note)]


def plain_image(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What :func:`planformer.signals.prepare_images` does to one image, as one would first write it."""
    from scipy.signal import hilbert, resample

    columns = [column[::-1] if index % 2 else column for index, column in enumerate(image.T)]
    rows = [row[::-1] if index % 2 else row for index, row in enumerate(image)]
    path = np.concatenate(columns + rows).astype(np.float64)
    points = resample(hilbert(path - path.mean()), 5120)
    return np.asarray(points / np.sqrt(np.mean(np.abs(points) ** 2)))


def _segments() -> list[dict[str, object]]:
    from planformer.signals import from_array, prepare

    signal = from_array(np.random.default_rng(0).normal(size=4_000_000), rate=8000, kind="audio")

    def plain() -> None:
        for start in range(0, signal.n - 5119, 5120):
            x = signal.samples[0, start : start + 5120]
            x = x - x.mean()
            x / np.sqrt(np.mean(np.abs(x) ** 2))

    amount = signal.n / 1e6
    note = "4 M samples: mean, power, segments, against a loop over segments"
    return [
        _row(
            "segments of a signal in memory",
            amount,
            "Msamples/s",
            _seconds(lambda: prepare(signal)),
            _seconds(plain),
            note,
        )
    ]


def _consume(path: Path) -> None:
    from planformer.signals import iter_segments

    for _ in iter_segments(path):
        pass


def _sound(folder: Path) -> list[dict[str, object]]:
    import soundfile
    from scipy.signal import hilbert

    from planformer.signals import read

    path = folder / "minutes.wav"
    n = 44_100 * 60
    soundfile.write(str(path), 0.1 * np.random.default_rng(0).normal(size=(n, 2)), 44_100)

    def plain() -> None:
        wave, _ = soundfile.read(str(path))
        hilbert(wave.mean(axis=1))

    plain_seconds = _seconds(plain)
    seconds = 60.0
    note = "one minute of 44.1 kHz stereo WAV, against soundfile + scipy hilbert (no segments)"
    return [
        _row("read sound", seconds, "s of sound/s", _seconds(lambda: read(path)), plain_seconds, note),
        _row(
            "stream sound as segments", seconds, "s of sound/s", _seconds(lambda: _consume(path)), plain_seconds, note
        ),
    ]


def _radio(folder: Path) -> list[dict[str, object]]:
    from planformer.signals import read

    path = folder / "radio.sigmf-data"
    n = 8_000_000
    np.random.default_rng(0).integers(-3000, 3000, 2 * n, dtype=np.int16).tofile(path)
    path.with_suffix(".sigmf-meta").write_text(
        '{"global": {"core:datatype": "ci16_le", "core:sample_rate": 5e6}, "captures": [], "annotations": []}'
    )

    def plain() -> None:
        raw = np.fromfile(path, np.int16).astype(np.float32) / 32768
        raw[::2] + 1j * raw[1::2]

    plain_seconds = _seconds(plain)
    amount = n / 1e6
    note = "32 MB of ci16 SigMF, against fromfile and I + jQ (no checks, no segments)"
    return [
        _row("read radio", amount, "Msamples/s", _seconds(lambda: read(path)), plain_seconds, note),
        _row("stream radio as segments", amount, "Msamples/s", _seconds(lambda: _consume(path)), plain_seconds, note),
    ]


def _text(folder: Path) -> list[dict[str, object]]:
    from scipy.signal import hilbert

    from planformer.signals import prepare, read

    files = []
    for index in range(200):
        files.append(folder / f"{index}.txt")
        files[-1].write_bytes(np.random.default_rng(index).integers(32, 122, 7_000, dtype=np.uint8).tobytes())

    def ours() -> None:
        for file in files:
            prepare(read(file))

    def plain() -> None:
        for file in files:
            z = hilbert(np.frombuffer(file.read_bytes(), np.uint8).astype(np.float64))
            z = np.pad(z, (0, 10_240 - len(z))).reshape(2, 5120)
            z = z - z.mean(axis=1, keepdims=True)
            z / np.sqrt(np.mean(np.abs(z) ** 2, axis=1, keepdims=True))

    note = "200 documents of 7 kB, against scipy hilbert; detection and checks cost the rest"
    return [_row("documents to segments", 200.0, "files/s", _seconds(ours), _seconds(plain), note)]
