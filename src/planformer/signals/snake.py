"""Images as sequences: two boustrophedon ("snake") passes over the pixels (paper, section 4; Appendix E, image tasks).

The vertical pass runs down the first column, up the second, and so on; the horizontal pass runs along the first row,
back along the second. One sequence holds the vertical pass and then the horizontal one, so each pixel occurs twice and
neighbours in the sequence are always neighbours in the image (but at the one seam between the passes).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

IndexArray = npt.NDArray[np.intp]


@lru_cache(maxsize=8)
def snake_indices(height: int, width: int) -> IndexArray:
    """Flat (row-major) pixel indices ``[2 height width]`` in the order of the path: vertical pass, then horizontal.

    >>> snake_indices(2, 3).tolist()
    [0, 3, 4, 1, 2, 5, 0, 1, 2, 5, 4, 3]
    """
    grid = np.arange(height * width, dtype=np.intp).reshape(height, width)
    horizontal = grid.copy()
    horizontal[1::2] = horizontal[1::2, ::-1]
    vertical = grid.T.copy()  # (width, height): one row for each column of the image
    vertical[1::2] = vertical[1::2, ::-1]
    path = np.concatenate([vertical.ravel(), horizontal.ravel()])
    path.flags.writeable = False
    return path


def unwrap(images: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Pixels ``[..., H, W]`` -> the path ``[..., 2 H W]``."""
    *lead, height, width = images.shape
    flat = images.reshape(*lead, height * width)
    return np.take(flat, snake_indices(height, width), axis=-1)


def roll_back(path: npt.NDArray[Any], height: int, width: int) -> npt.NDArray[Any]:
    """The path ``[..., 2 H W]`` -> pixels ``[..., H, W]``, the mean of what both passes say about a pixel.

    >>> import numpy as np
    >>> image = np.arange(12.0).reshape(3, 4)
    >>> bool((roll_back(unwrap(image), 3, 4) == image).all())
    True
    """
    count = height * width
    if path.shape[-1] != 2 * count:
        raise ValueError(f"a path over {height}x{width} pixels has {2 * count} points, not {path.shape[-1]}")
    indices = snake_indices(height, width)
    vertical = np.empty((*path.shape[:-1], count), path.dtype)
    horizontal = np.empty_like(vertical)
    vertical[..., indices[:count]] = path[..., :count]
    horizontal[..., indices[count:]] = path[..., count:]
    return ((vertical + horizontal) / 2).reshape(*path.shape[:-1], height, width)
