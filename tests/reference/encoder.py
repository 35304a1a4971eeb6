"""The whole encoder the plain way: window after window, domain after domain, ``[B, C, L]``, explicit transforms.

It reads the parameters of the fast module, so both can be compared and timed side by side.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer import iq
from reference.cross_window import all_windows
from reference.focus import glu, rms_norm
from reference.noise_sink import noise_sink
from reference.parseval import parseval_transformer
from reference.spectral_pooling import pool

Aux = dict[str, Tensor]


def channel_attention(module: nn.Module, x: Tensor) -> Tensor:
    def mlp(summary: Tensor) -> Tensor:
        return module.expand(torch.relu(module.squeeze(summary)))

    x = x * torch.sigmoid(mlp(x.mean(2)) + mlp(x.max(2).values))[..., None]
    summary = torch.cat((x.mean(1, keepdim=True), x.max(1, keepdim=True).values), 1)
    return x * torch.sigmoid(F.conv1d(summary, module.temporal.weight, module.temporal.bias, padding="same"))


def first_convolution(x: Tensor, weight: Tensor, blindspot: Tensor) -> Tensor:
    masked = weight.clone()
    masked[..., weight.shape[-1] // 2] = 0
    full, blind = F.conv1d(x, weight, padding="same"), F.conv1d(x, masked, padding="same")
    return torch.where(blindspot[:, None, None], blind, full)


def stage(
    module: nn.Module, config: object, windows: list[Tensor], domain: str, blindspot: Tensor
) -> tuple[list[Tensor], Tensor, Aux]:
    weight = module.convolution.weight
    convolved = [
        first_convolution(x, weight, blindspot) if module.blindspot else F.conv1d(x, weight, padding="same")
        for x in windows
    ]
    if module.noise_sink:
        sunk = [noise_sink(module.sink, F.gelu(x)) for x in convolved]
    else:
        sunk = [(F.gelu(x), torch.zeros(len(x)), torch.zeros(len(x))) for x in convolved]
    cleaned = [features for features, _, _ in sunk]

    def pooled(features: list[Tensor]) -> list[Tensor]:
        return [pool(x, config.pooling_factor, domain, config.pooling) for x in features]

    if config.cross_window_position == "before_pooling":
        focused, orthogonality = all_windows(module.cross_window, cleaned)
        focused = pooled(focused)
    else:
        focused, orthogonality = all_windows(module.cross_window, pooled(cleaned))
    outputs = [channel_attention(module.attention, x) for x in focused]
    power = torch.stack([p for _, p, _ in sunk]).mean(0)
    decorrelation = torch.stack([d for _, _, d in sunk]).mean()
    return outputs, power, {"orthogonality/cross_window": orthogonality, "noise_decorrelation/sink": decorrelation}


def tokenizer(
    module: nn.Module, config: object, windows: list[Tensor], domain: str, blindspot: Tensor
) -> tuple[list[Tensor], Tensor, Aux]:
    aux: Aux = {}
    power = torch.zeros(())
    for i, block in enumerate(module.stages, 1):
        windows, noise_power, stage_aux = stage(block, config, windows, domain, blindspot)
        power = power + noise_power
        aux |= {f"{key.replace('/', f'/{domain}_', 1)}_{i}": value for key, value in stage_aux.items()}
    return [iq.channels_to_tokens(x) for x in windows], power, aux


def fuse(module: nn.Module, time: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
    def gate(layer: nn.Module, own: Tensor, other: Tensor) -> Tensor:
        projection = layer.projection
        return glu(torch.cat((own, other), -1), layer.norm.weight, projection.weight.T, projection.bias)

    if time.dim() == 3:  # 1x1 convolutions with the tokens as channels
        to_time = F.conv1d(frequency, module.to_time.weight[..., None], module.to_time.bias)
        to_frequency = F.conv1d(time, module.to_frequency.weight[..., None], module.to_frequency.bias)
    else:
        to_time, to_frequency = module.to_time(frequency), module.to_frequency(time)
    return gate(module.time_glu, time, to_time), gate(module.frequency_glu, frequency, to_frequency)


def attentional_pooling(module: nn.Module, tokens: Tensor) -> Tensor:
    weights = torch.softmax(module.logit(rms_norm(tokens, module.norm.weight)), 1)
    return (weights * tokens).sum(1)


def encoder_tokens(module: nn.Module, x: Tensor, blindspot: Tensor) -> tuple[Tensor, Tensor, Tensor, Aux]:
    config = module.config
    windows = list(x[:, None].chunk(config.num_windows, -1))  # [B, 1, 2 window] each
    time, time_power, time_aux = tokenizer(module.time_tokenizer, config, windows, "time", blindspot)
    spectra = [iq.fft(w) for w in windows]
    frequency, frequency_power, frequency_aux = tokenizer(
        module.frequency_tokenizer, config, spectra, "frequency", blindspot
    )
    time_tokens = torch.cat(time, 1) + module.time_positions
    frequency_tokens = torch.stack(frequency).mean(0) + module.frequency_positions
    time_tokens, frequency_tokens = fuse(module.tokenizer_fusion, time_tokens, frequency_tokens)
    time_tokens, first = parseval_transformer(module.time_transformer, time_tokens, "time")
    frequency_tokens, second = parseval_transformer(module.frequency_transformer, frequency_tokens, "frequency")
    time_tokens, frequency_tokens = fuse(module.transformer_fusion, time_tokens, frequency_tokens)
    aux = time_aux | frequency_aux
    aux |= {key.replace("/", "/time_", 1): value for key, value in first.items()}
    aux |= {key.replace("/", "/frequency_", 1): value for key, value in second.items()}
    return time_tokens, frequency_tokens, time_power + frequency_power, aux


def encoder(
    module: nn.Module, x: Tensor, blindspot: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Aux]:
    """Time tokens, frequency tokens, embedding, noise power, auxiliary terms."""
    if blindspot is None:
        blindspot = torch.zeros(x.shape[0], dtype=torch.bool)
    time, frequency, power, aux = encoder_tokens(module, x, blindspot)
    latents = fuse(
        module.latent_fusion,
        attentional_pooling(module.time_pooling, time),
        attentional_pooling(module.frequency_pooling, frequency),
    )
    return time, frequency, torch.cat(latents, -1), power, aux
