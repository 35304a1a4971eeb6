"""From segments to one vector per signal, in constant memory (paper, Appendix A.10, steps 3 to 5).

Time tokens of all segments are pooled by one softmax: each segment contributes its largest score, its sum of
exponentials and its weighted sum of tokens, and two contributions merge exactly (running softmax). Frequency tokens
are averaged. A sum of contributions is a contribution, so a stream, a batch and a whole recording give one answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from planformer.models.encoder import Encoder, EncoderOutput

Readout = Literal["latent", "tokens"]


@dataclass(frozen=True)
class Partial:
    """What ``k`` stretches of signal contribute, one row each; in double precision, so that a day adds up."""

    peak: Tensor  # [k] largest pooling score of the time tokens
    weight: Tensor  # [k] sum of exp(score - peak)
    value: Tensor  # [k, D] sum of exp(score - peak) * token
    frequency: Tensor  # [k, Nf, D] sum of the frequency tokens over segments
    first: Tensor  # [k, D] sum of the time tokens
    second: Tensor  # [k, D] sum of their squares
    tokens: Tensor  # [k] number of time tokens
    segments: Tensor  # [k] number of segments

    def __getitem__(self, row: int) -> Partial:
        return Partial(*(getattr(self, f.name)[row : row + 1] for f in fields(self)))

    @staticmethod
    def stack(parts: Sequence[Partial]) -> Partial:
        return Partial(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Partial)))


def token_moments(time: Tensor, frequency: Tensor) -> Tensor:
    """Tokens ``[B, Nt, D]`` and ``[B, Nf, D]`` -> mean and deviation of each domain's, ``[B, 4D]``."""
    return torch.cat([part for x in (time, frequency) for part in (x.mean(1), x.std(1, correction=0))], 1)


class SegmentPool:
    """Runs segments through an encoder and merges what they contribute."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @torch.inference_mode()
    def partials(self, segments: npt.NDArray[np.complex64]) -> Partial:
        """Complex segments ``[k, 5120]`` -> one contribution each."""
        tokens = self.encoder.tokenize(self._interleaved(segments), return_aux=False)
        scores = self.encoder.time_pooling.logits(tokens.time).squeeze(-1).double()  # [k, Nt]
        time = tokens.time.double()  # [k, Nt, D]
        peak = scores.amax(1)
        weights = torch.exp(scores - peak[:, None])
        count = torch.ones_like(peak)
        return Partial(
            peak=peak,
            weight=weights.sum(1),
            value=torch.einsum("kn,knd->kd", weights, time),
            frequency=tokens.frequency.double(),
            first=time.sum(1),
            second=time.square().sum(1),
            tokens=count * time.shape[1],
            segments=count,
        )

    @staticmethod
    def reduce(parts: Partial, owners: Sequence[int], count: int) -> Partial:
        """Merge rows of the same owner: ``k`` rows -> ``count`` rows."""
        index = torch.as_tensor(owners, device=parts.peak.device)
        peak = parts.peak.new_full((count,), -torch.inf).scatter_reduce(0, index, parts.peak, "amax")
        scale = torch.exp(parts.peak - peak[index])  # [k]

        def add(x: Tensor) -> Tensor:
            return x.new_zeros((count, *x.shape[1:])).index_add(0, index, x)

        return Partial(
            peak=peak,
            weight=add(parts.weight * scale),
            value=add(parts.value * scale[:, None]),
            frequency=add(parts.frequency),
            first=add(parts.first),
            second=add(parts.second),
            tokens=add(parts.tokens),
            segments=add(parts.segments),
        )

    def pool_rows(self, segments: npt.NDArray[np.complex64], batch_size: int) -> Partial:
        """Segments ``[n, S, 5120]`` -> one merged contribution per row, ``batch_size`` segments at a time."""
        n, per_row, length = segments.shape
        flat = segments.reshape(n * per_row, length)
        owners = np.repeat(np.arange(n), per_row).tolist()
        parts = [self.partials(flat[start : start + batch_size]) for start in range(0, len(flat), batch_size)]
        return self.reduce(Partial.stack(parts), owners, n)

    @torch.inference_mode()
    def read(self, parts: Partial, readout: Readout = "latent") -> npt.NDArray[np.float32]:
        """Finish: contributions -> ``[k, 2D]`` (latents of both domains) or ``[k, 4D]`` (token moments)."""
        frequency = parts.frequency / parts.segments[:, None, None]  # [k, Nf, D]
        if readout == "tokens":
            mean = parts.first / parts.tokens[:, None]
            variance = parts.second / parts.tokens[:, None] - mean.square()
            moments = [mean, variance.clamp_min(0).sqrt(), frequency.mean(1), frequency.std(1, correction=0)]
            return torch.cat(moments, 1).float().cpu().numpy()
        time = (parts.value / parts.weight[:, None]).float()
        pooled = self.encoder.frequency_pooling(frequency.float())
        return torch.cat(self.encoder.latent_fusion(time, pooled), 1).cpu().numpy()

    @torch.inference_mode()
    def encode(self, segments: npt.NDArray[np.complex64], batch_size: int = 64) -> EncoderOutput:
        """Segments ``[channels, S, 5120]`` -> tokens, latents and auxiliary terms, one row per channel."""
        channels, per_row, length = segments.shape
        flat = segments.reshape(channels * per_row, length)
        outs = [
            self.encoder(self._interleaved(flat[start : start + batch_size]))
            for start in range(0, len(flat), batch_size)
        ]
        if len(outs) == 1 and per_row == 1:
            return outs[0]
        time = torch.cat([out.time_tokens for out in outs]).unflatten(0, (channels, per_row)).flatten(1, 2)
        frequency = torch.cat([out.frequency_tokens for out in outs]).unflatten(0, (channels, per_row)).mean(1)
        power = torch.cat([out.noise_power for out in outs]).unflatten(0, (channels, per_row)).mean(1)
        shares = [len(out.time_latent) / len(flat) for out in outs]
        aux = {
            key: sum((share * out.aux[key] for share, out in zip(shares, outs, strict=True)), torch.zeros(()))
            for key in outs[0].aux
        }
        return EncoderOutput(time, frequency, *self.encoder.pool(time, frequency), aux=aux, noise_power=power)

    def _interleaved(self, segments: npt.NDArray[np.complex64]) -> Tensor:
        """Complex ``[k, n]`` -> interleaved ``[k, 2n]`` on the encoder's device, without a copy on the CPU."""
        real = np.ascontiguousarray(segments).view(np.float32)
        tensor = torch.from_numpy(real) if real.flags.writeable else torch.tensor(real)
        return tensor.to(next(self.encoder.parameters()).device)
