"""From a model's name to the methods of an evaluation: its readouts, and the untrained encoders beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planformer.config import Start
from planformer.errors import WeightsError
from planformer.evaluation.featurisers import EncoderFeatures
from planformer.evaluation.run import AGAINST

if TYPE_CHECKING:
    from planformer.models.planformer import PlanFormer


@dataclass(frozen=True, eq=False)
class JudgedModel:
    """A loaded model and how to speak about its weights."""

    model: PlanFormer
    name: str  # "planformer", or "random:SEED"
    weights: str
    trained: bool
    folder: Path | None = None  # where trained weights lie

    def readouts(self, *, tokens: bool = True) -> list[EncoderFeatures]:
        """The paper's latent, and beside it token mean and deviation of both domains."""
        found = [EncoderFeatures(self.model, self.name, title="256-number latent")]
        if tokens:
            name = f"{self.name}+tokens"
            found.append(EncoderFeatures(self.model, name, readout="tokens", title="token mean and deviation, 512"))
        return found


def load_model(source: str | Path | None, *, fall_back: bool = False) -> JudgedModel:
    """Shipped weights (None), ``"random:SEED"`` or a folder; ``fall_back``: untrained when none are shipped."""
    from planformer.models.planformer import PlanFormer

    try:
        model = PlanFormer.load(source)
    except WeightsError:
        if source is not None or not fall_back:
            raise
        model = PlanFormer.random(0)
        model.provenance["weights"] = "random:0"
    kind = str(model.provenance.get("weights", "trained"))
    if kind.startswith("random:"):
        seed = kind.partition(":")[2]
        text = f"RANDOM: an untrained encoder (seed {seed}), no training took place"
        return JudgedModel(model, f"random:{seed}", text, trained=False)
    from planformer.models.pretrained import resolve

    where = "shipped with the package" if source is None else str(source)
    text = f"trained, {where}, fingerprint {model.fingerprint[:12]}"
    return JudgedModel(model, "planformer", text, trained=True, folder=Path(resolve(source)))


def other_weights(source: str | Path) -> EncoderFeatures:
    """Weights that the judged ones are compared with, e.g. those they are to replace."""
    other = load_model(source)
    return EncoderFeatures(other.model, AGAINST, title=f"other weights, fingerprint {other.model.fingerprint[:12]}")


def random_encoders(judged: JudgedModel, seeds: int = 3, *, start: Start | None = None) -> list[EncoderFeatures]:
    """Untrained encoders of the same configuration, or of another start; the judged one is not repeated.

    Those of another start have a name of their own, ``random-START:SEED``: they are shown beside the model, and the
    difference to random weights stays the difference to its own untrained configuration.
    """
    from planformer.models.planformer import PlanFormer

    config, kind, title = judged.model.config, "random", "untrained encoder"
    if start is not None:
        config, kind, title = config.model_copy(update={"start": start}), f"random-{start}", f"{title}, {start} start"
    found = []
    for seed in range(seeds):
        name = f"{kind}:{seed}"
        if name != judged.name:
            found.append(EncoderFeatures(PlanFormer.random(seed, config), name, title=f"{title}, seed {seed}"))
    return found
