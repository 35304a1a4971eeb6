"""The compact decoder's time beside the encoder's for the same segments, and the memory of a long recording."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import torch

from planformer.config import PlanFormerConfig
from planformer.models.decoder import Decoder
from planformer.models.decoder_config import DecoderConfig
from planformer.models.encoder import Encoder
from planformer.models.planformer import PlanFormer
from planformer.models.restoration import Restorer

SEGMENTS = 8
SOUND_RATE = 16_000
# The command line, then the peak of this process in kB. Not ru_maxrss: it starts at what the parent held (Linux).
MEASURED = """
import sys
from planformer.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), flush=True)
"""
NARROW = PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4)


def interleaved_seconds(*works: Callable[[], object], repeats: int = 5) -> list[float]:
    """The fastest run of each, taken in turn (A, B, A, B ...), in seconds of this process's own time."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, taken in zip(works, times, strict=True):
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
    return [min(taken) for taken in times]


def write_sound(path: Path, seconds: int) -> Path:
    """Noise, a second at a time."""
    rng = np.random.default_rng(0)
    with soundfile.SoundFile(str(path), "w", SOUND_RATE, 1) as file:
        for _ in range(seconds):
            file.write(rng.normal(size=SOUND_RATE).astype(np.float32) / 10)
    return path


def write_weights(folder: Path, config: PlanFormerConfig | None = None) -> Path:
    """Encoder and compact decoder as they come from the generator, stored as trained ones are."""
    restorer = Restorer.random(0, config)
    PlanFormer(restorer.encoder).save_pretrained(folder)
    restorer.save(folder)
    return folder


def restored_megabytes(verb: str, seconds: int, weights: Path, folder: Path) -> tuple[int, float]:
    """Samples written and peak memory of ``planformer VERB`` in a process of its own, WAV to WAV."""
    source, target = write_sound(folder / "in.wav", seconds), folder / "out.wav"
    arguments = [verb, str(source), "-o", str(target), "--weights", str(weights)]
    result = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    peak = int(result.stdout.splitlines()[-1]) / 1024
    return soundfile.info(str(target)).frames, peak


def run() -> list[dict[str, object]]:
    """Rows: encoder and decoder per segment on one thread, forward and with gradient; memory short and long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = _times()
    finally:
        torch.set_num_threads(threads)
    return rows + memory("denoise", 10, 100, NARROW, note="narrow networks")


def memory(
    verb: str, short: int, long: int, config: PlanFormerConfig | None = None, *, note: str = ""
) -> list[dict[str, object]]:
    """Peak memory for recordings of two durations. Ten minutes through the full-size networks:

    ``python -c "from benchmarks.bench_decoder import memory; print(memory('denoise', 60, 600))"``
    """
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = write_weights(folder / "weights", config)
        first = 0.0
        for seconds in (short, long):
            samples, peak = restored_megabytes(verb, seconds, weights, folder)
            first = first or peak
            text = f"{samples:,} samples" + (f", {note}" if note else "")
            row = {"name": f"{verb} {seconds} s of WAV, peak memory", "value": round(peak), "unit": "MB", "note": text}
            rows.append({**row, "ratio": round(peak / first, 2)})
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
        forward = interleaved_seconds(lambda: encode(False), lambda: decoder(*inputs, return_aux=False))
    with torch.no_grad():
        fixed = encode(False)  # the decoder's own gradient only
    trained = interleaved_seconds(
        lambda: encode(True)[2].square().mean().backward(),  # type: ignore[attr-defined]
        lambda: decoder(*fixed)[0].square().mean().backward(),
        repeats=3,
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
