"""The training loop (paper, Appendix D): one process or many, resumable after any interruption.

A step is a function of (weights, optimiser state, step number): batches, noise and dropout are seeded by the step, so a
run that was killed and resumed produces the same numbers, bit for bit, as one that was not.
"""

from __future__ import annotations

import itertools
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from planformer.errors import ConfigError, InputError
from planformer.models.weights import load_strict
from planformer.training.checkpoint import load_latest, remove_leftovers, save_checkpoint
from planformer.training.curriculum import learning_rate_factor, snr_range
from planformer.training.display import Display
from planformer.training.distributed import Processes, any_rank, barrier
from planformer.training.metrics import MetricsLog
from planformer.training.milestones import Milestones
from planformer.training.optimizer import build_optimizer, freeze_parameters, set_learning_rate
from planformer.training.recipe import Recipe
from planformer.training.run_folder import RunFolder, describe_run, open_run
from planformer.training.stream import BatchStream, SequenceSet, TrainingBatch, mix_seed
from planformer.training.timing import StepClock
from planformer.training.trainee import Trainee
from planformer.training.watch import Watch


class Trainer:
    """Owns everything that changes during a run."""

    def __init__(
        self,
        recipe: Recipe,
        data: SequenceSet,
        held_out: SequenceSet | None,
        out: Path,
        *,
        processes: Processes | None = None,
        show: bool = True,
    ) -> None:
        self.recipe, self.processes = recipe, processes or Processes()
        extra, count = recipe.extra, len(data.emitters)
        if max(extra.emitters_weight, extra.likeness_weight) > 0 and count > extra.emitters_count:
            raise ConfigError(f"extra.emitters_count={extra.emitters_count}: the recordings have {count} emitters")
        torch.manual_seed(mix_seed(recipe.seed, 1))
        self.trainee = Trainee(recipe).to(self.processes.device)
        freeze_parameters(self.trainee, recipe.optimizer.freeze)
        self.stream = BatchStream(data, recipe, rank=self.processes.rank, world=self.processes.world)
        self.optimizer = build_optimizer(self.trainee, recipe.optimizer, shared=self.processes.world > 1)
        self.model = self._wrap()
        self.folder = self._open(out, data, held_out)
        main = self.processes.is_main
        board = self.folder.path / "tensorboard" if recipe.monitor.tensorboard and main else None
        self.metrics = MetricsLog(self.folder.metrics_file, tensorboard=board)
        self.display = Display(recipe.schedule.total_steps, world=self.processes.world, enabled=show and main)
        self.watch = Watch(recipe.monitor)
        self.milestones = Milestones(self.trainee, recipe, held_out, self.folder, self.processes)
        self.clock = StepClock()
        self.step = 0  # finished steps
        self.stop_requested = False

    # Setting up ------------------------------------------------------------

    def _wrap(self) -> nn.Module:
        if self.processes.world == 1:
            return self.trainee
        with warnings.catch_warnings():  # torch 2.12 renamed the option; older ones know only this name
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = DistributedDataParallel(
                self.trainee,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,  # spares a copy of every gradient, in memory and in time
                find_unused_parameters=self.trainee.may_leave_parameters_unused,
            )
        warnings.filterwarnings("ignore", message="Grad strides do not match")  # kernels of one channel; harmless
        return wrapped

    def _open(self, out: Path, data: SequenceSet, held_out: SequenceSet | None) -> RunFolder:
        """The main process makes the folder; the others wait until it is there."""
        # Weights, two moments and the moving average, for every kept checkpoint and the one being written.
        size = 4 * sum(t.numel() for t in self.trainee.state_dict().values())
        needed = 4 * size * (self.recipe.checkpoint.keep + 1)
        if self.processes.is_main:
            folder = open_run(out, self.recipe, needed_bytes=needed)
            summary = {
                "folder": self.recipe.data.folder and Path(self.recipe.data.folder).name,
                "sequences": len(data),
                "emitters": len(data.emitters),
                "held_out": len(held_out) if held_out is not None else 0,
            }
            if not folder.info_file.is_file():
                folder.write_info(describe_run(self.recipe, summary, self.processes.world))
        barrier()
        return RunFolder(out)

    # Saving and resuming ------------------------------------------------------------

    def save(self) -> None:
        """A checkpoint of this moment; only the main process writes."""
        if self.processes.is_main:
            state = {
                "optimizer": self.optimizer.state_dict(),
                "ema_updates": self.trainee.ema_updates,
                "milestones": self.milestones.state_dict(),
                "skipped": self.watch.skipped,
            }
            save_checkpoint(
                self.folder.checkpoints,
                self.step,
                self.trainee.state_dict(),
                state,
                architecture=self.recipe.architecture,
                keep=self.recipe.checkpoint.keep,
            )

    def resume(self) -> int:
        """Continue from the newest intact checkpoint, if there is one; returns the number of finished steps."""
        found = load_latest(self.folder.checkpoints, architecture=self.recipe.architecture)
        if found is not None:
            load_strict(self.trainee, found.tensors, where=found.path)
            self.optimizer.load_state_dict(found.state["optimizer"])
            self.trainee.ema_updates = int(found.state["ema_updates"])
            self.milestones.load_state_dict(found.state["milestones"])
            self.watch.skipped = int(found.state["skipped"])
            self.step = found.step
            self.display.note(f"resumed after step {self.step}")
        if self.processes.is_main:
            remove_leftovers(self.folder.checkpoints)
            self.metrics.cut_after(self.step if found is not None else -1)
        barrier()
        return self.step

    # The loop ------------------------------------------------------------

    def run(self, *, max_steps: int | None = None) -> None:
        """Train to the end of the schedule, or ``max_steps`` further."""
        self.resume()
        total = self.recipe.schedule.total_steps
        stop = total if max_steps is None else min(total, self.step + max_steps)
        try:
            with self._termination():
                if self.step == 0:
                    self._calibrate()
                    self._milestone()
                self._steps(stop)
                # Still inside: a launcher may pass on a signal that every process has already had.
                self._final_save()
        finally:
            self.metrics.close()
            self.display.close()

    def _calibrate(self) -> None:
        """Statistics of the extra terms, on every process from the batches that all of them make together."""
        data = self.recipe.data
        shards = data.model_copy(update={"shards": data.shards * self.processes.world})
        stream = BatchStream(self.stream.data, self.recipe.model_copy(update={"data": shards}))
        batches = (stream.batch(step).to(self.processes.device) for step in itertools.count())
        self.trainee.extra.calibrate(batches, self.trainee.encoder)

    def _steps(self, stop: int) -> None:
        saved = time.monotonic()
        for batch, waited in self.stream.prefetch(self.step, stop):
            self.clock.start(waited)
            values = self._train(batch.to(self.processes.device))
            self.step += 1
            self._log(values, len(batch.labels))
            if self.step % self.recipe.schedule.steps_per_milestone == 0:
                self._milestone()
            (leave,) = any_rank(self.stop_requested)
            if leave:
                self.display.note(f"termination requested: saved after step {self.step}")
                return
            if self._save_is_due(saved):
                self._save_or_warn()
                self.clock.pause()
                saved = time.monotonic()

    def _train(self, batch: TrainingBatch) -> dict[str, float]:
        """Forward, backward, update. Returns what is logged, as numbers."""
        recipe, clock = self.recipe, self.clock
        torch.manual_seed(mix_seed(recipe.seed, 2, batch.step, self.processes.rank))
        rate = set_learning_rate(self.optimizer, learning_rate_factor(batch.step, recipe.schedule))
        update = (batch.step + 1) % recipe.optimizer.accumulate == 0
        synchronise = nullcontext() if update or self.processes.world == 1 else self.model.no_sync()  # type: ignore[operator]
        with synchronise:
            with self._precision():
                output = self.model(batch)
            clock.mark("forward")
            (output.total / recipe.optimizer.accumulate).backward()
            clock.mark("backward")
        terms = {name: float(value) for name, value in output.terms.items()}
        loss = float(output.total.detach())
        norm = self._update(batch.step, loss, terms) if update else 0.0
        clock.mark("update")
        lower, _ = snr_range(batch.step, recipe.schedule, recipe.curriculum)
        values = {"loss": loss, "learning_rate": rate, "gradient_norm": norm, "snr_lower": lower}
        diagnostics = {f"diagnostics/{name}": value for name, value in output.diagnostics.items()}
        return {**values, **terms, **diagnostics}

    def _update(self, step: int, loss: float, terms: dict[str, float]) -> float:
        gradients = [p.grad for p in self.trainee.parameters() if p.grad is not None]
        norm = _total_norm(gradients)
        limit = self.recipe.optimizer.clip_norm
        size = float(norm)
        if self.watch.finite(step, loss, size, terms):
            if limit is not None and size > limit:
                torch._foreach_mul_(gradients, limit / size)
            self.optimizer.step()
            self.trainee.update_ema()
        self.optimizer.zero_grad(set_to_none=True)
        return size

    def _precision(self) -> Any:
        if self.recipe.networks.precision == "float32":
            return nullcontext()
        return torch.autocast(torch.device(self.processes.device).type, dtype=torch.bfloat16)

    # What happens around a step ------------------------------------------------------------

    def _log(self, values: dict[str, float], batch_size: int) -> None:
        times = self.clock.finish()
        rate = batch_size * self.processes.world / max(times["seconds"], 1e-9)
        record = {**values, **times, "samples_per_second": rate}
        if self.processes.is_main:
            if self.step % self.recipe.monitor.log_every == 0:
                self.metrics.write("step", self.step, record)
            self.display.update(self.step, record)

    def _milestone(self) -> None:
        """Probes on all processes; records and selection on the main one."""
        results = self.milestones.run(self.step)
        if self.processes.is_main:
            for kind, values in results.records:
                self.metrics.write(kind, self.step, values)
        if results.summary:
            self.display.probe = results.summary
            self.display.note(f"step {self.step}: {results.summary}")
        for warning in results.warnings:
            self.display.note(f"warning: {warning}")
        self.clock.pause()
        if results.score is not None:
            self.watch.collapsed(self.step, results.score)

    def _save_is_due(self, saved: float) -> bool:
        section = self.recipe.checkpoint
        if self.step % self.recipe.optimizer.accumulate:
            return False
        by_steps = section.every_steps > 0 and self.step % section.every_steps == 0
        return by_steps or time.monotonic() - saved > 60 * section.every_minutes

    def _save_or_warn(self) -> None:
        """A checkpoint that can't be written now does not end the run: the next one may succeed."""
        try:
            self.save()
        except InputError as error:
            self.display.note(f"warning: {error}; trying again in {self.recipe.checkpoint.every_minutes:g} minutes")

    def _final_save(self) -> None:
        self.save()
        if self.processes.is_main:
            self.milestones.save_weights(self.folder.last, self.step, ema=True)
        barrier()

    @contextmanager
    def _termination(self) -> Iterator[None]:
        """SIGTERM ends the run after the current step, with a checkpoint."""

        def request(signum: int, frame: Any) -> None:
            self.stop_requested = True

        try:
            previous = signal.signal(signal.SIGTERM, request)
        except ValueError:  # not in the main thread, e.g. in a notebook's worker
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)


def _total_norm(gradients: list[Tensor]) -> Tensor:
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
