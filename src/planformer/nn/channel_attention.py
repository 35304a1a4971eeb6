"""Channel-temporal attention that ends a stage (paper, Appendix A.4.2, "Convolutional Attention")."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from planformer.nn.channels_last import conv


class ChannelTemporalAttention(nn.Module):
    """Gate the channels by their mean and maximum over time, then the positions by theirs over the channels.

    >>> ChannelTemporalAttention(16)(torch.randn(3, 64, 16)).shape
    torch.Size([3, 64, 16])
    """

    def __init__(self, channels: int, kernel: int = 7) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, channels // 4, bias=False)
        self.expand = nn.Linear(channels // 4, channels, bias=False)
        self.temporal = nn.Conv1d(2, 1, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """``[M, L, C] -> [M, L, C]``."""
        summary = torch.stack((x.mean(1), x.amax(1)))  # (2, M, C)
        gate = torch.sigmoid(self.expand(torch.relu(self.squeeze(summary))).sum(0))  # (M, C)
        x = x * gate[:, None]
        summary = torch.stack((x.mean(2), x.amax(2)), -1)  # (M, L, 2)
        return x * torch.sigmoid(conv(summary, self.temporal.weight, self.temporal.bias))
