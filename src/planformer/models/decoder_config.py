"""The decoder's typed configuration: one architecture (paper, Appendix B) in two sizes."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from planformer.config import PlanFormerConfig

Size = Literal["paper", "compact"]


class DecoderConfig(BaseModel):
    """``paper``: full hypernetwork matrices, 95 M parameters. ``compact``: low-rank ones, the size that is trained.

    >>> DecoderConfig(size="paper").hypernetwork_rank is None
    True
    >>> DecoderConfig().stage_channels, DecoderConfig().stage_lengths
    ((32, 16, 8), (16, 64, 256))
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: Size = "compact"
    blindspot: bool = True  # trained behind the encoder's blind spot, and so denoising with it
    # The encoder's geometry; from_encoder() copies it.
    window: int = 1024
    num_windows: int = 5
    channels: tuple[int, int, int] = (16, 32, 64)
    pooling_factor: int = 4
    # "frequency": upsample bins (the mirror of spectral pooling); "native": samples in the time branch.
    upsampling: Literal["native", "frequency"] = "native"
    activation_windows: int = 20
    refinement_tokens: int = 80
    refinement_heads: int = 8

    @classmethod
    def from_encoder(cls, encoder: PlanFormerConfig, **changes: Any) -> Self:
        """The decoder that fits an encoder and mirrors its pooling."""
        geometry = {name: getattr(encoder, name) for name in ("window", "num_windows", "channels", "pooling_factor")}
        return cls(**{**geometry, "upsampling": encoder.pooling, **changes})

    @property
    def segment(self) -> int:
        """Complex samples of one segment."""
        return self.window * self.num_windows

    @property
    def latent_dim(self) -> int:
        return 2 * self.channels[-1]

    @property
    def stage_channels(self) -> tuple[int, int, int]:
        """Output channels of the three stages: those of the two skips, then half of the last."""
        first, second, _ = self.channels
        return second, first, first // 2

    @property
    def stage_lengths(self) -> tuple[int, int, int]:
        """Complex samples of a window at the input of each stage."""
        ratio = self.pooling_factor
        return self.window // ratio**3, self.window // ratio**2, self.window // ratio

    @property
    def hypernetwork_rank(self) -> int | None:
        return None if self.size == "paper" else 32

    @property
    def film_queries(self) -> int | None:
        """Queries of a dynamic FiLM: one for each token in the published size."""
        return None if self.size == "paper" else 16

    def sink_group(self, domain: Literal["time", "frequency"]) -> int:
        """Samples or bins in one token of a skip sink's focus, which is most of the decoder's time."""
        paper, compact = (1, 4) if domain == "time" else (4, 8)
        return paper if self.size == "paper" else compact

    @property
    def activation_dim(self) -> int:
        """Width of the last activation's tokens."""
        return 64 if self.size == "paper" else 32

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.window % (4 * self.pooling_factor**3):
            raise ValueError(f"a window of {self.window} samples can't be upsampled thrice by {self.pooling_factor}")
        if self.segment % self.refinement_tokens or self.segment % (4 * self.activation_windows):
            raise ValueError(
                f"{self.segment} samples don't divide into {self.refinement_tokens} tokens and "
                f"{self.activation_windows} windows of whole patches"
            )
        return self
