"""Scenes: neighbours in a batch that could be one data set, made from radio alone (our addition).

A probe tells apart what one data set holds: utterances, notes, pictures, texts, captures of one receiver. They differ
from each other by far less than two data sets do, and radio as it is recorded is like none of them but the last. A
scene takes a few sequences of related recordings through the same kind of physics: pictures are fields of samples on
a raster, scanned to and fro as a picture transmission does; letters are a code of unequal, unequally likely levels;
voices are a repeated stretch behind a moving filter, with pauses. What the members of a scene share and what they
have of their own are both drawn at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from planformer.data.augment import unit_power
from planformer.data.diversify import (
    DiversifyConfig,
    diversify,
    fade,
    gate,
    repeat,
    shape_spectrum,
    stretch,
)
from planformer.data.kinds import unit_where_present
from planformer.data.letters import letter_signals
from planformer.data.pictures import picture_signals
from planformer.data.selective import FREQUENCIES, TIMES, selective_fade
from planformer.errors import ConfigError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]

NAMES = ("recorded", "general", "voice", "tone", "picture", "letters")
NAMED = len(NAMES)  # number of the scenes that ScenesConfig.named adds: as recorded, and only who sends is asked
NOISY_PROB, NOISE_DB = 0.6, 30.0  # of the scenes as recorded; the signal is 0 to so many dB above the noise
CANDIDATES = 12  # for each relative that is to have a near spectrum
MADE_UP = (0.6, 0.6, 0.9)  # ScenesConfig.related of every scene that is not as recorded


class ScenesConfig(BaseModel):
    """Which scenes, and how many sequences are in one; ``size`` 0: none, every sequence is diversified on its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = Field(default=0, ge=0, description="sequences of one scene; 0 or 1: no scenes")
    classes: bool = Field(default=False, description="members belong to classes, drawn anew for every scene")
    recorded: float = Field(default=0.30, ge=0, description="share: as recorded, often behind a noisy receiver")
    general: float = Field(default=0.22, ge=0, description="share: any steps of diversification")
    voice: float = Field(default=0.15, ge=0, description="share: repeated stretches, moving filters, pauses")
    tone: float = Field(default=0.09, ge=0, description="share: repeated stretches of steady strength")
    picture: float = Field(default=0.14, ge=0, description="share: scanned fields")
    letters: float = Field(default=0.10, ge=0, description="share: few levels in irregular order")
    related: tuple[float, float, float] = Field(
        default=(0.25, 0.55, 0.9),
        description="as recorded: chance that relatives are of any kind, of any or the same collection, and so on to "
        "protocol; else of the same emitter",
    )
    recorded_from: dict[str, float] = Field(
        default={},
        description="collection -> how often a scene as recorded begins in it; none: as batches are balanced",
    )
    near: float = Field(
        default=0.0, ge=0, le=1, description="as recorded: chance that relatives are those with the nearest spectra"
    )
    noise_free: bool = Field(
        default=False, description="as recorded: descriptors are those of the signal without the receiver's noise"
    )
    named: int = Field(
        default=0,
        ge=0,
        description="scenes of every batch that are as recorded, without added noise, in equal parts of the emitters "
        "of one collection: only who sends is asked of them (extra.emitters_weight), no description",
    )
    named_from: dict[str, float] = Field(
        default={}, description="collection -> how often a named scene is of it; none: of all with two emitters alike"
    )
    words: float = Field(
        default=0.0, ge=0, le=1, description="letters: chance that they come in words, each after those it likes"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.size > 1 and not any(getattr(self, name) > 0 for name in NAMES):
            raise ValueError(f"scenes.size={self.size} needs a share above 0: {', '.join(NAMES)}")
        if self.noise_free and self.classes:
            raise ValueError("scenes.noise_free and scenes.classes: members of a class differ by their channels, too")
        if self.named and self.classes:
            raise ValueError("scenes.named and scenes.classes: members of a named scene have their emitters as classes")
        for name in ("named_from", "recorded_from"):
            shares = getattr(self, name).values()
            if shares and not (min(shares) >= 0 and sum(shares) > 0):
                raise ValueError(f"scenes.{name}: shares of 0 or more, at least one of them above 0")
        if list(self.related) != sorted(self.related) or not 0 <= self.related[0] <= self.related[-1] <= 1:
            raise ValueError(f"scenes.related={list(self.related)}: three chances from 0 to 1 that do not fall")
        return self

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """The probability of each of :data:`NAMES`."""
        values = np.array([getattr(self, name) for name in NAMES], np.float64)
        return values / values.sum()


def relatives(
    firsts: IntArray,
    strata: dict[str, IntArray],
    rng: np.random.Generator,
    names: list[str],
    config: ScenesConfig,
    spectra: FloatArray | None = None,
) -> IntArray:
    """For the first sequence of each scene ``size - 1`` more: of any, of its collection, protocol or emitter.

    ``strata`` numbers the class of every sequence of the data set, from 0 without gaps, for "any" (one draws a class,
    then a sequence of it), "collection", "protocol" and "emitter". Made-up scenes are mixed more often than those as
    recorded. With ``spectra`` (:func:`coarse_spectra` of every sequence) some of the latter, ``config.near`` of them,
    keep the nearest of :data:`CANDIDATES` times as many: what differs among them is not how the band is filled.
    """
    rows, size = [], config.size
    for first, name in zip(firsts, names, strict=True):
        chance = rng.random()
        mixed, collection, protocol = config.related if name == "recorded" else MADE_UP
        close = spectra is not None and name == "recorded" and rng.random() < config.near
        wanted = (size - 1) * (CANDIDATES if close else 1)
        if chance < mixed:
            kinds = rng.choice(strata["any"].max() + 1, wanted)
            others = np.array([rng.choice(np.flatnonzero(strata["any"] == kind)) for kind in kinds], np.int64)
        else:
            scope = "collection" if chance < collection else "protocol" if chance < protocol else "emitter"
            others = rng.choice(np.flatnonzero(strata[scope] == strata[scope][first]), wanted)
        if close and spectra is not None:
            distance = np.square(spectra[others] - spectra[first]).sum(1)
            others = others[np.argsort(distance, kind="stable")[: size - 1]]
        rows.append(np.concatenate(([first], others)))
    return np.concatenate(rows).astype(np.int64)


def rows_of(collections: Sequence[str], shares: dict[str, float], where: str) -> dict[str, IntArray]:
    """The rows of each collection that has a share; one that is not there is an error that names ``where``."""
    found = np.asarray(collections)
    if unknown := sorted(set(shares) - set(found.tolist())):
        known = ", ".join(np.unique(found).tolist())
        raise ConfigError(f"{where}: no recording of {', '.join(unknown)} (there are: {known})")
    return {name: np.flatnonzero(found == name) for name, share in shares.items() if share > 0}


class CollectionDraw:
    """Draws sequences by collection: ``shares`` is :attr:`ScenesConfig.recorded_from`.

    >>> draw = CollectionDraw(["a", "b", "b"], {"b": 2.0, "a": 0.0})
    >>> draw.first(np.random.default_rng(0)) in (1, 2)
    True
    """

    def __init__(self, collections: Sequence[str], shares: dict[str, float]) -> None:
        self.pools = list(rows_of(collections, shares, "scenes.recorded_from").values())
        weights = np.array([share for share in shares.values() if share > 0])
        self.shares = weights / weights.sum()

    def first(self, rng: np.random.Generator) -> int:
        """One sequence."""
        return int(rng.choice(self.pools[rng.choice(len(self.pools), p=self.shares)]))


class NamedScenes:
    """Draws scenes as recorded whose members are those of one collection, every emitter as often as another.

    ``shares`` is :attr:`ScenesConfig.named_from`. Emitters are told apart by their hardware only where everything else
    is alike, and by a network that has heard each of them through many channels; scenes as they are otherwise drawn
    hold few sequences of any one emitter.

    >>> scenes = NamedScenes(["a", "a", "b", "b", "c"], np.array([0, 1, 2, 3, 4]), {"b": 1.0})
    >>> sorted(scenes.draw(4, np.random.default_rng(0)).tolist())
    [2, 2, 3, 3]
    """

    def __init__(self, collections: Sequence[str], emitters: IntArray, shares: dict[str, float]) -> None:
        several = shares or dict.fromkeys(sorted(set(collections)), 1.0)
        rows = rows_of(collections, several, "scenes.named_from")
        pools = {name: [of[emitters[of] == code] for code in np.unique(emitters[of])] for name, of in rows.items()}
        if not shares:
            pools = {name: pool for name, pool in pools.items() if len(pool) > 1}
        if not pools or min(map(len, pools.values())) < 2:
            raise ConfigError("scenes.named needs collections of two emitters or more: there is nobody to tell apart")
        weights = np.array([several[name] for name in pools])
        self.pools, self.shares = list(pools.values()), weights / weights.sum()

    def draw(self, size: int, rng: np.random.Generator) -> IntArray:
        """Indices of the members of one scene."""
        pool = self.pools[rng.choice(len(self.pools), p=self.shares)]
        order = rng.permutation(len(pool))
        return np.array([rng.choice(pool[order[k % len(pool)]]) for k in range(size)], np.int64)


def coarse_spectra(x: npt.NDArray[np.complex64], bands: int = 32) -> FloatArray:
    """Log power in equal bands, ``[n, samples] -> [n, bands]``, relative to the power of the whole."""
    power = np.square(np.abs(np.fft.fft(x, axis=-1))).reshape(len(x), bands, -1).mean(-1)
    return np.log(power / np.maximum(power.mean(-1, keepdims=True), 1e-20) + 1e-3).astype(np.float32)


def stage(x: Tensor, name: str, generator: torch.Generator, general: DiversifyConfig, words: float = 0.0) -> Tensor:
    """Complex sequences ``[B, n]`` of unit power as one scene; ``general`` are the steps of the scene of that name,
    ``words`` the chance of :attr:`ScenesConfig.words`.

    >>> x = torch.randn(4, 5120, dtype=torch.complex64)
    >>> stage(x, "letters", torch.Generator().manual_seed(0), DiversifyConfig()).shape
    torch.Size([4, 5120])
    """
    if name == "recorded":
        return received(x, generator)
    if name == "general":
        return diversify(x, generator, general.model_copy(update={"family": len(x), "kind": 1, "plain_prob": 0.0}))
    if name == "picture":
        return analytic(picture_signals(x, generator))
    if name == "letters":
        return analytic(letter_signals(x, generator, words))
    return _sounding(x, SOUNDS[name], generator)


def received(x: Tensor, generator: torch.Generator) -> Tensor:
    """As recorded, or behind a receiver that adds noise of its own to every sequence."""
    level = 10 ** (-NOISE_DB / 20 * torch.rand(len(x), generator=generator))
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    noisy = float(torch.rand((), generator=generator)) < NOISY_PROB
    return unit_power(x + level[:, None] * noise) if noisy else x


def analytic(x: Tensor) -> Tensor:
    """The analytic signal of the real part, without its mean, unit power."""
    nothing = torch.zeros(len(x))
    return shape_spectrum(
        x, one_sided=torch.ones(len(x), dtype=torch.bool), tilt=nothing, resonance=nothing[:, None].expand(-1, 2)
    )


@dataclass(frozen=True)
class Sound:
    """How often a scene's sequences are played slower, repeated, filtered, faded, followed by silence."""

    max_stretch: float
    repeat_prob: float
    tilt_prob: float
    resonance_prob: float
    selective_prob: float
    fading_prob: float
    depth: float  # of the envelope, natural logarithm
    noise_prob: float
    gate_prob: float
    stretch_prob: float = 0.7


SOUNDS = {
    "voice": Sound(
        max_stretch=8.0,
        repeat_prob=0.6,
        tilt_prob=0.8,
        resonance_prob=0.6,
        selective_prob=0.7,
        fading_prob=0.9,
        depth=2.2,
        noise_prob=0.1,
        gate_prob=0.85,
    ),
    "tone": Sound(
        max_stretch=24.0,
        repeat_prob=0.9,
        tilt_prob=0.7,
        resonance_prob=0.8,
        selective_prob=0.1,
        fading_prob=0.4,
        depth=1.2,
        noise_prob=0.2,
        gate_prob=0.05,
    ),
}


def _sounding(x: Tensor, sound: Sound, generator: torch.Generator) -> Tensor:
    """A source, a filter, an envelope: steps are taken by the whole scene, most of their values are each one's own."""
    count = len(x)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    taken = dict(zip(("stretch", "repeat", "tilt", "resonance", "selective", "fading", "noise", "gate"),
                     uniform(8).tolist(), strict=True))  # fmt: skip

    def takes(step: str) -> bool:
        return taken[step] < float(getattr(sound, f"{step}_prob"))

    factor = float(sound.max_stretch ** uniform(1))
    x = stretch(x, torch.full((count,), factor if takes("stretch") else 1.0))
    if takes("repeat"):
        period = (12.0 * 50.0 ** float(uniform(1)) * torch.exp(0.35 * normal(count))).clamp(8.0, 640.0)
        source = torch.zeros(count, dtype=torch.int64) if float(uniform(1)) < 0.5 else torch.arange(count)
        x = repeat(x, period, source)
    tilt = float(3 * uniform(1)) if takes("tilt") else 0.0
    resonance = normal(count, 12) if takes("resonance") else torch.zeros(count, 12)
    every = torch.ones(count, dtype=torch.bool)
    x = shape_spectrum(x, one_sided=every, tilt=torch.full((count,), tilt), resonance=resonance)
    if takes("selective"):
        control = 0.95 * normal(1, TIMES, FREQUENCIES) + 0.3 * normal(count, TIMES, FREQUENCIES)
        own = control if float(uniform(1)) < 0.5 else normal(count, TIMES, FREQUENCIES)
        x = unit_power(selective_fade(x, own, torch.exp(0.25 * normal(count)), torch.exp(0.12 * normal(count))))
    if takes("fading"):
        points = 8 + int(20 * float(uniform(1)))
        x = unit_power(fade(x, normal(count, points), sound.depth))
    if takes("noise"):
        x = unit_power(
            x + (10 ** (-2 * uniform(count)))[:, None] * torch.randn(x.shape, generator=generator, dtype=x.dtype)
        )
    length = 0.15 + 0.85 * uniform(count)
    return unit_where_present(gate(x, length)) if takes("gate") else x
