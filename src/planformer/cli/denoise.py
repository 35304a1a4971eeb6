"""``planformer denoise``: a file through encoder and decoder, into a file of the same format."""

from __future__ import annotations

from planformer.cli._restore import one_output

app = one_output(
    "denoise",
    """Remove noise from a file. The output has the input's format, rate, length and channels.

    Example: planformer denoise recording.wav -o out.wav --compare out.png
    """,
)
