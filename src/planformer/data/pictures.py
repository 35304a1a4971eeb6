"""Scanned fields: radio samples laid out as a picture and sent line by line, as a picture transmission does.

The samples are smoothed into a field. Those of one scene share the number of lines, the finest detail and what the
field becomes: strokes on an empty ground, areas that are flat above and below, or a field with a floor. Some stand in
the middle of an empty frame, and some look alike. The path runs to and fro along columns, then along lines, and is
brought to the length of a sequence without leaving its band, as :mod:`planformer.signals` prepares images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from planformer.data.diversify import smooth_field, to_and_fro

STROKES, FLAT = 0.35, 0.6  # shares of scenes with strokes, and with strokes or flat areas
FRAMED, ALIKE = 0.5, 0.4
MOST_LINES = 64


@dataclass(frozen=True)
class Style:
    """What the pictures of one scene share."""

    lines: int
    detail: float  # finest detail, cycles per line
    kind: float  # below STROKES: strokes, below FLAT: flat areas, else a floor
    level: float  # 0 to 1: how much of the field is ground
    frame: float  # below FRAMED: the picture stands in the middle of an empty frame
    likeness: float  # below ALIKE: the pictures resemble the first

    @classmethod
    def draw(cls, generator: torch.Generator, most_lines: int = MOST_LINES) -> Style:
        lines = int(torch.randint(12, most_lines + 1, (), generator=generator))
        detail, kind, level, frame, likeness = torch.rand(5, generator=generator).tolist()
        return cls(lines, 0.03 * 12.0**detail, kind, level, frame, likeness)


def picture_signals(x: Tensor, generator: torch.Generator) -> Tensor:
    """Complex sequences ``[B, n]`` as the scans of pictures in one style: real values, as complex numbers.

    >>> x = torch.randn(3, 5120, dtype=torch.complex64)
    >>> picture_signals(x, torch.Generator().manual_seed(0)).shape
    torch.Size([3, 5120])
    """
    style = Style.draw(generator, min(MOST_LINES, math.isqrt(x.shape[-1])))
    own = torch.rand(len(x), 4, generator=generator)
    first = smooth_field(x[0], style.lines, style.detail)
    rows = []
    for row, chance in zip(x, own.tolist(), strict=True):
        field = smooth_field(row, style.lines, style.detail)
        if style.likeness < ALIKE:
            field = field + (0.4 + chance[0]) * first
            field = field / field.std().clamp_min(1e-8)
        rows.append(scanned(field, style, chance[1:], x.shape[-1]))
    return torch.stack(rows).to(x.dtype)


def scanned(field: Tensor, style: Style, own: Sequence[float], n: int) -> Tensor:
    """A field drawn in a style and scanned, ``[n]``; ``own``: three numbers from 0 to 1, its ink, height and width."""
    drawn = _in_frame(_inked(field, style, own[0]), style, own[1], own[2])
    if float(drawn.std()) < 1e-3:  # nothing reached the ink: the field itself
        drawn = field
    return band_limited(_path(drawn), n)


def _inked(field: Tensor, style: Style, own: float) -> Tensor:
    if style.kind < STROKES:
        return ((field - 0.4 - 1.4 * style.level) / (0.15 + 0.6 * style.kind)).clamp(0, 1)
    if style.kind < FLAT:
        low = 2.5 * style.level - 2
        return field.clamp(low, low + 0.7 + 2 * own)
    return field.clamp_min(3 * own - 2.5)


def _in_frame(field: Tensor, style: Style, height: float, width: float) -> Tensor:
    """Fade the field out towards its border, in half of the scenes."""
    if style.frame >= FRAMED:
        return field
    place = torch.linspace(-1, 1, style.lines).abs()
    half = 0.45 + style.level * style.frame + 0.1 * height
    columns, rows = (torch.sigmoid(12 * (side - place)) for side in (half, half + 0.3 * (width - 0.5)))
    return (field - field.min()) * columns[:, None] * rows


def _path(field: Tensor) -> Tensor:
    path = torch.cat((to_and_fro(field.T.contiguous()), to_and_fro(field)))
    return path - path.mean()


def band_limited(path: Tensor, n: int) -> Tensor:
    """A real row at ``n`` points by its spectrum: nothing appears beyond the band that it had.

    >>> row = torch.cos(2 * torch.pi * torch.arange(8) / 8)
    >>> bool(torch.allclose(band_limited(row, 16)[::2], row, atol=1e-6))
    True
    """
    spectrum = torch.fft.rfft(path)
    kept = spectrum.new_zeros(n // 2 + 1)
    count = min(len(spectrum), len(kept))
    kept[:count] = spectrum[:count]
    return torch.fft.irfft(kept, n) * (n / len(path))
