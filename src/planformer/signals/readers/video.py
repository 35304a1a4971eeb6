"""Video and animated GIF through PyAV: each frame unwrapped as an image, 5,120 points, frames in order (Appendix E)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError, MissingExtraError
from planformer.signals.readers.image import MAX_PIXELS
from planformer.signals.reading import Request
from planformer.signals.resampling import analytic_resample
from planformer.signals.signal import FRAME_LENGTH, planes
from planformer.signals.snake import unwrap
from planformer.signals.source import Source

FRAME_PIXELS = 1 << 18
"""Larger frames are shrunk to this many pixels first: each becomes 5,120 points, and there may be thousands."""


def open_file(request: Request) -> Source:
    try:
        import av
    except ImportError as error:
        raise MissingExtraError("PyAV", "video", f"{request.name}: reading video") from error
    av.logging.set_level(av.logging.PANIC)  # the decoders' complaints about damaged files would reach the terminal
    with av.open(str(request.path)) as container:
        if not container.streams.video:
            raise InputError(f"{request.name}: there is no video in it; extract its sound to WAV for kind audio")
        stream = container.streams.video[0]
        context = stream.codec_context
        height, width = context.height, context.width
        fps = float(stream.average_rate or stream.guessed_rate or 1)
        grey = (context.pix_fmt or "").startswith("gray")
        provenance = {
            "format": container.format.name,
            "codec": context.name,
            "height": height,
            "width": width,
            "fps": fps,
            "dtype": "uint8",
            "analytic": True,
        }
        expected = _expected_frames(container, stream, fps)
    if height * width < 2 or height * width > MAX_PIXELS:
        raise InputError(f"{request.name}: frames of {width}x{height} pixels cannot be read")
    _check_gif_end(request)
    counted = {"frames": 0}

    def blocks() -> Iterator[npt.NDArray[Any]]:
        counted["frames"] = 0
        for pixels in _frames(request, grey):
            path = unwrap(planes(pixels, 2, request.name))  # (C, 2 H W)
            counted["frames"] += 1
            yield _analytic_frame(path)
        if not counted["frames"]:
            raise InputError(f"{request.name}: a video without frames")
        if not request.first_frame and counted["frames"] < 0.9 * expected - 1:
            raise InputError(f"{request.name}: truncated: {counted['frames']} of about {expected:.0f} frames are there")

    channels = 1 if grey else 3
    rate = (fps if fps > 0 else 1.0) * FRAME_LENGTH
    return Source(request.name, "video", rate, channels, False, blocks, provenance, report=lambda: dict(counted))


def _expected_frames(container: Any, stream: Any, fps: float) -> float:
    """How many frames the container promises; 0 when it does not. A decoder shows a cut file's rest without a word."""
    if stream.frames > 0:
        return float(stream.frames)
    alone = len(container.streams) == 1  # otherwise the duration may be that of the sound
    return container.duration / 1e6 * fps if alone and (container.duration or 0) > 0 else 0.0


def _check_gif_end(request: Request) -> None:
    with request.path.open("rb") as file:
        if file.read(3) != b"GIF":
            return
        file.seek(-1, 2)
        if file.read(1) != b";":
            raise InputError(f"{request.name}: truncated: the GIF has no end mark; copy it again")


def _frame_size(width: int, height: int) -> tuple[int, int]:
    if width * height <= FRAME_PIXELS:
        return width, height
    factor = (FRAME_PIXELS / (width * height)) ** 0.5
    return max(2, int(width * factor)), max(2, int(height * factor))


def _analytic_frame(path: npt.NDArray[Any]) -> npt.NDArray[np.complex64]:
    frame = analytic_resample(path, FRAME_LENGTH)
    blank = path.min(axis=1) == path.max(axis=1)
    if blank.any():  # keep a blank frame exactly constant: rounding must not look like content
        frame[blank] = path[blank, :1]
    return frame


def _frames(request: Request, grey: bool) -> Iterator[npt.NDArray[Any]]:
    import av

    with av.open(str(request.path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        size: tuple[int, int] | None = None
        for frame in container.decode(stream):
            size = size or (frame.width, frame.height)
            if (frame.width, frame.height) != size:
                raise InputError(
                    f"{request.name}: the frames change their size from {size} to {frame.width}x{frame.height}"
                )
            width, height = _frame_size(*size)
            plain = frame.reformat(width, height, format="gray" if grey else "rgb24", interpolation="AREA")
            yield plain.to_ndarray()
            if request.first_frame:
                return
