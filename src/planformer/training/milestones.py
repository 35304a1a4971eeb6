"""What happens at a milestone: online probe, frozen probes on real signals, pictures, choice of the best weights.

Selection follows the paper (Appendix D, "Model Selection"): the weights with the highest accuracy of the online probe
on held-out radio sequences. The compass (small frozen probes on other signals) is recorded, never selected by.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError

from planformer.errors import InputError
from planformer.iq import interleave
from planformer.models.encoder import Encoder
from planformer.training.distributed import Processes, gather_rows
from planformer.training.online_probe import OnlineProbe, ProbeScore
from planformer.training.recipe import Recipe
from planformer.training.run_folder import RunFolder
from planformer.training.stream import SequenceSet
from planformer.training.trainee import Trainee

ARCHITECTURE = "planformer-encoder"


@dataclass
class MilestoneResult:
    """Records for the metrics, one line for the eye, and the score that the watch looks at."""

    records: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    summary: str = ""
    score: ProbeScore | None = None
    warnings: list[str] = field(default_factory=list)


class Milestones:
    """Runs on every process (embedding is shared among them); the main one writes."""

    def __init__(
        self,
        trainee: Trainee,
        recipe: Recipe,
        held_out: SequenceSet | None,
        folder: RunFolder,
        processes: Processes,
    ) -> None:
        self.trainee, self.recipe, self.folder, self.processes = trainee, recipe, folder, processes
        self.probe: OnlineProbe | None = None
        if held_out is not None and len(held_out) and recipe.probe.every_milestones:
            self.probe = OnlineProbe(held_out, per_emitter=recipe.probe.per_emitter, seed=recipe.seed)
        self.best: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        return {"best": dict(self.best)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = dict(state["best"])

    def run(self, step: int) -> MilestoneResult:
        """Everything that is due after ``step`` steps. Randomness of the training is left as it was."""
        number = step // self.recipe.schedule.steps_per_milestone
        section, result = self.recipe.probe, MilestoneResult()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            if self.probe is not None and number % section.every_milestones == 0:
                self._online(step, number, result)
            if section.compass_every_milestones and number % section.compass_every_milestones == 0:
                self._compass(result)
            if self.processes.is_main:
                self._pictures(step, number)
                if self.recipe.checkpoint.keep_milestone_weights and step:
                    for ema, name in self._variants():
                        folder = self.folder.path / "milestones" / f"step-{step:08d}-{name}"
                        self._save_or_note(folder, step, ema, result)
        return result

    # Probes ------------------------------------------------------------

    def _variants(self) -> list[tuple[bool, str]]:
        chosen = self.recipe.probe.weights
        return [(ema, name) for ema, name in ((False, "raw"), (True, "ema")) if chosen in (name, "both")]

    def _online(self, step: int, number: int, result: MilestoneResult) -> None:
        assert self.probe is not None
        parts = []
        for ema, name in self._variants():
            embeddings = self.probe.embed(self.trainee.chosen_encoder(ema=ema), self.processes)
            score = self.probe.score(embeddings)
            result.records.append(("probe", {"weights": name, **asdict(score)}))
            parts.append(f"{name} {score.accuracy:.1f} %")
            if not ema or result.score is None:
                result.score = score
            if score.accuracy > self.best.get("accuracy", -1.0):
                self.best = {"accuracy": score.accuracy, "step": step, "weights": name}
                if self.processes.is_main:
                    self._save_or_note(self.folder.best, step, ema, result)
            every = self.recipe.probe.tsne_every_milestones
            if self.processes.is_main and every and number % every == 0 and not ema:
                self._tsne(embeddings, step)
        result.summary = "radio " + ", ".join(parts)

    def _compass(self, result: MilestoneResult) -> None:
        from planformer.evaluation.compass import compass

        data = self.recipe.probe.compass_data
        if data is None:
            return
        for ema, name in self._variants():
            embed = embed_function(self.trainee.chosen_encoder(ema=ema), self.processes)
            values = compass(embed, data, self.recipe.probe.compass_size)
            percent = {task: 100 * value for task, value in values.items()}
            result.records.append(("compass", {"weights": name, **percent}))
            result.summary += f"{'; ' if result.summary else ''}compass {name} {percent.get('mean', 0.0):.1f} %"

    # Files ------------------------------------------------------------

    def _save_or_note(self, folder: Path, step: int, ema: bool, result: MilestoneResult) -> None:
        """Weights that can't be written now are a warning: the run itself can go on."""
        try:
            self.save_weights(folder, step, ema=ema)
        except InputError as error:
            result.warnings.append(str(error))

    def save_weights(self, folder: Path, step: int, *, ema: bool) -> None:
        """The networks as a weights folder; an older one is replaced only when the new one is complete."""
        fresh, old = folder.with_name(f".{folder.name}-new"), folder.with_name(f".{folder.name}-old")
        try:
            for path in (fresh, old):
                shutil.rmtree(path, ignore_errors=True)
            self._write_components(fresh, step, ema)
            if folder.exists():
                folder.rename(old)
            fresh.rename(folder)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{folder}: can't write weights ({error})") from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)

    def _write_components(self, folder: Path, step: int, ema: bool) -> None:
        from planformer.models.restoration import save_decoder, save_separation
        from planformer.models.weights import write_component

        encoder, decoder, separation = self.trainee.components(ema=ema)
        write_component(
            folder,
            "model",
            encoder.state_dict(),
            self.recipe.model.model_dump(mode="json"),
            architecture=ARCHITECTURE,
            provenance={
                "weights": "ema" if ema else "raw",
                "step": step,
                "sequences_seen": step * self.recipe.data.batch_size * self.recipe.data.shards * self.processes.world,
                "recipe": self.recipe.model_dump(mode="json"),
            },
        )
        if decoder is not None:
            save_decoder(folder, decoder)
        if separation is not None:
            save_separation(folder, separation)

    def _tsne(self, embeddings: torch.Tensor, step: int) -> None:
        from planformer.training.pictures import draw_tsne

        assert self.probe is not None
        draw_tsne(embeddings.numpy(), self.probe.labels, self.folder.plots / f"tsne-{step:08d}.png")

    def _pictures(self, step: int, number: int) -> None:
        every = self.recipe.probe.pictures_every_milestones
        if not every or number % every or self.probe is None or self.trainee.decoder is None:
            return
        from planformer.training.pictures import draw_reconstructions

        target = self.probe.inputs[:3]
        waveform = self.trainee.reconstruct(target.to(self.processes.device)).cpu()
        draw_reconstructions(target, waveform, self.folder.plots / f"reconstruction-{step:08d}.png")


def embed_function(
    encoder: Encoder, processes: Processes, batch_size: int = 32
) -> Callable[[npt.NDArray[np.complex64]], npt.NDArray[np.floating]]:
    """Prepared segments ``[n, 1, 5120]`` -> embeddings ``[n, 256]``, the work divided among the processes."""

    @torch.no_grad()
    def embed(segments: npt.NDArray[np.complex64]) -> npt.NDArray[np.floating]:
        if segments.shape[1] != 1:
            raise InputError("the compass works on single segments")
        inputs = interleave(torch.from_numpy(np.ascontiguousarray(segments[:, 0])))
        mine = inputs[processes.rank :: processes.world]
        training = encoder.training
        encoder.eval()
        try:
            parts = [encoder(x.to(processes.device), return_aux=False).embedding for x in mine.split(batch_size)]
        finally:
            encoder.train(training)
        rows = torch.cat(parts) if parts else torch.zeros(0, 2 * encoder.config.dim)
        return np.asarray(gather_rows(rows, len(inputs)).cpu().numpy())

    return embed
