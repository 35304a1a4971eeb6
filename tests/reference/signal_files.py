"""Small valid files of every kind, made from a seed, and what they hold."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def noise(n: int, seed: int = 0) -> npt.NDArray[Any]:
    return np.random.default_rng(seed).normal(size=n)


def complex_noise(n: int, seed: int = 0) -> npt.NDArray[Any]:
    return noise(n, seed) + 1j * noise(n, seed + 1)


def write_sound(path: Path, samples: npt.NDArray[Any] | None = None, rate: int = 8000, **options: Any) -> Path:
    import soundfile

    wave = np.clip(0.2 * noise(4000), -1, 1) if samples is None else samples
    soundfile.write(str(path), wave, rate, **options)
    return path


def write_metadata(path: Path, datatype: str = "cf32_le", rate: float | None = 1e6, **extra: Any) -> Path:
    """The metadata file alone; data is the caller's."""
    header = {"core:datatype": datatype, "core:version": "1.0.0", **extra}
    if rate is not None:
        header["core:sample_rate"] = rate
    path.write_text(json.dumps({"global": header, "captures": [{"core:sample_start": 0}], "annotations": []}))
    return path


def write_sigmf_pair(path: Path, n: int = 2000) -> Path:
    meta = write_metadata(path.with_suffix(".sigmf-meta"))
    complex_noise(n).astype(np.complex64).tofile(path.with_suffix(".sigmf-data"))
    return meta


def write_seismogram(
    path: Path, *, version: int = 2, gap: int = 0, components: str = "ENZ", rate: float = 100.0
) -> npt.NDArray[np.int32]:
    """Three components, 1,000 + 500 samples, with a gap between them; returns the samples."""
    import pymseed

    data = np.rint(1000 * noise(1500 * len(components))).astype(np.int32).reshape(len(components), 1500)
    traces = pymseed.MS3TraceList()
    for name, row in zip(components, data, strict=True):
        source = f"FDSN:XX_STA__B_H_{name}"
        start = 1_700_000_000
        traces.add_data(source, row[:1000].copy(), "i", rate, starttime_seconds=start)
        traces.add_data(source, row[1000:].copy(), "i", rate, starttime_seconds=start + (1000 + gap) / rate)
    traces.to_file(str(path), overwrite=True, format_version=version, max_record_length=512)
    return data


def write_image(path: Path, mode: str = "RGB", size: tuple[int, int] = (20, 14), **options: Any) -> npt.NDArray[Any]:
    from PIL import Image

    depth = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], *depth), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return pixels


def write_video(
    path: Path, codec: str = "mpeg4", pixel_format: str = "yuv420p", frames: int = 6, size: tuple[int, int] = (32, 24)
) -> Path:
    import av

    width, height = size
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        for index in range(frames):
            picture = np.zeros((height, width, 3), np.uint8)
            picture[:, index * 4 : index * 4 + 6] = 220
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def write_hdf5(path: Path) -> Path:
    import h5py

    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("group/x", data=noise(3000).astype(np.float32).reshape(3, 1000))
        dataset.attrs["rate"] = 50.0
    return path


def sparse_wav(path: Path, seconds: float, rate: int) -> Path:
    """A 16-bit mono WAV whose first samples are noise and whose rest is a hole in the file."""
    n = int(seconds * rate)
    header = b"RIFF" + struct.pack("<I", 36 + 2 * n) + b"WAVEfmt "
    header += struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16) + b"data" + struct.pack("<I", 2 * n)
    with path.open("wb") as file:
        file.write(header + np.random.default_rng(0).integers(-999, 999, 9000, dtype=np.int16).tobytes())
        file.truncate(len(header) + 2 * n)
    return path


def sparse_sigmf(path: Path, data_bytes: int) -> Path:
    meta = write_metadata(path.with_suffix(".sigmf-meta"), "ci16_le", 5e6)
    with path.with_suffix(".sigmf-data").open("wb") as file:
        file.write(np.random.default_rng(0).integers(-999, 999, 9000, dtype=np.int16).tobytes())
        file.truncate(data_bytes)
    return meta


def _write_npz(path: Path) -> None:
    np.savez_compressed(path, x=noise(800).astype(np.float32))


def _write_csv(path: Path) -> None:
    rows = "\n".join(f"{a:.4f},{b:.4f}" for a, b in noise(400).reshape(-1, 2))
    path.write_text("left,right\n" + rows + "\n")


# kind of file -> (name, function that writes it). Every reader has at least one.
VALID: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "wav": ("a.wav", write_sound),
    "flac": ("a.flac", write_sound),
    "ogg": ("a.ogg", write_sound),
    "mp3": ("a.mp3", write_sound),
    "sigmf": ("a.sigmf-meta", write_sigmf_pair),
    "cf32": ("a.cf32", lambda path: complex_noise(1000).astype(np.complex64).tofile(path)),
    "miniseed2": ("a.mseed", write_seismogram),
    "miniseed3": ("b.mseed", lambda path: write_seismogram(path, version=3)),
    "npy": ("a.npy", lambda path: np.save(path, noise(800).astype(np.float32))),
    "npz": ("a.npz", _write_npz),
    "csv": ("a.csv", _write_csv),
    "hdf5": ("a.h5", write_hdf5),
    "png": ("a.png", write_image),
    "jpeg": ("a.jpg", write_image),
    "tiff": ("a.tif", write_image),
    "gif": ("a.gif", lambda path: write_video(path, "gif", "rgb8")),
    "mp4": ("a.mp4", write_video),
    "mkv": ("a.mkv", lambda path: write_video(path, "ffv1")),
    "text": ("a.txt", lambda path: path.write_text("The quick brown fox jumps over the lazy dog. äöü\n" * 20)),
}


def make_file(name: str, folder: Path) -> Path:
    """Write the valid file called ``name`` in :data:`VALID` and return its path."""
    file_name, writer = VALID[name]
    path = folder / file_name
    writer(path)
    return path
