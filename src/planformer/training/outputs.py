"""Rows of encoder outputs: a batch that went through the encoder in one pass, taken apart again."""

from __future__ import annotations

from torch import Tensor

from planformer.models.encoder import EncoderOutput


def split_output(out: EncoderOutput, count: int) -> tuple[EncoderOutput, EncoderOutput]:
    """The first ``count`` rows and the rest; the scalars in ``aux`` stay with the whole."""
    return rows_of(out, slice(None, count)), rows_of(out, slice(count, None))


def rows_of(out: EncoderOutput, rows: slice | Tensor) -> EncoderOutput:
    """Some rows of an encoder output, without its auxiliary scalars."""
    skips = out.skips
    if skips is not None:
        skips = type(skips)([x[rows] for x in skips.time], [x[rows] for x in skips.frequency])
    focused = out.focused
    if focused is not None:
        focused = (focused[0][rows], focused[1][rows])
    return EncoderOutput(
        out.time_tokens[rows],
        out.frequency_tokens[rows],
        out.time_latent[rows],
        out.frequency_latent[rows],
        {},
        out.noise_power[rows],
        skips,
        focused,
    )
