"""The convolutional tokenizer of one domain (paper, Appendix A.4): three stages, 64x compression.

All windows run in one batch.

Features are ``[M, L, C]`` with M = B W (windows of one segment adjacent) and L = 2n interleaved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.config import PlanFormerConfig
from planformer.nn.channel_attention import ChannelTemporalAttention
from planformer.nn.channels_last import conv
from planformer.nn.cross_window import CrossWindowFocus
from planformer.nn.noise_sink import NoiseSink
from planformer.nn.parseval import Aux, Domain
from planformer.nn.spectral_pooling import SpectralPooling, native_pool

KERNELS = (5, 3, 3)


@dataclass
class TokenizerOutput:
    """Tokens ``[B, W, N, D]`` of each window, noise power ``[B]`` summed over the stages, the stages' outputs."""

    tokens: Tensor
    noise_power: Tensor
    aux: Aux
    stages: list[Tensor] = field(default_factory=list)  # [M, L, C] each


def blindspot_conv(x: Tensor, weight: Tensor, blindspot: bool | Tensor) -> Tensor:
    """Convolution ``[M, L, 1] -> [M, L, C]`` whose centre tap is masked everywhere, nowhere, or where ``[M]`` says so.

    For a mask per sample, the masked samples' centre tap is subtracted through a second input channel.
    """
    centre = weight.shape[-1] // 2
    tap = torch.zeros_like(weight)
    tap[..., centre] = weight[..., centre]
    if isinstance(blindspot, Tensor):
        masked = x * blindspot.to(x.dtype)[:, None, None]
        return conv(torch.cat((x, masked), -1), torch.cat((weight, -tap), 1))
    return conv(x, weight - tap if blindspot else weight)


class Stage(nn.Module):
    """Convolution, GELU, noise sink, cross-window focus, pooling, channel-temporal attention."""

    def __init__(self, config: PlanFormerConfig, index: int, domain: Domain) -> None:
        super().__init__()
        before = config.channels[index - 1] if index else 1
        channels, factor = config.channels[index], config.pooling_factor
        length = config.window // factor**index
        self.num_windows = config.num_windows
        self.blindspot = index == 0
        self.focus_first = config.cross_window_position == "before_pooling"
        self.convolution = nn.Conv1d(before, channels, KERNELS[index], bias=False)
        # Without sinks their parameters are fixed: neither the optimiser nor several processes wait for gradients.
        self.sink = NoiseSink(channels).requires_grad_(config.noise_sink)
        self.noise_sink = config.noise_sink
        self.cross_window = CrossWindowFocus(
            channels,
            length=length if self.focus_first else length // factor,
            stride=config.cross_window_strides[index],
            domain=domain,
            num_heads=config.cross_window_heads,
            centring=config.centring,
        )
        self.pool: Callable[[Tensor], Tensor]
        if config.pooling == "frequency" and domain == "time":
            self.pool = SpectralPooling(length, factor)
        else:  # bins of a spectrum, or samples: neighbours along the branch's own axis
            self.pool = NativePooling(factor)
        self.factor = factor
        self.joint_pooling = isinstance(self.pool, NativePooling) and self.cross_window.can_pool(factor)
        self.attention = ChannelTemporalAttention(channels)

    def forward(
        self, x: Tensor, blindspot: bool | Tensor, return_aux: bool
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Features -> pooled features, noise power ``[M]``, auxiliary terms."""
        weight = self.convolution.weight
        x = F.gelu(blindspot_conv(x, weight, blindspot) if self.blindspot else conv(x, weight))
        sunk = (self.sink if self.noise_sink else self.sink.absent)(x, return_aux=return_aux)
        x = sunk.features
        if not self.focus_first:
            x, aux = self.focus(self.pool(x), return_aux)
        elif self.joint_pooling:
            windows = x.unflatten(0, (-1, self.num_windows))
            windows, aux = self.cross_window.forward_pooled(windows, self.factor, return_aux=return_aux)
            x = windows.flatten(0, 1)
        else:
            x, aux = self.focus(x, return_aux)
            x = self.pool(x)
        if sunk.decorrelation is not None:
            aux["noise_decorrelation/sink"] = sunk.decorrelation.mean()
        return self.attention(x), sunk.noise_power, aux

    def focus(self, x: Tensor, return_aux: bool) -> tuple[Tensor, Aux]:
        windows, aux = self.cross_window(x.unflatten(0, (-1, self.num_windows)), return_aux=return_aux)
        return windows.flatten(0, 1), aux


class NativePooling(nn.Module):
    """:func:`native_pool` as a module."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return native_pool(x, self.factor)


class Tokenizer(nn.Module):
    """Windows ``[M, 2 window]`` of one domain -> tokens ``[B, W, N, D]``, IQ pairs interleaved over the channels."""

    def __init__(self, config: PlanFormerConfig, domain: Domain) -> None:
        super().__init__()
        self.num_windows = config.num_windows
        self.domain: Domain = domain
        self.stages = nn.ModuleList(Stage(config, i, domain) for i in range(len(config.channels)))

    def forward(self, windows: Tensor, *, blindspot: bool | Tensor = False, return_aux: bool = True) -> TokenizerOutput:
        """``blindspot``: mask the first kernel's centre tap in all windows, in none, or per window ``[M]``."""
        x = windows.unsqueeze(-1)  # (M, L, 1)
        power = x.new_zeros(x.shape[0])
        aux: Aux = {}
        outputs = []
        for i, stage in enumerate(self.stages, 1):
            x, noise_power, stage_aux = stage(x, blindspot, return_aux)
            power = power + noise_power
            aux |= {f"{key}_{i}": value for key, value in stage_aux.items()}
            outputs.append(x)
        pairs = x.unflatten(1, (-1, 2)).transpose(2, 3)  # (M, n, 2, C) -> (M, n, C, 2)
        tokens = pairs.flatten(2).unflatten(0, (-1, self.num_windows))
        return TokenizerOutput(tokens, power.unflatten(0, (-1, self.num_windows)).mean(1), aux, outputs)
