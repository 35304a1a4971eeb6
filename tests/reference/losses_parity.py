"""A small training step over both objectives, run on one rank with all rows or on several with a share each."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from planformer.losses.config import ObjectiveConfig
from planformer.losses.regularizers import AUX_GROUPS
from planformer.losses.total import (
    DomainPair,
    LossOutput,
    NoiseInputs,
    ReconstructionInputs,
    SeparationInputs,
    SeparationObjective,
    SingleSourceInputs,
    SingleSourceObjective,
    SinkPair,
    merge_aux,
)
from planformer.models.auxiliary import SeparationNetworks, SymmetryNetworks

DIM, TIME, FREQUENCY, SAMPLES = 8, 6, 4, 16
Rows = dict[str, Tensor]


def make_rows(count: int) -> Rows:
    """A batch of ``count`` samples; each row is drawn alone, so a share of the batch has the same rows."""
    g = torch.Generator().manual_seed(0)
    shapes = {"clean": (2, SAMPLES), "noisy": (2, SAMPLES), "target": (2, SAMPLES), "code": (2, 5), "power": (2,)}
    rows = {name: torch.rand(count, *shape, generator=g, dtype=torch.float64) for name, shape in shapes.items()}
    rows["labels"] = torch.randint(0, 3, (count, 2), generator=g)
    return rows


class Step(nn.Module):
    """A toy encoder and decoder around the real auxiliary networks and objectives."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.tokens = nn.Linear(SAMPLES, (TIME + FREQUENCY) * DIM)
        self.symmetry = SymmetryNetworks(DIM, 12, num_heads=2, dropout_prob=0.0)
        self.separation = SeparationNetworks(DIM, num_heads=2, dropout_prob=0.0)
        self.waveform = nn.Linear(2 * DIM, SAMPLES)
        self.sinks = nn.Linear(2 * DIM, 2 * 24)
        self.eye = nn.Linear(SAMPLES, 2 * DIM)
        self.double()

    def encode(self, x: Tensor) -> DomainPair:
        tokens = torch.tanh(self.tokens(x)).unflatten(-1, (-1, DIM))
        return DomainPair(tokens[:, :TIME], tokens[:, TIME:])

    @staticmethod
    def pool(time: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
        return time.square().mean(1), frequency.square().mean(1)

    def decode(self, latent: DomainPair, target: Tensor) -> tuple[ReconstructionInputs, list[SinkPair]]:
        z = latent.joined()
        waveform = self.waveform(z)
        sink, kept = self.sinks(z).unflatten(-1, (2, 1, 2, 12)).unbind(1)  # (B, W, C, L) each
        seen = [DomainPair(*self.eye(x).chunk(2, -1)) for x in (waveform, target)]
        return ReconstructionInputs(waveform, target, *seen), [SinkPair(sink, kept, z)]

    def single(self, rows: Rows) -> LossOutput:
        clean, noisy = self.encode(rows["clean"][:, 0]), self.encode(rows["noisy"][:, 0])
        quiet, moved = (DomainPair(*self.pool(t.time, t.frequency)) for t in (clean, noisy))
        inputs, aux = self.symmetry(clean, quiet, moved, rows["code"][:, 0], rows["labels"][:, 0], pool=self.pool)
        reconstruction, sinks = self.decode(moved, rows["target"][:, 0])
        noise = NoiseInputs(noisy.time.square().mean((1, 2)), rows["power"][:, 0])
        aux = merge_aux(latent=aux, encoder=scalars(noisy))
        objective = SingleSourceObjective(ObjectiveConfig(), decoder=True)
        return objective(SingleSourceInputs(inputs, noise, aux, reconstruction, sinks), diagnose=True)

    def separate(self, rows: Rows) -> LossOutput:
        mixture = self.encode(rows["noisy"][:, 0] + rows["noisy"][:, 1])
        separated, aux = self.separation(mixture)
        sources, reconstructions, sinks, targets = [], [], [], []
        for s, tokens in enumerate(separated):
            clean = self.encode(rows["clean"][:, s])
            quiet, moved = (DomainPair(*self.pool(t.time, t.frequency)) for t in (clean, tokens))
            code, labels = rows["code"][:, s], rows["labels"][:, s]
            sources.append(self.symmetry(clean, quiet, moved, code, labels, pool=self.pool)[0])
            reconstruction, sink = self.decode(moved, rows["target"][:, s])
            reconstructions.append(reconstruction)
            sinks.append(sink)
            targets.append(self.encode(rows["target"][:, s]))
        noise = NoiseInputs(mixture.time.square().mean((1, 2)), rows["power"][:, 0])
        aux = merge_aux(separation=aux, encoder=scalars(mixture))
        inputs = SeparationInputs(
            tuple(sources), separated, tuple(targets), noise, aux, tuple(reconstructions), tuple(sinks)
        )
        return SeparationObjective(ObjectiveConfig(), decoder=True)(inputs, diagnose=True)

    def forward(self, rows: Rows) -> tuple[Tensor, dict[str, float]]:
        """Sum of both totals, and every figure they report."""
        outputs = {"single": self.single(rows), "separation": self.separate(rows)}
        report = {}
        for name, output in outputs.items():
            report |= {f"{name}/{term}": float(value) for term, value in output.terms.items()}
            report |= {f"{name}/{figure}": value for figure, value in output.diagnostics.items()}
        return outputs["single"].total + outputs["separation"].total, report


def scalars(tokens: DomainPair) -> Rows:
    """Auxiliary scalars, each a mean over this rank's samples."""
    return {f"{group}/x": (tokens.time**2 * (i + 1)).mean() for i, group in enumerate(AUX_GROUPS)}


def run_ranks(rank: int, cases: list[tuple[list[int], bool]], folder: str) -> None:
    """This rank's share of each case (rows per rank, wrapped in DDP or not); writes losses, reports and gradients."""
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = dist.FileStore(str(Path(folder) / "store"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    results = [run_case(rank, sizes, ddp) for sizes, ddp in cases]
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def run_case(rank: int, sizes: list[int], ddp: bool) -> dict[str, object]:
    step = Step()
    start = sum(sizes[:rank])
    rows = {name: x[start : start + sizes[rank]] for name, x in make_rows(sum(sizes)).items()}
    model = nn.parallel.DistributedDataParallel(step) if ddp else step
    total, report = model(rows)
    total.backward()
    if not ddp:
        for parameter in step.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= len(sizes)
    gradients = {name: p.grad for name, p in step.named_parameters()}
    return {"total": total.detach(), "report": report, "grad": gradients, "buffers": dict(step.named_buffers())}
