"""The ``extra`` section of a recipe: terms that are not in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from planformer.data.scenes import NAMES
from planformer.losses.descriptors import ADDED, KNOWN
from planformer.training.section import Section

# Beside the groups of descriptors: what the frozen start says.
START_TOKENS = "start_tokens"
START_EMBEDDING = "start_embedding"


class ExtraConfig(Section):
    """Terms that are not in the paper; all off by default."""

    descriptors_weight: float = Field(default=0.0, ge=0, description="physical descriptors read linearly")
    descriptors_branch: Literal["clean", "augmented", "both"] = "both"
    descriptors_components: int = Field(default=128, ge=1, description="whitened principal components to be read")
    descriptors_emphasis: float = Field(default=0.5, ge=0, le=1, description="power of a component's variance")
    descriptors_groups: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default={}, description="group -> weight before the components (1, phase_powers 0; 0 leaves it out)"
    )
    descriptors_map: Literal["solved", "trained"] = Field(
        default="solved", description="the linear map: solved in every step, or solved once and then trained"
    )
    descriptors_ridge: float = Field(default=1e-2, gt=0, description="of the solution")
    descriptors_memory: float = Field(default=0.99, gt=0, lt=1, description="of the solved map's running moments")
    descriptors_floor: float | None = Field(
        default=None, gt=0, description="count log(1 + square/floor) instead of the square of an error"
    )
    descriptors_of: Literal["signal", "input"] = Field(
        default="signal", description="describe the noise-free signal, or what the encoder sees, noise included"
    )
    descriptors_calibration: int = Field(default=2048, ge=2, description="sequences that fix the components")
    probe_weight: float = Field(default=0.0, ge=0, description="ridge probes of the descriptors within a batch")
    probe_ridge: float = Field(default=0.1, gt=0)
    probe_emitters: float = Field(default=0.0, ge=0, description="the emitters' share beside the descriptors' of one")
    probe_power: float = Field(default=0.5, ge=0, le=1, description="of the descriptors' variance within a batch")
    likeness_weight: float = Field(
        default=0.0, ge=0, description="the embedding as a rotation of the descriptors, relative to each scene"
    )
    likeness_groups: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default={}, description="group -> its share of the descriptors' power (1, phase_powers 0; 0 leaves it out)"
    )
    likeness_names: float = Field(default=0.0, ge=0, description="the emitters' share beside the groups'")
    likeness_start: float = Field(
        default=0.0, ge=0, description="share of the frozen start: mean and deviation of its tokens"
    )
    likeness_embedding: float = Field(
        default=0.0, ge=0, description="share of the frozen start: its embedding; alone, the encoder stays as it is"
    )
    likeness_roots: bool = Field(
        default=True, description="distributions as square roots of their shares; false: as the shares, plain means"
    )
    likeness_floor: float = Field(default=0.05, gt=0, description="count log(1 + error/floor)")
    likeness_scenes: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = Field(
        default={},
        description="scene -> group (or start_tokens, start_embedding) -> factor of its share within such scenes (1)",
    )
    emitters_weight: float = Field(
        default=0.0, ge=0, description="cross-entropy of the emitter, read linearly from sequences as recorded"
    )
    emitters_count: int = Field(default=64, ge=2, description="of emitters that can be told apart")
    emitters_start: Literal["random", "solved"] = Field(
        default="random", description="the map that reads them begins at random, or as a ridge regression"
    )
    classes_weight: float = Field(
        default=0.0, ge=0, description="ridge probes of the classes of a scene, each without the member it names"
    )
    classes_ridge: float = Field(default=0.1, gt=0)
    kinds_weight: float = Field(default=0.0, ge=0, description="which sequences of a batch are of one kind")
    kinds_head: int = Field(default=128, ge=0, description="width of the linear map they are read by; 0: none")
    kinds_temperature: float = Field(default=0.2, gt=0)
    start_weight: float = Field(default=0.0, ge=0, description="the embedding at the start, read linearly")
    start_share: float = Field(default=1.0, gt=0, le=1, description="of the clean sequences that are compared")

    @field_validator("descriptors_groups", "likeness_groups")
    @classmethod
    def _known_groups(cls, groups: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(set(groups) - set(KNOWN)):
            raise ValueError(f"{', '.join(unknown)}: not among {', '.join(KNOWN)}")
        return groups

    @field_validator("likeness_scenes")
    @classmethod
    def _known_scenes(cls, scenes: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        if unknown := sorted(set(scenes) - set(NAMES)):
            raise ValueError(f"{', '.join(unknown)}: not among the scenes {', '.join(NAMES)}")
        known = (*KNOWN, START_TOKENS, START_EMBEDDING)
        if unknown := sorted({group for factors in scenes.values() for group in factors} - set(known)):
            raise ValueError(f"{', '.join(unknown)}: not among {', '.join(known)}")
        return scenes

    @property
    def likeness_reads_start(self) -> bool:
        """Whether the likeness asks for something that the frozen start has to say of every signal."""
        return self.likeness_weight > 0 and max(self.likeness_start, self.likeness_embedding) > 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        """A factor for a group that has no share would change nothing, in silence."""
        absent = set(KNOWN) - set(shares_of(self.likeness_groups))
        absent |= {START_TOKENS} if self.likeness_start == 0 else set()
        absent |= {START_EMBEDDING} if self.likeness_embedding == 0 else set()
        named = {group for factors in self.likeness_scenes.values() for group in factors}
        if wrong := sorted(named & absent):
            raise ValueError(f"likeness_scenes: {', '.join(wrong)} has no share to multiply")
        return self


def shares_of(groups: Mapping[str, float]) -> dict[str, float]:
    """The groups of descriptors that have a share: what is not named has one of 1, but for those that were added.

    >>> shares_of({"waveform": 0, "phase_powers": 2})["phase_powers"], "waveform" in shares_of({"waveform": 0})
    (2, False)
    """
    found = {name: groups.get(name, 0.0 if name in ADDED else 1.0) for name in KNOWN}
    return {name: share for name, share in found.items() if share > 0}
