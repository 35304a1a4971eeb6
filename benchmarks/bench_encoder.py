"""The encoder beside its plain reference, a ViT-B/32 image tower and MFCC extraction, measured in one run.

Segments per second at one and two threads; multiply-accumulates per second as a share of the matrix product's peak.
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from planformer.memory import keep_freed_memory
from planformer.models.encoder import Encoder
from planformer.models.inventory import mac_counts

BATCH = 8
VIT_GMACS = 4.41  # ViT-B/32 at 224 x 224, 50 tokens
Row = dict[str, object]


def best(call: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of a few timed calls, after one warm-up."""
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def plain_encoder() -> Callable[[nn.Module, Tensor], Any]:
    """The straightforward version, kept beside the tests."""
    folder = str(Path(__file__).resolve().parent.parent / "tests")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("reference.encoder").encoder


class VisionTower(nn.Module):
    """ViT-B/32 with CLIP's geometry and random weights: patches of 32 x 32, 12 blocks of 768 with 12 heads."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 32, stride=32, bias=False)
        self.start = nn.Parameter(torch.zeros(1, 1, 768))
        self.positions = nn.Parameter(torch.zeros(1, 50, 768))
        layer = nn.TransformerEncoderLayer(
            768, 12, 3072, dropout=0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        self.head = nn.Linear(768, 512, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.start.expand(len(tokens), -1, -1), tokens), 1) + self.positions
        return self.head(self.blocks(tokens)[:, 0])


def peak() -> float:
    """GMAC/s of a large matrix product."""
    a = torch.randn(1024, 1024)
    return 1024**3 / best(lambda: a @ a) / 1e9


def training_step(forward: Callable[[], tuple[Tensor, dict[str, Tensor], Tensor]]) -> None:
    embedding, aux, power = forward()
    (embedding.square().mean() + torch.stack(list(aux.values())).sum() + power.mean()).backward()


def encoder_rows(encoder: Encoder, count: int, macs: int) -> tuple[list[Row], float]:
    """Ours beside the reference at ``count`` threads, and our seconds per segment."""
    x, plain = torch.randn(BATCH, 2 * encoder.config.segment), plain_encoder()

    def ours() -> tuple[Tensor, dict[str, Tensor], Tensor]:
        output = encoder(x)
        return output.embedding, output.aux, output.noise_power

    def theirs() -> tuple[Tensor, dict[str, Tensor], Tensor]:
        _, _, embedding, power, aux = plain(encoder, x)
        return embedding, aux, power

    with torch.inference_mode():
        fast, slow = best(lambda: encoder(x, return_aux=False)), best(lambda: plain(encoder, x), 2)
        difference = float((ours()[0] - theirs()[0]).abs().max())
    fast_step, slow_step = best(lambda: training_step(ours), 2), best(lambda: training_step(theirs), 1)
    share = 100 * BATCH * macs / fast / 1e9 / peak()
    note = f"reference {BATCH / slow:.3g}/s; largest difference {difference:.1e}; {share:.0f} % of the peak"
    rows: list[Row] = [
        {
            "name": f"inference, {count} thread(s)",
            "value": BATCH / fast,
            "unit": "segments/s",
            "ratio": slow / fast,
            "note": note,
        },
        {
            "name": f"forward + backward, {count} thread(s)",
            "value": BATCH / fast_step,
            "unit": "segments/s",
            "ratio": slow_step / fast_step,
            "note": f"reference {BATCH / slow_step:.3g}/s",
        },
    ]
    return rows, fast / BATCH


def vision_row(seconds: float) -> Row:
    """How many of our inputs fit into the time of one image."""
    tower, images = VisionTower().eval(), torch.randn(4, 3, 224, 224)
    with torch.inference_mode():
        image = best(lambda: tower(images), 2) / 4
    note = f"ratio: our inputs in the time of one; {VIT_GMACS} GMACs, random weights"
    return {
        "name": "ViT-B/32 image tower",
        "value": 1 / image,
        "unit": "images/s",
        "ratio": image / seconds,
        "note": note,
    }


def mfcc_row(seconds: float, segment: int) -> Row:
    """13 coefficients of the same number of samples of audio."""
    from python_speech_features import mfcc

    audio = np.random.default_rng(0).standard_normal(segment)
    spent = best(lambda: mfcc(audio, 16_000, numcep=13))
    return {"name": "MFCC, 13 coefficients", "value": 1 / spent, "unit": "segments/s", "ratio": spent / seconds}


# Run as `python -c MEMORY keep|plain THREADS BATCH`: prints seconds per segment.
MEMORY = """
import sys
from planformer.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
import torch
from benchmarks.bench_encoder import Encoder, best
torch.set_num_threads(int(sys.argv[2]))
encoder, x = Encoder().eval(), torch.randn(int(sys.argv[3]), 10240)
with torch.inference_mode():
    print(best(lambda: encoder(x, return_aux=False), 12) / len(x))
"""


def memory_row(count: int, batch: int) -> Row:
    """What every command gains by keeping freed memory, against the allocator as it comes; fresh processes."""
    seconds = []
    root = Path(__file__).resolve().parent.parent
    for mode in ("plain", "keep"):
        command = [sys.executable, "-c", MEMORY, mode, str(count), str(batch)]
        seconds.append(float(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout))
    plain, kept = seconds
    name = f"freed memory kept, {count} thread(s), batch {batch}"
    note = f"as it comes {1 / plain:.3g}/s"
    return {"name": name, "value": 1 / kept, "unit": "segments/s", "ratio": plain / kept, "note": note}


def run() -> list[Row]:
    keep_freed_memory()  # as every command does; the reference has it too
    torch.manual_seed(0)
    encoder = Encoder().eval()
    macs = mac_counts(encoder)["encoder_all"]
    rows: list[Row] = [{"name": "multiply-accumulates", "value": macs / 1e6, "unit": "M a segment"}]
    for count in (1, 2):
        with threads(count):
            found, seconds = encoder_rows(encoder, count, macs)
            rows += found
            if count == 1:
                rows += [vision_row(seconds), mfcc_row(seconds, encoder.config.segment)]
    # Children are not touched by the setting above: it belongs to the process.
    return rows + [memory_row(count, batch) for count in (1, 2) for batch in (2, 32)]
