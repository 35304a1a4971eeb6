"""One-dimensional convolutions on the tokenizer's single layout, ``[M, L, C]`` with the channels last.

Every reshape of a stage (tokens of 2C or 4C numbers, folds, pooling) is then a free view, and the convolution runs
on the memory format the CPU kernel prefers, without a reorder before and after it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Same-padded convolution along the length: ``[M, L, C_in]``, weight ``[C_out, C_in, K]`` -> ``[M, L, C_out]``.

    >>> conv(torch.ones(1, 3, 1), torch.ones(1, 1, 3)).flatten()
    tensor([2., 3., 2.])
    """
    image = x.unsqueeze(1).permute(0, 3, 1, 2)  # (M, C, 1, L), channels_last in memory
    kernel = weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)
    output = F.conv2d(image, kernel, bias, padding=(0, weight.shape[-1] // 2))
    return output.permute(0, 2, 3, 1).squeeze(1)
