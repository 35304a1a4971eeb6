"""Is the decoder worth having? White noise on segments that never trained it, and how much of it each method removes.

    python -m benchmarks.denoising --radio RADIO [--data DIR] [--weights FOLDER] [--count 64]

Signal-to-noise ratio (dB) of the output, mean over segments, beside the noisy input, a Wiener filter of short-time
spectra (noise level estimated from the input, or told), and the same networks untrained. ``--data`` adds real sounds,
seismograms, pictures and text; radio is the part of each recording that is held out from training.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from planformer.data.augment import unit_power
from planformer.data.recordings import RecordingSet
from planformer.evaluation.compass import compass_sets
from planformer.iq import deinterleave, interleave
from planformer.models.planformer import PlanFormer
from planformer.models.pretrained import resolve
from planformer.models.restoration import Restorer

SNRS = (0, 5, 10, 20)
FRAME, HOP = 128, 32


def clean_segments(radio: Path, data: Path | None, count: int, seed: int) -> dict[str, tuple[Tensor, bool]]:
    """Name -> complex segments ``[count, 5120]`` of unit power, and whether they come from real samples."""
    generator = np.random.default_rng(seed)
    held_out = RecordingSet.from_folder(radio, "validation")
    chosen = np.sort(generator.choice(len(held_out), min(count, len(held_out)), replace=False))
    found = {"radio": (torch.from_numpy(held_out.sequences(chosen)), False)}
    for name, probe_set in compass_sets(data, "small").items() if data is not None else ():
        if name not in ("rf-modulation", "powder"):
            segments = probe_set.segments.reshape(len(probe_set.segments), -1, probe_set.segments.shape[-1])[:, 0]
            rows = np.sort(generator.choice(len(segments), min(count, len(segments)), replace=False))
            found[name] = (torch.from_numpy(np.ascontiguousarray(segments[rows])), True)
    audible = {name: (x[x.abs().amax(-1) > 0].to(torch.complex64), real) for name, (x, real) in found.items()}
    return {name: (unit_power(x), real) for name, (x, real) in audible.items()}


def white_noise(shape: torch.Size, real: bool, generator: torch.Generator) -> Tensor:
    """Unit power; real noise is made analytic, as every real signal is."""
    noise = torch.randn(shape, generator=generator, dtype=torch.complex64)
    if real:
        spectrum = torch.fft.fft(noise.real.to(torch.complex64))
        spectrum[:, shape[-1] // 2 :] = 0
        noise = torch.fft.ifft(spectrum)
    return unit_power(noise)


def wiener(noisy: Tensor, real: bool, level: Tensor | None = None) -> Tensor:
    """Short-time spectra shrunk by ``1 - noise / power``; without ``level`` the median bin is taken for noise."""
    window = torch.hann_window(FRAME)
    options = {"n_fft": FRAME, "hop_length": HOP, "window": window, "onesided": False}
    frames = torch.stft(noisy, return_complex=True, **options)  # type: ignore[arg-type]
    power = frames.abs().square()
    noise_bins = power[:, 1 : FRAME // 2] if real else power
    scale = window.square().sum()
    if level is None:
        floor = noise_bins.flatten(1).median(1).values / np.log(2)  # the power of noise is exponentially distributed
    else:
        floor = level * scale * (2 if real else 1)  # analytic noise has all its power in half of the bins
    gain = (1 - floor[:, None, None] / power.clamp_min(1e-12)).clamp_min(0)
    return torch.istft(frames * gain, length=noisy.shape[-1], return_complex=True, **options)  # type: ignore[arg-type]


def networks(restorer: Restorer, noisy: Tensor) -> Tensor:
    """Segments through encoder and decoder, at unit power and back."""
    power = noisy.abs().square().mean(-1, keepdim=True).sqrt()
    with torch.inference_mode():
        parts = [restorer.decode(interleave(x), "denoise")[0] for x in (noisy / power).split(16)]
    return deinterleave(torch.cat(parts)) * power


def snr_db(clean: Tensor, estimate: Tensor) -> float:
    """Mean over the segments."""
    error = (estimate - clean).abs().square().mean(-1).clamp_min(1e-12)
    return float((10 * torch.log10(clean.abs().square().mean(-1) / error)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radio", type=Path, required=True, help="folder of recordings (planformer simulate)")
    parser.add_argument("--data", type=Path, help="folder of the public data sets")
    parser.add_argument("--weights", help="weights folder (default: the shipped ones)")
    parser.add_argument("--count", type=int, default=64, help="segments of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    encoder = PlanFormer.from_pretrained(options.weights).encoder
    restorer = Restorer.load(encoder, resolve(options.weights))
    untrained = Restorer.random(0)
    table = Table("signals", "noisy", "wiener", "wiener, level told", "untrained", "decoder")
    for name, (clean, real) in clean_segments(options.radio, options.data, options.count, options.seed).items():
        for snr in SNRS:
            generator = torch.Generator().manual_seed(options.seed + snr)
            level = torch.full((len(clean),), 10 ** (-snr / 10))
            noisy = clean + level.sqrt()[:, None] * white_noise(clean.shape, real, generator)
            outputs = (
                noisy,
                wiener(noisy, real),
                wiener(noisy, real, level),
                networks(untrained, noisy),
                networks(restorer, noisy),
            )
            table.add_row(f"{name}, {snr} dB", *(f"{snr_db(clean, output):.1f}" for output in outputs))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
