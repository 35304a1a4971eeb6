"""The typed configuration of the encoder (paper, Appendix A), frozen and checked on construction.

Everything that changes an embedding is a field here, so a saved configuration and the weights reproduce it.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from planformer.signals.preprocess import PreprocessConfig

Pooling = Literal["native", "frequency"]
CrossWindowPosition = Literal["before_pooling", "after_pooling"]
Centring = Literal["features", "tokens"]
Start = Literal["balanced", "sharp", "level", "open", "clear", "torch"]
# Written out only where they differ from the default: weights, fingerprints and checkpoints from before they existed
# stay what they are, and a release that does not know them still reads what this one writes.
_ADDED = ("parseval_gate", "noise_sink")


class PlanFormerConfig(BaseModel):
    """Sizes and choices of the encoder; the defaults are the shipped model.

    >>> PlanFormerConfig().num_time_tokens
    80
    >>> PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4).dim
    32
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Geometry: a segment is num_windows windows of `window` complex samples.
    window: int = 1024
    num_windows: int = 5
    channels: tuple[int, int, int] = (16, 32, 64)
    dim: int = 128
    num_heads: int = 8
    cross_window_heads: int = 4
    cross_window_strides: tuple[int, int, int] = (16, 4, 4)
    pooling_factor: int = 4

    # Choices that leave every parameter count as it is; docs/decisions.md has the measurements.
    pooling: Pooling = "native"
    cross_window_position: CrossWindowPosition = "before_pooling"
    centring: Centring = "features"
    start: Start = "open"

    # Parts that an ablation switches off. The parameters stay where they are, so that weights fit either way.
    parseval_gate: bool = True
    noise_sink: bool = True

    preprocess: PreprocessConfig = Field(default_factory=PreprocessConfig)

    @classmethod
    def paper(cls) -> Self:
        """The paper's text where our defaults differ: spectral pooling, the framework's start values, resampling."""
        return cls(pooling="frequency", start="torch", preprocess=PreprocessConfig.paper())

    @property
    def segment(self) -> int:
        """Complex samples of one segment."""
        return self.window * self.num_windows

    @property
    def tokens_per_window(self) -> int:
        return self.window // self.pooling_factor ** len(self.channels)

    @property
    def num_time_tokens(self) -> int:
        """Time tokens of one segment: those of all windows, concatenated."""
        return self.tokens_per_window * self.num_windows

    @property
    def num_frequency_tokens(self) -> int:
        """Frequency tokens of one segment: averaged over the windows."""
        return self.tokens_per_window

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        fields = type(self).model_fields
        return {key: v for key, v in values.items() if key not in _ADDED or v != fields[key].default}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.dim != 2 * self.channels[-1]:
            raise ValueError(f"dim is twice the last stage's channels: {2 * self.channels[-1]}, not {self.dim}")
        if self.dim % self.num_heads:
            raise ValueError(f"num_heads {self.num_heads} does not divide dim {self.dim}")
        if self.num_windows < 1 or self.pooling_factor < 1:
            raise ValueError("num_windows and pooling_factor are at least 1")
        self._check_stages()
        return self

    def _check_stages(self) -> None:
        length = self.window
        for channels, stride in zip(self.channels, self.cross_window_strides, strict=True):
            if channels % 4 or (2 * channels) % self.cross_window_heads:
                raise ValueError(f"{channels} channels: a multiple of 4, and 2x divisible by cross_window_heads")
            if length % self.pooling_factor:
                raise ValueError(f"window {self.window} can't be pooled by {self.pooling_factor} in every stage")
            pooled = length // self.pooling_factor
            focused = pooled if self.cross_window_position == "after_pooling" else length
            if focused % stride or length % 2:
                raise ValueError(f"{focused} samples of a stage are not divisible by its stride {stride}")
            length = pooled
