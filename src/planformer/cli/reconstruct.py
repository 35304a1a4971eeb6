"""``planformer reconstruct``: a file through encoder and decoder, into a file of the same format."""

from __future__ import annotations

from planformer.cli._restore import one_output

app = one_output(
    "reconstruct",
    """Encode and decode a file: what the latent, the tokens and the two skips keep of it.

    Example: planformer reconstruct recording.wav -o out.wav --compare out.png
    """,
)
