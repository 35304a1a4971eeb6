"""Is the decoder worth having? Noise on segments that never trained it, and how much of it each method removes.

    python -m benchmarks.denoising --radio RADIO [--data DIR] [--weights FOLDER] [--count 64] [--colour 1]

Signal-to-noise ratio (dB) of the output, mean over segments, beside the noisy input, Wiener filters of short-time
spectra (plain, and decision-directed with the noise level estimated from the input, or told), and the same networks
untrained. "decoder" is the decoded waveform itself, "refined" what `planformer denoise` writes: the input through the
filter that the waveform describes. ``--data`` adds real sounds, seismograms and text, and pictures with white noise on
their pixels; radio is the part of each recording that is held out from training.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.ndimage import median_filter
from scipy.signal import wiener as local_wiener
from torch import Tensor

from planformer.data.augment import unit_power
from planformer.data.recordings import RecordingSet
from planformer.errors import PlanFormerError
from planformer.evaluation.compass import compass_sets
from planformer.evaluation.tasks import get_task
from planformer.evaluation.validation import validation_part
from planformer.iq import deinterleave, interleave
from planformer.models.planformer import PlanFormer
from planformer.models.restoration import Restorer
from planformer.nn.spectral_gain import from_short_time, refine, short_time
from planformer.signals import roll_back

SNRS = (0, 5, 10, 20)
PICTURES = ("mnist", "fashion-mnist", "bloodcells")
FRAME = 256
MEMORY = 0.92
GAIN = "refined - directed"


def clean_segments(radio: Path, data: Path | None, count: int, seed: int) -> dict[str, tuple[Tensor, bool]]:
    """Name -> complex segments ``[count, 5120]`` of unit power, and whether they come from real samples."""
    generator = np.random.default_rng(seed)
    held_out = RecordingSet.from_folder(radio, "validation")
    chosen = np.sort(generator.choice(len(held_out), min(count, len(held_out)), replace=False))
    found = {"radio": (torch.from_numpy(held_out.sequences(chosen)), False)}
    for name, probe_set in compass_sets(data, "small").items() if data is not None else ():
        if name not in ("rf-modulation", "powder", *PICTURES):
            segments = probe_set.segments.reshape(len(probe_set.segments), -1, probe_set.segments.shape[-1])[:, 0]
            rows = np.sort(generator.choice(len(segments), min(count, len(segments)), replace=False))
            found[name] = (torch.from_numpy(np.ascontiguousarray(segments[rows])), True)
    audible = {name: (x[x.abs().amax(-1) > 0].to(torch.complex64), real) for name, (x, real) in found.items()}
    return {name: (unit_power(x), real) for name, (x, real) in audible.items()}


def noise_like(x: Tensor, real: bool, generator: torch.Generator, colour: float = 0.0) -> Tensor:
    """Unit power, falling with frequency to the power ``colour``; real noise is made analytic, as real signals are."""
    noise = torch.randn(x.shape, generator=generator, dtype=torch.complex64)
    spectrum = torch.fft.fft(noise.real.to(torch.complex64) if real else noise)
    spectrum = spectrum * (torch.fft.fftfreq(x.shape[-1]).abs() + 1e-3) ** (-colour / 2)
    if real:
        spectrum[:, x.shape[-1] // 2 :] = 0
    return unit_power(torch.fft.ifft(spectrum))


def noise_floor(power: Tensor, real: bool, level: Tensor | None, frame: int) -> Tensor:
    """Power of the noise in a bin ``[B]``: as told, or the median bin taken for noise."""
    if level is not None:
        density = 2 if real else 1  # analytic noise has all its power in half of the bins
        return level * torch.hann_window(frame).square().sum() * density
    bins = power[:, 1 : frame // 2] if real else power
    return bins.flatten(1).median(1).values / np.log(2)  # the power of noise is exponentially distributed


def wiener(
    noisy: Tensor, real: bool, level: Tensor | None = None, *, frame: int = FRAME, memory: float = 0.0
) -> Tensor:
    """Short-time spectra times ``S / (S + noise)``; without ``level`` the noise is estimated from the input.

    S is the power above the noise, or with ``memory`` mostly what the frame before had kept: the decision-directed
    estimate (Ephraim and Malah 1984), which does away with the tones that are left of the noise.
    """
    spectra = short_time(noisy, frame)
    power = spectra.abs().square()
    floor = noise_floor(power, real, level, frame)[:, None]
    kept, gains = torch.zeros_like(power[..., 0]), []
    for now in power.unbind(-1):
        signal = memory * kept + (1 - memory) * (now - floor).clamp_min(0)
        gains.append(signal / (signal + floor).clamp_min(1e-12))
        kept = gains[-1].square() * now
    return from_short_time(spectra * torch.stack(gains, -1), noisy.shape[-1])


def networks(restorer: Restorer, noisy: Tensor) -> Tensor:
    """Segments through encoder and decoder, at unit power and back."""
    power = noisy.abs().square().mean(-1, keepdim=True).sqrt()
    with torch.inference_mode():
        parts = [restorer.decode(interleave(x), "denoise")[0] for x in (noisy / power).split(16)]
    return deinterleave(torch.cat(parts)) * power


def snr_each(clean: Tensor, estimate: Tensor) -> Tensor:
    """Decibels of every segment."""
    error = (estimate - clean).abs().square().mean(-1).clamp_min(1e-12)
    return 10 * torch.log10(clean.abs().square().mean(-1) / error)


def snr_db(clean: Tensor, estimate: Tensor) -> float:
    """Mean over the segments."""
    return float(snr_each(clean, estimate).mean())


def paired(clean: Tensor, estimate: Tensor, other: Tensor) -> str:
    """Mean difference of two outputs over the same segments, with its 95 % interval (normal)."""
    difference = snr_each(clean, estimate) - snr_each(clean, other)
    mean, reach = float(difference.mean()), 1.96 * float(difference.std()) / len(difference) ** 0.5
    return f"{mean:+.1f} [{mean - reach:+.1f}, {mean + reach:+.1f}]"


def picture_table(data: Path, model: PlanFormer, count: int, seed: int) -> Table:
    """Noise on the pixels (of the second channel), beside a median filter and SciPy's local Wiener filter, 3 by 3."""
    table = Table("pictures", "noisy", "median", "wiener", "refined")
    for name in PICTURES:
        task = get_task(name)
        if not task.present(data):
            continue
        items = validation_part(name, task.load(data)).items
        generator = np.random.default_rng(seed)
        rows = np.sort(generator.choice(len(items), min(count, len(items)), replace=False))
        clean = np.asarray(items[rows], np.float64)
        clean = clean[..., 1] if clean.ndim == 4 else clean
        spread = clean.std(axis=(1, 2), keepdims=True)
        for snr in track(SNRS, description=name):
            noisy = clean + 10 ** (-snr / 20) * spread * generator.normal(size=clean.shape)
            outputs = (noisy, [median_filter(x, 3) for x in noisy], [local_wiener(x, 3) for x in noisy],
                       [denoised_picture(model, x) for x in noisy])  # fmt: skip
            table.add_row(f"{name}, {snr} dB", *(f"{pixel_snr_db(clean, np.asarray(out)):.1f}" for out in outputs))
    return table


def denoised_picture(model: PlanFormer, pixels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    path = model.denoise(pixels, kind="image").samples.real
    found: npt.NDArray[np.float64] = roll_back(path, *pixels.shape)[0]
    return found


def pixel_snr_db(clean: npt.NDArray[np.float64], estimate: npt.NDArray[np.float64]) -> float:
    """What the pixels of a picture vary by over the error, mean over the pictures that are not blank."""
    error, power = np.square(clean - estimate).mean(axis=(1, 2)), clean.var(axis=(1, 2))
    return float(np.mean(10 * np.log10(power[power > 0] / error[power > 0])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radio", type=Path, required=True, help="folder of recordings (planformer simulate)")
    parser.add_argument("--data", type=Path, help="folder of the public data sets")
    parser.add_argument("--weights", help="weights folder (default: the shipped ones)")
    parser.add_argument("--count", type=int, default=64, help="segments of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--colour", type=float, default=0.0, help="0: white noise, 1: pink, 2: brown")
    options = parser.parse_args()
    try:
        model = PlanFormer.from_pretrained(options.weights)
        restorer = model.restorer
        sets = clean_segments(options.radio, options.data, options.count, options.seed)
    except PlanFormerError as error:
        parser.error(str(error))
    untrained = Restorer.random(0)
    table = Table(
        "signals", "noisy", "wiener", "directed", "directed, level told", "untrained", "decoder", "refined", GAIN
    )
    for name, snr in track([(name, snr) for name in sets for snr in SNRS], description="denoising"):
        clean, real = sets[name]
        generator = torch.Generator().manual_seed(options.seed + snr)
        level = torch.full((len(clean),), 10 ** (-snr / 10))
        noisy = clean + level.sqrt()[:, None] * noise_like(clean, real, generator, options.colour)
        decoded = networks(restorer, noisy)
        outputs = (
            noisy,
            wiener(noisy, real),
            wiener(noisy, real, memory=MEMORY),
            wiener(noisy, real, level, memory=MEMORY),
            refine(noisy, networks(untrained, noisy)),
            decoded,
            refine(noisy, decoded),
        )
        figures = [f"{snr_db(clean, output):.1f}" for output in outputs]
        table.add_row(f"{name}, {snr} dB", *figures, paired(clean, outputs[-1], outputs[2]))
    Console(width=140).print(table)
    if options.data is not None:
        Console(width=120).print(picture_table(options.data, model, options.count, options.seed))


if __name__ == "__main__":
    main()
