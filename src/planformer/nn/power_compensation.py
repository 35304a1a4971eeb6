"""Dynamic power compensation after a sink (paper, Appendix A.3 "Noise Sink", stage 4), for the decoder's skip sinks.

The ratio of the sink's power to the input's, each pooled with learned weights over the window, sets a scale and a shift
per feature of a token of two complex samples. The token normalisation that follows it in the encoder is left out: the
skip fusion normalises the whole segment and keeps relative levels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

RATIO_MAX = 2.0
RATIO_EPS = 1e-8


class PowerCompensation(nn.Module):
    """``gamma(ratio) * cleaned + beta(ratio)`` for tokens ``[..., n, 2C]``, which starts at 1 and 0.

    >>> x = torch.randn(2, 5, 16, 8)
    >>> bool(torch.allclose(PowerCompensation(4)(x, torch.zeros_like(x), x), x, atol=0.1))
    True
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        width = 4 * channels
        self.weights = nn.Linear(width, 1, bias=False)  # a softmax follows, which is blind to a bias
        self.affine = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 2 * width))
        last = self.affine[-1]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=1e-3)  # not zero: the layers before it need a gradient
        with torch.no_grad():
            last.bias.copy_(torch.cat([torch.ones(width), torch.zeros(width)]))

    def pooled_power(self, tokens: Tensor) -> Tensor:
        share = torch.softmax(self.weights(tokens), dim=-2)  # (..., n/2, 1)
        return (share * tokens).sum(dim=-2).square().sum(dim=-1, keepdim=True)  # (..., 1)

    def forward(self, x: Tensor, sink: Tensor, cleaned: Tensor) -> Tensor:
        # (..., n, 2C) -> (..., n/2, 4C): two neighbouring complex samples in a token
        wide, removed, kept = (t.unflatten(-2, (-1, 2)).flatten(-2) for t in (x, sink, cleaned))
        ratio = self.pooled_power(removed) / (self.pooled_power(wide) + RATIO_EPS)
        gamma, beta = self.affine(ratio.clamp(0.0, RATIO_MAX)).unsqueeze(-2).chunk(2, dim=-1)  # (..., 1, 4C)
        return torch.addcmul(beta, gamma, kept).unflatten(-1, (2, -1)).flatten(-3, -2)
