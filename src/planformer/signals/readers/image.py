"""Images through Pillow: grey or colour, 8 or 16 bit, palette, alpha. Unwrapped in snake order, channels separate."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.signals.reading import Request
from planformer.signals.signal import planes
from planformer.signals.snake import unwrap
from planformer.signals.source import Source

MAX_PIXELS = 1 << 26  # against decompression bombs; Pillow itself begins to warn at 89 million
UNWRAP_PIXELS = 1 << 22
"""Larger images are shrunk to this many pixels first: their path is low-passed to 5,120 points anyway."""

_SILENT = logging.NullHandler()
_GREY = {"L", "I", "F", "I;16", "I;16L", "I;16B", "I;16N"}


def open_file(request: Request) -> Source:
    if _is_animation(request):
        from planformer.signals.readers import video

        return video.open_file(request)
    pixels, provenance = load(request)
    path = unwrap(planes(pixels, 2, request.name))  # (C, 2 H W)

    def blocks() -> Iterator[npt.NDArray[Any]]:
        yield path

    return Source(request.name, "image", request.rate or 1.0, path.shape[0], True, blocks, provenance)


def _is_animation(request: Request) -> bool:
    """A GIF with several frames is a video, unless it is asked for as an image."""
    from PIL import Image

    if request.kind == "image":
        return False
    with _bombs_are_errors(request.name), Image.open(request.path) as image:
        return request.kind == "video" or (image.format == "GIF" and getattr(image, "n_frames", 1) > 1)


def load(request: Request) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Decode to ``[H, W]`` or ``[H, W, 3]`` and say what it was."""
    from PIL import Image

    with _bombs_are_errors(request.name), Image.open(request.path) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise InputError(_bomb(request.name, width * height))
        if width * height < 2:
            raise InputError(
                f"{request.name}: an image of {width}x{height} pixel is too small; at least two are needed"
            )
        image.load()
        provenance: dict[str, Any] = {"format": image.format, "mode": image.mode}
        plain = _simple_mode(image)
    if width * height > UNWRAP_PIXELS:
        factor = (UNWRAP_PIXELS / (width * height)) ** 0.5
        plain = plain.resize((max(1, int(width * factor)), max(1, int(height * factor))), Image.Resampling.BOX)
        provenance["shrunk_from"] = (height, width)
    pixels = np.asarray(_over_white(plain))
    provenance.update(height=pixels.shape[0], width=pixels.shape[1], dtype=str(pixels.dtype))
    return pixels, provenance


def _simple_mode(image: Any) -> Any:
    """One channel for every grey mode (16 bit stays 16 bit), RGB for the rest; LA or RGBA where it is transparent."""
    if image.mode in ("LA", "La"):
        return image.convert("LA")
    if "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        return image.convert("LA" if image.mode in ("1", "L") else "RGBA")
    if image.mode == "1":
        return image.convert("L")
    return image if image.mode in _GREY else image.convert("RGB")


def _over_white(image: Any) -> Any:
    """Lay a transparent image over white; what is stored under full transparency is arbitrary."""
    from PIL import Image

    if image.mode not in ("LA", "RGBA"):
        return image
    flat = Image.new("RGBA", image.size, (255, 255, 255, 255))
    flat.alpha_composite(image.convert("RGBA"))
    return flat.convert("L" if image.mode == "LA" else "RGB")


@contextmanager
def _bombs_are_errors(name: str) -> Iterator[None]:
    """Pillow warns about a bomb before it refuses one; both end here."""
    from PIL import Image

    logging.getLogger("PIL").addHandler(_SILENT)  # Pillow's complaints about damaged files would reach the terminal
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise InputError(_bomb(name, None)) from error


def _bomb(name: str, pixels: int | None) -> str:
    count = f" ({pixels:,})" if pixels else ""
    return f"{name}: more than {MAX_PIXELS:,} pixels{count}, as a decompression bomb has; scale the image down first"
