"""Signals back to files, in the format of the file they came from: what denoising and separation hand to the user.

The target's suffix names the format. What a format needs besides samples (an image's size, a recording's metadata) is
taken from ``template``, the signal that was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError, MissingExtraError
from planformer.signals.replacing import replacing
from planformer.signals.resampling import resample_length
from planformer.signals.sigmf_files import Datatype, write_sigmf
from planformer.signals.signal import Signal
from planformer.signals.snake import roll_back
from planformer.signals.sniff import RAW_SUFFIXES, by_suffix, suffix_of

SUFFIX_OF_KIND = {
    "iq": ".sigmf-meta", "audio": ".wav", "seismic": ".mseed", "image": ".png", "video": ".npy", "text": ".txt",
    "array": ".npy",
}  # fmt: skip
"""What to name an output whose input had no suffix to copy."""


def write(path: str | Path, signal: Signal | npt.ArrayLike, template: Signal | None = None) -> Path:
    """Write samples ``[channels, n]`` (or a :class:`Signal`) in the format that ``path`` names; returns its path.

    Signals that were real are written as their real part. An image is rolled back from its path, of any length, to the
    template's size, both passes averaged. Values are the template's units: see :func:`match_level`.

    >>> import numpy as np, tempfile
    >>> from planformer.signals import from_array, read
    >>> image = from_array(np.arange(12, dtype=np.uint8).reshape(3, 4), kind="image")
    >>> read(write(tempfile.mkdtemp() + "/copy.png", image)).samples.real.tolist() == image.samples.real.tolist()
    True
    """
    target = Path(path)
    if isinstance(signal, Signal):
        template = template or signal
        samples = signal.samples
    else:
        samples = np.atleast_2d(np.asarray(signal)).astype(np.complex64)
    if template is None:
        raise InputError(f"{target}: a plain array needs a template signal that says its rate and kind")
    if samples.ndim != 2 or not samples.size or not np.isfinite(samples).all():
        raise InputError(
            f"{target}: cannot write samples of shape {list(samples.shape)} (empty, or NaN or infinite values)"
        )
    form = _format(target, template)
    return _WRITERS[form](target, samples, template)


def match_level(samples: npt.NDArray[Any], template: Signal) -> npt.NDArray[np.complex64]:
    """Give ``[channels, n]`` of any scale the template's mean and power, channel by channel.

    >>> import numpy as np
    >>> from planformer.signals import from_array
    >>> quiet = from_array(5 + 0.01 * np.sin(np.arange(1000.0)))
    >>> loud = quiet.samples * 70 - 3
    >>> bool(np.allclose(match_level(loud, quiet), quiet.samples, atol=1e-4))
    True
    """
    x = np.asarray(samples, np.complex128)
    goal = np.asarray(template.samples, np.complex128)
    x = x - x.mean(axis=-1, keepdims=True)
    mean = goal.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.mean(np.abs(goal - mean) ** 2, axis=-1, keepdims=True))
    own = np.sqrt(np.mean(np.abs(x) ** 2, axis=-1, keepdims=True))
    scale = np.divide(deviation, own, out=np.zeros_like(own), where=own > 0)
    return (x * scale + mean).astype(np.complex64)


def _format(target: Path, template: Signal) -> str:
    suffix = suffix_of(target)
    form = by_suffix(suffix) or ("text" if template.kind == "text" else None)
    if form == "image" and template.kind != "image":
        raise InputError(f"{target}: a signal of kind {template.kind} has no picture size; write .npy instead")
    if form not in _WRITERS:
        usual = SUFFIX_OF_KIND[template.kind]
        raise InputError(f"{target}: cannot write {suffix or 'a file without suffix'}; name it {target.stem}{usual}")
    return form


def _real_if_analytic(samples: npt.NDArray[np.complex64], template: Signal) -> npt.NDArray[Any]:
    return samples.real if template.is_analytic else samples


def _write_audio(target: Path, samples: npt.NDArray[np.complex64], template: Signal) -> Path:
    import soundfile

    form = target.suffix.lstrip(".").upper().replace("OGA", "OGG").replace("AIF", "AIFF").replace("AIFFF", "AIFF")
    rate = round(template.rate)
    if not 1 <= rate <= 2_147_483_647:
        raise InputError(f"{target}: a sound file cannot have the sample rate {template.rate} Hz")
    wave = np.ascontiguousarray(samples.real.T)  # (n, channels)
    subtype = template.provenance.get("subtype") if template.provenance.get("format") == form else None
    peak = float(np.abs(wave).max())
    if peak > 1 and subtype not in ("FLOAT", "DOUBLE"):
        wave = wave / peak  # integer formats clip at 1
    try:
        with replacing(target) as temporary:
            soundfile.write(str(temporary), wave, rate, subtype=subtype, format=form)
    except (soundfile.LibsndfileError, ValueError, TypeError) as error:
        raise InputError(
            f"{target}: cannot be written as {form} at {rate} Hz ({' '.join(str(error).split())})"
        ) from error
    return target


def _write_image(target: Path, samples: npt.NDArray[np.complex64], template: Signal) -> Path:
    from PIL import Image

    height, width = int(template.provenance["height"]), int(template.provenance["width"])
    path = resample_length(samples, 2 * height * width).real
    pixels = roll_back(path, height, width)  # (C, H, W)
    wide = "16" in str(template.provenance.get("dtype", "")) and suffix_of(target) in (".png", ".tif", ".tiff", ".pgm")
    dtype, top = (np.uint16, 65535) if wide and len(pixels) == 1 else (np.uint8, 255)
    if template.provenance.get("dtype") == "uint16" and dtype is np.uint8:
        pixels = pixels / 257
    values = np.clip(np.rint(pixels), 0, top).astype(dtype)
    if len(values) not in (1, 3):
        raise InputError(f"{target}: an image has one channel or three, not {len(values)}")
    image = Image.fromarray(values[0] if len(values) == 1 else np.moveaxis(values, 0, -1))
    try:
        with replacing(target) as temporary:
            image.save(temporary)
    except (KeyError, ValueError) as error:
        raise InputError(f"{target}: Pillow cannot write this format ({error}); name it .png") from error
    return target


def sigmf_metadata(provenance: Mapping[str, Any], count: int) -> dict[str, Any]:
    """A recording's own metadata for ``count`` new samples of it, without what only fitted the old ones."""
    keep = {k: v for k, v in provenance.get("global", {}).items() if not k.startswith(("core:sha", "planformer:"))}
    for name in ("core:dataset", "core:trailing_bytes", "core:metadata_only"):
        keep.pop(name, None)
    captures = [{k: v for k, v in c.items() if k != "core:header_bytes"} for c in provenance.get("captures", [])]
    captures = [c for c in captures if c.get("core:sample_start", 0) < count]
    return {"global": keep, "captures": captures, "annotations": provenance.get("annotations", [])}


def _write_sigmf(target: Path, samples: npt.NDArray[np.complex64], template: Signal) -> Path:
    stated = template.provenance.get("datatype")
    fallback = "rf32_le" if template.is_analytic else "cf32_le"
    metadata = sigmf_metadata(template.provenance, samples.shape[1])
    return write_sigmf(target, _real_if_analytic(samples, template), template.rate, stated or fallback, metadata)


def _write_raw(target: Path, samples: npt.NDArray[np.complex64], template: Signal) -> Path:
    if len(samples) != 1:
        raise InputError(f"{target}: a raw IQ file has one channel, not {len(samples)}; write .sigmf-meta")
    kind = Datatype.parse(
        RAW_SUFFIXES[suffix_of(target)] or template.provenance.get("datatype", "cf32_le"), str(target)
    )
    with replacing(target) as temporary:
        kind.encode(samples).tofile(temporary)
    return target


def _write_npy(target: Path, samples: npt.NDArray[np.complex64], template: Signal) -> Path:
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.save(file, _real_if_analytic(samples, template), allow_pickle=False)
    return target


def _write_csv(target: Path, samples: npt.NDArray[np.complex64], template: Signal) -> Path:
    if not template.is_analytic:
        raise InputError(f"{target}: CSV has no complex numbers; write .npy or .sigmf-meta")
    delimiter = "\t" if suffix_of(target) == ".tsv" else ","
    with replacing(target) as temporary:
        np.savetxt(temporary, samples.real.T, fmt="%.9g", delimiter=delimiter)
    return target


def _write_text(target: Path, samples: npt.NDArray[np.complex64], template: Signal) -> Path:
    with replacing(target) as temporary:
        temporary.write_bytes(np.clip(np.rint(samples[0].real), 0, 255).astype(np.uint8).tobytes())
    return target


def _write_miniseed(target: Path, samples: npt.NDArray[np.complex64], template: Signal) -> Path:
    try:
        import pymseed
    except ImportError as error:
        raise MissingExtraError("pymseed", "seismic", f"{target}: writing miniSEED") from error
    names = template.provenance.get("sourceids") or [f"FDSN:XX_SIG__H_H_{i}" for i in range(len(samples))]
    start = str(template.provenance.get("start", "1970-01-01T00:00:00")) + "Z"
    traces = pymseed.MS3TraceList()
    for name, row in zip(names, samples.real, strict=True):
        values = np.ascontiguousarray(row, np.float32)
        traces.add_data(name, values, "f", template.rate, starttime_str=start)
    with replacing(target) as temporary:
        traces.to_file(str(temporary), overwrite=True, encoding=pymseed.DataEncoding.FLOAT32)
    return target


_WRITERS: dict[str, Callable[[Path, npt.NDArray[np.complex64], Signal], Path]] = {
    "audio": _write_audio,
    "image": _write_image,
    "sigmf": _write_sigmf,
    "raw": _write_raw,
    "npy": _write_npy,
    "csv": _write_csv,
    "text": _write_text,
    "miniseed": _write_miniseed,
}
