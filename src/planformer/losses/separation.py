"""Token-level separation and skip-sink complementarity (paper, Appendix C, "Source Separation Losses").

Index 0 is the dominant source A, index 1 the interferer B, which removes the permutation ambiguity.
"""

from __future__ import annotations

from torch import Tensor

from planformer.losses.config import FocalConfig
from planformer.losses.focal import huber_distance
from planformer.losses.inputs import DomainPair, SinkPair


def token_rows(
    separated: tuple[DomainPair, DomainPair],
    targets: tuple[DomainPair, DomainPair],
    config: FocalConfig,
    *,
    detach: bool,
) -> dict[str, Tensor]:
    """Distances ``[B, N]`` of every token, for both sources and domains."""
    rows = {}
    for source, tokens, target in zip("ab", separated, targets, strict=True):
        for domain in ("time", "frequency"):
            wanted: Tensor = getattr(target, domain)
            wanted = wanted.detach() if detach else wanted
            rows[f"token_{source}_{domain}"] = huber_distance(getattr(tokens, domain), wanted, config)
    return rows


def complementarity_rows(sinks: tuple[list[SinkPair], list[SinkPair]], config: FocalConfig) -> dict[str, Tensor]:
    """What the sinks take from one source is what they keep for the other: distances ``[B, ...]`` per layer."""
    if len(sinks[0]) != len(sinks[1]):
        raise ValueError(f"source A has {len(sinks[0])} skip sinks, source B {len(sinks[1])}")
    rows = {}
    for index, (a, b) in enumerate(zip(*sinks, strict=True)):
        rows[f"sink_a_{index}"] = huber_distance(a.sink, b.kept, config)
        rows[f"sink_b_{index}"] = huber_distance(b.sink, a.kept, config)
    return rows
