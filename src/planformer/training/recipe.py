"""The typed recipe of a pretraining run: full defaults here, short deltas in ``recipes/*.yaml`` and ``--set``.

The defaults are the paper's procedure (Appendix D): Adam at a constant 1e-4, 128 sequences per process, 400 milestones
of 288 batches, single-source and separation batches in turn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from planformer.config import PlanFormerConfig
from planformer.data.augment import AugmentConfig
from planformer.data.diversify import DiversifyConfig
from planformer.data.scenes import ScenesConfig
from planformer.errors import ConfigError
from planformer.losses.config import ObjectiveConfig
from planformer.models.start import RAISED
from planformer.training.curriculum import CurriculumConfig, ScheduleConfig
from planformer.training.extra_config import ExtraConfig
from planformer.training.section import Section

LONGEST_CHAIN = 16  # of recipes that extend each other


class SimulateConfig(Section):
    """A little data set that the run makes for itself when it is given no folder."""

    samples: int = Field(default=1_500_000, ge=10_240, description="complex samples in all")
    collections: tuple[str, ...] = ("oracle", "powder", "modulation", "commodity", "fm")
    seed: int = 0


Balance = Literal["emitter", "protocol", "collection"]


class DataConfig(Section):
    """Where sequences come from and how a batch is composed."""

    folder: str | None = None
    simulate: SimulateConfig | None = None
    batch_size: int = Field(default=128, ge=2, description="sequences per process and shard")
    balance: Balance = Field(
        default="emitter",
        description="what batches hold equally much of: emitters, their protocols, collections",
    )
    emitters_per_batch: int | None = Field(default=None, ge=1, description="of what is balanced; None: all of them")
    shards: int = Field(default=1, ge=1, description="how many processes' batches one process takes at once")
    prefetch: int = Field(default=2, ge=1, description="batches made ahead")
    in_memory: bool = Field(default=False, description="read all sequences once instead of mapping the files")


class OptimizerConfig(Section):
    """Adam, AdamW or Muon, and which parameters it moves."""

    name: Literal["adam", "adamw", "muon"] = "adam"
    learning_rate: float = Field(default=1e-4, gt=0)
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0, description="matrices only, never biases, norms or tables")
    clip_norm: float | None = Field(default=None, gt=0)
    accumulate: int = Field(default=1, ge=1, description="batches per update")
    freeze: tuple[str, ...] = Field(default=(), description="patterns of parameter names, e.g. encoder.tokenizer*")
    rate_factors: dict[str, float] = Field(default={}, description="pattern -> factor of the learning rate")


class NetworkConfig(Section):
    """Which networks beside the encoder take part."""

    decoder: Literal["none", "compact", "paper"] = "paper"
    symmetry: bool = Field(
        default=True, description="False: only the extra terms and the decoder's reconstruction train"
    )
    projection_dim: int = Field(default=1024, ge=2)
    projection_statistics: Literal["separate", "shared"] = Field(
        default="separate", description="batch norm of embeddings and of their differences apart, or together"
    )
    dropout_prob: float = Field(default=0.25, ge=0, lt=1, description="in the projection and separation networks")
    blindspot: bool = Field(default=True, description="mask the first kernel's centre tap in the noisy branch")
    precision: Literal["float32", "bfloat16"] = "float32"
    activation_checkpointing: bool = False
    target_scale: Literal["input", "unit"] = Field(
        default="input", description="reconstruct the signal as it is in the noisy input, or at unit power"
    )
    init_from: str | None = Field(
        default=None,
        description="weights folder to start the encoder from, and the decoder where it holds one that fits",
    )
    raise_levels: bool = Field(
        default=False, description="give the sinks of the encoder, continued or fresh, the offsets of model.start=level"
    )
    spread_kernels: float = Field(
        default=1.0, ge=1, le=100, description="first kernels in time 1 to so many times as large, which the sinks undo"
    )


class SeparationConfig(Section):
    """Mixture batches."""

    share: float = Field(default=0.5, ge=0, le=1, description="of all batches; 1/2 alternates")
    sinr_range: tuple[float, float] = (0.0, 20.0)
    noise_share: float = Field(default=0.01, ge=0, lt=1)


class EmaConfig(Section):
    decay: float = Field(default=0.999, ge=0, lt=1)


class ProbeConfig(Section):
    """What is measured along the way, in milestones (0: never)."""

    every_milestones: int = Field(default=1, ge=0)
    per_emitter: int = Field(default=16, ge=2)
    weights: Literal["ema", "raw", "both"] = "both"
    compass_every_milestones: int = Field(default=0, ge=0, description="frozen probes on the small fixed task set")
    compass_data: str | None = None
    compass_size: Literal["tiny", "small", "medium"] = "small"
    tsne_every_milestones: int = Field(default=6, ge=0)
    pictures_every_milestones: int = Field(default=6, ge=0)


class CheckpointConfig(Section):
    every_minutes: float = Field(default=10.0, gt=0)
    every_steps: int = Field(default=0, ge=0, description="0: by the clock only")
    keep: int = Field(default=2, ge=1)
    keep_milestone_weights: bool = Field(default=False, description="the encoder's weights of every milestone")


class MonitorConfig(Section):
    log_every: int = Field(default=1, ge=1)
    tensorboard: bool = True
    min_effective_rank: float = Field(default=1.5, ge=0, description="below it the run stops as collapsed")
    min_deviation: float = Field(default=1e-5, ge=0)
    max_skipped: int = Field(default=0, ge=0, description="batches with a loss that is not finite before stopping")


class Recipe(Section):
    """Everything that decides a run; equal recipes on equal data give equal weights.

    >>> Recipe().schedule.total_steps
    115200
    """

    name: str = "default"
    seed: int = Field(default=0, ge=0)
    model: PlanFormerConfig = PlanFormerConfig()
    data: DataConfig = DataConfig()
    diversify: DiversifyConfig = DiversifyConfig.off()
    scenes: ScenesConfig = ScenesConfig()
    augment: AugmentConfig = AugmentConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    networks: NetworkConfig = NetworkConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    separation: SeparationConfig = SeparationConfig()
    extra: ExtraConfig = ExtraConfig()
    ema: EmaConfig = EmaConfig()
    probe: ProbeConfig = ProbeConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    monitor: MonitorConfig = MonitorConfig()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.schedule.warmup_steps >= self.schedule.total_steps:
            raise ValueError("schedule.warmup_steps is not less than the run's steps")
        per_batch = self.data.emitters_per_batch
        if per_batch is not None and per_batch > self.data.batch_size:
            raise ValueError("data.emitters_per_batch is larger than data.batch_size")
        if self.separation.share > 0 and self.networks.decoder == "none":
            raise ValueError("separation.share > 0 needs networks.decoder compact or paper")
        raised = self.model.start in RAISED and self.networks.init_from is None
        if self.networks.raise_levels and raised:
            raise ValueError(f"networks.raise_levels and model.start={self.model.start} would raise the levels twice")
        self._check_kinds()
        self._check_scenes()
        described = self.extra.descriptors_weight > 0 and self.extra.descriptors_branch != "augmented"
        described = described or self.extra.likeness_weight > 0
        if self.extra.emitters_start == "solved" and not described:
            raise ValueError("extra.emitters_start=solved needs descriptors of the clean branch, whose start it shares")
        if not self.networks.symmetry:
            self._check_without_symmetry()
        return self

    def _check_kinds(self) -> None:
        kind, family = self.diversify.kind, self.diversify.family
        if self.extra.kinds_weight > 0 and kind < 2:
            raise ValueError("extra.kinds_weight needs diversify.kind 2 or more: neighbours of one kind in a batch")
        if self.data.batch_size % kind or (family > 1 and family % kind):
            raise ValueError("data.batch_size and diversify.family must be multiples of diversify.kind")

    def _check_scenes(self) -> None:
        size = self.scenes.size
        if size > 1 and self.data.batch_size % size:
            raise ValueError("data.batch_size must be a multiple of scenes.size")
        if self.extra.likeness_weight > 0 and size < 2:
            raise ValueError("extra.likeness_weight needs scenes.size 2 or more")
        if self.extra.likeness_weight > 0 and self.extra.descriptors_weight + self.extra.probe_weight > 0:
            raise ValueError("extra.likeness_weight stands alone: descriptors_weight and probe_weight must be 0")
        if self.extra.likeness_weight > 0 and self.extra.descriptors_branch != "clean":
            raise ValueError("extra.likeness_weight needs extra.descriptors_branch=clean: scenes are of that branch")
        if self.scenes.named and (size < 2 or self.extra.emitters_weight == 0):
            raise ValueError("scenes.named needs scenes.size and extra.emitters_weight: who sends is all that is asked")
        if size > 1 and self.scenes.named >= self.data.batch_size // size:
            raise ValueError("scenes.named leaves no other scene in a batch of data.batch_size sequences")
        if self.scenes.classes and (size < 4 or size % 2):
            raise ValueError("scenes.classes needs an even scenes.size of 4 or more: two members a class or more")
        if self.extra.classes_weight > 0 and not self.scenes.classes:
            raise ValueError("extra.classes_weight needs scenes.classes")
        if size > 1 and self.diversify.kind > 1:
            raise ValueError("scenes.size and diversify.kind exclude each other: both say who neighbours are")

    def _check_without_symmetry(self) -> None:
        if self.separation.share > 0:
            raise ValueError("networks.symmetry=false needs separation.share 0")
        weights = (
            self.extra.descriptors_weight,
            self.extra.probe_weight,
            self.extra.emitters_weight,
            self.extra.kinds_weight,
            self.extra.classes_weight,
            self.extra.likeness_weight,
        )
        if max(*weights, self.extra.start_weight) == 0 and self.networks.decoder == "none":
            raise ValueError("networks.symmetry=false leaves nothing to train by: a decoder, or an extra term's weight")

    @property
    def reads_augmented(self) -> bool:
        """Whether any network sees the transformed, noisy sequences; making them takes two fifths of a batch's time."""
        extra = self.extra
        described = max(extra.descriptors_weight, extra.probe_weight) > 0 and extra.descriptors_branch != "clean"
        return self.networks.symmetry or self.networks.decoder != "none" or described

    @property
    def architecture(self) -> str:
        """A short name that two runs share when one's checkpoint fits the other."""
        likeness = self.extra.likeness_weight > 0
        parts = {
            "model": self.model.model_dump(mode="json"),
            "decoder": self.networks.decoder,
            "symmetry": self.networks.symmetry,
            "separation": self.separation.share > 0,
            "extra": [
                self.extra.descriptors_components if self.extra.descriptors_weight > 0 else 0,
                self.extra.start_weight > 0,
                *(["likeness"] if likeness else []),  # names from before it existed stay valid
                *(["likeness_start"] if likeness and self.extra.likeness_start > 0 else []),
                *(["likeness_embedding"] if likeness and self.extra.likeness_embedding > 0 else []),
                *(["likeness_scenes"] if likeness and self.extra.likeness_scenes else []),
            ],
        }
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"planformer-{self.model.dim}-{digest[:10]}"


def load_recipe(path: str | Path, changes: Iterable[str] = ()) -> Recipe:
    """Read a YAML delta, apply ``key.path=value`` changes, and check everything.

    A recipe may name another one of its folder under ``extends``; its own keys win.
    """
    return build_recipe(_read(Path(path)), changes, where=str(path))


def build_recipe(delta: Mapping[str, Any], changes: Iterable[str] = (), *, where: str = "recipe") -> Recipe:
    """A checked recipe from a nested mapping.

    >>> build_recipe({"seed": 3}, ["optimizer.learning_rate=5e-4"]).optimizer.learning_rate
    0.0005
    """
    merged = merge({}, delta)
    for change in changes:
        merged = merge(merged, parse_change(change))
    try:
        return Recipe.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_explain(error)}") from error


def parse_change(change: str) -> dict[str, Any]:
    """``a.b=1`` -> ``{"a": {"b": 1}}``; the value is YAML, and 5e-4 is a number."""
    key, separator, text = change.partition("=")
    if not separator or not all(key.strip().split(".")):
        raise ConfigError(f"--set {change!r}: write key.path=value, e.g. optimizer.learning_rate=3e-4")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {change!r}: the value is not YAML ({error})") from error
    for part in reversed(key.strip().split(".")):
        value = {part: value}
    return dict(value)


def merge(base: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of ``base`` with ``delta`` laid over it."""
    out = {key: merge({}, value) if isinstance(value, Mapping) else value for key, value in base.items()}
    for key, value in delta.items():
        old = out.get(key)
        if isinstance(value, Mapping):
            out[key] = merge(old if isinstance(old, Mapping) else {}, value)
        else:
            out[key] = value
    return out


def write_recipe(recipe: Recipe, path: Path) -> None:
    """The resolved recipe, every value spelled out."""
    path.write_text(yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False), "utf-8")


def _read(path: Path, depth: int = 0) -> dict[str, Any]:
    try:
        delta = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: can't read the recipe ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a YAML file ({' '.join(str(error).split())})") from error
    delta = {} if delta is None else delta
    if not isinstance(delta, dict):
        raise ConfigError(f"{path}: a recipe is a mapping of sections")
    base = delta.pop("extends", None)
    if base is None:
        return delta
    if depth >= LONGEST_CHAIN:
        raise ConfigError(f"{path}: recipes extend each other without end")
    return merge(_read(path.parent / str(base), depth + 1), delta)


def _explain(error: ValidationError) -> str:
    problems = []
    for item in error.errors():
        place = ".".join(str(part) for part in item["loc"]) or "recipe"
        unknown = item["type"] == "extra_forbidden"
        problems.append(f"unknown key {place}" if unknown else f"{place}: {item['msg']}")
    return "; ".join(problems[:3])
