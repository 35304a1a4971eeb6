"""What each of two processes does in test_two_ranks; a module of its own, so that a spawned process can import it."""

from pathlib import Path

import torch
import torch.distributed as dist

from planformer.training.distributed import Processes, any_rank, gather_rows, mean_over_ranks
from planformer.training.muon import Muon
from planformer.training.trainer import Trainer
from training.conftest import tiny_recipe, tone_set

# Adam divides by the root of the mean square: where the true gradient is zero it would blow rounding up to a full step.
COMMON = ["data.batch_size=4", "data.emitters_per_batch=2", "networks.dropout_prob=0", "optimizer.eps=1e-2"]
COMMON += ["optimizer.learning_rate=1e-4", "optimizer.clip_norm=100"]
CHANGES = [*COMMON]
CHANGES += ["extra.descriptors_weight=1", "extra.descriptors_components=8", "extra.descriptors_calibration=32"]
CHANGES += ["extra.probe_weight=1", "extra.probe_emitters=0.3", "extra.emitters_weight=1"]
CHANGES += ["diversify.kind=2", "extra.kinds_weight=1", "extra.kinds_head=8"]
LIKENESS = [*COMMON, "networks.symmetry=false", "scenes.size=2", "extra.likeness_weight=1", "extra.likeness_names=1"]
LIKENESS += ["extra.descriptors_branch=clean", "extra.descriptors_calibration=80", "extra.likeness_start=2"]
LIKENESS += ["extra.likeness_scenes={recorded: {start_tokens: 2}, letters: {amplitudes: 9}}"]
CLASSES = [*COMMON, "networks.symmetry=false", "scenes.size=4", "scenes.classes=true", "extra.classes_weight=1"]
DECODER = [*COMMON, "networks.symmetry=false", "networks.decoder=compact", "networks.blindspot=false"]
DECODER += ["optimizer.freeze=[encoder.*]", "objective.perceptual_weight=0", "objective.refined_weight=20"]
DECODER += ["augment.keep_one_sided=true"]
NAMED = [*LIKENESS, "scenes.named=1", "extra.emitters_weight=1", "extra.emitters_start=solved"]
NAMED += ["extra.likeness_embedding=1"]
VARIANTS = {"named": NAMED, "all": CHANGES, "likeness": LIKENESS, "classes": CLASSES, "decoder": DECODER}
STEPS = 5


def weights(
    out: Path, *changes: str, variant: str = "all", processes: Processes | None = None
) -> dict[str, torch.Tensor]:
    recipe = tiny_recipe(*VARIANTS[variant], *changes)
    trainer = Trainer(recipe, tone_set(), tone_set(6, seed=1), out, processes=processes, show=False)
    trainer.run(max_steps=STEPS)
    return trainer.trainee.state_dict()


def muon_step(*, shared: bool) -> list[torch.Tensor]:
    """Two updates of matrices, a stack and a vector by the same gradients on every rank."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(12, 30), (30, 12), (2, 8, 16), (20, 3, 5), (1, 1)]
    weights = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    vector = torch.nn.Parameter(torch.randn(7, generator=generator))
    optimizer = Muon([{"params": weights, "matrices": True}, {"params": [vector]}], lr=0.1, shared=shared)
    for _ in range(2):
        for parameter in (*weights, vector):
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return [parameter.detach() for parameter in (*weights, vector)]


def run_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    try:
        assert any_rank(rank == 1, False) == [True, False]
        assert mean_over_ranks({"a": float(rank)}) == {"a": 0.5}
        rows = torch.arange(5.0)[rank::2, None]
        assert gather_rows(rows, 5)[:, 0].tolist() == [0, 1, 2, 3, 4]
        assert all(map(torch.equal, muon_step(shared=True), muon_step(shared=False)))
        for variant in VARIANTS:
            state = weights(Path(folder) / f"two-{variant}", variant=variant, processes=Processes(rank, 2))
            torch.save(state, Path(folder) / f"{variant}{rank}.pt")
    finally:
        dist.destroy_process_group()
