"""The compact decoder's time beside the encoder's for the same segments, and the memory of a long recording."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import torch

from planformer.config import PlanFormerConfig
from planformer.models.decoder import Decoder
from planformer.models.decoder_config import DecoderConfig
from planformer.models.encoder import Encoder

SEGMENTS = 8
# Peak memory is per process, so each length runs in its own: a WAV file in, a WAV file out.
MEMORY = """
import resource, sys, tempfile
import numpy as np, soundfile, torch
from planformer.config import PlanFormerConfig
from planformer.models.restoration import Restorer
from planformer.models.restoration_files import restore_file
torch.set_num_threads(1)
rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as folder:
    with soundfile.SoundFile(folder + "/in.wav", "w", 16000, 1) as file:
        for _ in range(int(sys.argv[1])):
            file.write(rng.normal(size=16000).astype(np.float32) / 10)
    restorer = Restorer.random(0, PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4))
    restore_file(restorer, "denoise", folder + "/in.wav", folder + "/out.wav", batch_size=8)
    print(soundfile.info(folder + "/out.wav").frames, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def best_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The fastest of several runs, in seconds of this process's own time: other processes don't count."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def peak_megabytes(seconds: int) -> tuple[int, float]:
    """Samples restored and peak memory of a process that denoises a sound of so many seconds at 16 kHz."""
    result = subprocess.run(
        [sys.executable, "-c", MEMORY, str(seconds)], capture_output=True, text=True, check=True
    ).stdout.split()
    return int(result[0]), float(result[1])


def run() -> list[dict[str, object]]:
    """Rows: encoder and decoder per segment on one thread, forward and with gradient; memory short and long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = _times()
    finally:
        torch.set_num_threads(threads)
    short, long = peak_megabytes(6), peak_megabytes(60)
    rows.append(
        {"name": "denoise a WAV, peak memory", "value": round(short[1]), "unit": "MB", "note": f"{short[0]:,} samples"}
    )
    rows.append(
        {
            "name": "denoise a WAV, peak memory, 10x longer",
            "value": round(long[1]),
            "unit": "MB",
            "ratio": round(long[1] / short[1], 2),
            "note": f"{long[0]:,} samples, narrow networks",
        }
    )
    return rows


def _times() -> list[dict[str, object]]:
    torch.manual_seed(0)
    config = PlanFormerConfig()
    encoder, decoder = Encoder(config), Decoder(DecoderConfig.from_encoder(config))
    x = torch.randn(SEGMENTS, 2 * config.segment)

    def encode(aux: bool) -> tuple[object, ...]:
        out = encoder(x, return_skips=True, return_aux=aux)
        return out.time_tokens, out.frequency_tokens, out.time_latent, out.frequency_latent, out.skips

    rows: list[dict[str, object]] = []
    with torch.inference_mode():
        inputs = encode(False)
        forward = best_seconds(lambda: encode(False)), best_seconds(lambda: decoder(*inputs, return_aux=False))
    with torch.no_grad():
        fixed = encode(False)  # the decoder's own gradient only
    trained = (
        best_seconds(lambda: encode(True)[2].square().mean().backward(), 3),  # type: ignore[attr-defined]
        best_seconds(lambda: decoder(*fixed)[0].square().mean().backward(), 3),
    )
    for name, (first, second) in {"forward": forward, "forward and backward": trained}.items():
        per_segment = [1000 * value / SEGMENTS for value in (first, second)]
        rows.append({"name": f"encoder, {name}", "value": round(per_segment[0], 1), "unit": "ms/segment"})
        rows.append(
            {
                "name": f"compact decoder, {name}",
                "value": round(per_segment[1], 1),
                "unit": "ms/segment",
                "ratio": round(second / first, 2),
                "note": "ratio to the encoder",
            }
        )
    return rows
