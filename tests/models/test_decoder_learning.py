"""It can learn: encoder and compact decoder overfit 16 simulated sequences (twice, minutes of one core each)."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from planformer.config import PlanFormerConfig
from planformer.data.collections import render
from planformer.data.emitters import EMITTERS
from planformer.data.simulator import plan
from planformer.iq import interleave
from planformer.models.decoder import Decoder
from planformer.models.decoder_config import DecoderConfig
from planformer.models.encoder import Encoder
from planformer.models.restoration import Restorer
from planformer.models.restoration_compare import compare, draw, snr_db
from planformer.signals import from_array

pytestmark = pytest.mark.slow
STEPS, BATCH, RATE = 160, 4, 2e-3


def simulated(count: int = 16) -> torch.Tensor:
    """Interleaved unit-power sequences of ``count`` emitters across all collections."""
    recordings = plan(list(EMITTERS), 1_000_000, seed=0)
    rows = []
    for index in np.linspace(0, len(recordings) - 1, count).astype(int):
        samples, _ = render(dataclasses.replace(recordings[index], samples=5 * 5120), 0)
        rows.append(samples[5120:10_240])
    x = torch.from_numpy(np.stack(rows).astype(np.complex64))
    return interleave(x / x.abs().square().mean(1, keepdim=True).sqrt())


def mean_snr(estimate: torch.Tensor, target: torch.Tensor) -> float:
    error = (estimate - target).square().mean(1)
    return float((10 * torch.log10(target.square().mean(1) / error)).mean())


def overfit(inputs: torch.Tensor, target: torch.Tensor) -> Restorer:
    torch.manual_seed(0)
    config = PlanFormerConfig()
    encoder, decoder = Encoder(config), Decoder(DecoderConfig.from_encoder(config))
    parameters = [p for p in (*encoder.parameters(), *decoder.parameters()) if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.1)
    for step in range(STEPS):
        if step % (len(inputs) // BATCH) == 0:
            order = torch.randperm(len(inputs)).split(BATCH)
        rows = order[step % (len(inputs) // BATCH)]
        out = encoder(inputs[rows], return_skips=True, return_aux=False)
        tokens = (out.time_tokens, out.frequency_tokens, out.time_latent, out.frequency_latent)
        waveform, _, _ = decoder(*tokens, out.skips, return_aux=False)
        loss = (waveform - target[rows]).square().mean() / target[rows].square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
    return Restorer(encoder, decoder)


@torch.no_grad()
def decoded(restorer: Restorer, inputs: torch.Tensor) -> torch.Tensor:
    return torch.cat([restorer.decode(rows, "reconstruct")[0] for rows in inputs.split(BATCH)])


@torch.no_grad()
def exchanged(restorer: Restorer, inputs: torch.Tensor, *, tokens: bool) -> torch.Tensor:
    """Each sequence decoded from its own skips, but from its neighbour's latents (and tokens)."""
    waves = []
    for rows, others in zip(inputs.split(BATCH), inputs.roll(-1, 0).split(BATCH), strict=True):
        own, other = (restorer.encoder(x, return_skips=True, return_aux=False) for x in (rows, others))
        source = other if tokens else own
        given = (source.time_tokens, source.frequency_tokens, other.time_latent, other.frequency_latent)
        waves.append(restorer.decoder(*given, own.skips, return_aux=False)[0])
    return torch.cat(waves)


def ablations(restorer: Restorer, inputs: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
    """Mean SNR over the sequences with one part switched off or taken from another sequence."""
    skips = Restorer(restorer.encoder, restorer.decoder, ablation="skips")
    latents = Restorer(restorer.encoder, restorer.decoder, ablation="latent")
    waves = {
        "as trained": decoded(restorer, inputs),
        "latents zeroed": decoded(latents, inputs),
        "latents of the next": exchanged(restorer, inputs, tokens=False),
        "latents and tokens of the next": exchanged(restorer, inputs, tokens=True),
        "skips zeroed": decoded(skips, inputs),
        "random weights": decoded(Restorer.random(0), inputs),
    }
    return {name: round(mean_snr(wave, target), 2) for name, wave in waves.items()}


@pytest.fixture(scope="module")
def sequences() -> torch.Tensor:
    return simulated()


@pytest.fixture(scope="module")
def reconstructor(sequences: torch.Tensor) -> Restorer:
    return overfit(sequences, sequences)


def test_reconstruction_reaches_15_decibel(reconstructor: Restorer, sequences: torch.Tensor) -> None:
    reached = mean_snr(decoded(reconstructor, sequences), sequences)
    print(f"reconstruction {reached:.2f} dB")
    assert reached >= 15
    assert -6 < mean_snr(decoded(Restorer.random(0), sequences), sequences) < 1  # the control


def test_skips_carry_the_waveform_and_latents_a_constant(reconstructor: Restorer, sequences: torch.Tensor) -> None:
    """Zeroing the skips loses everything, zeroing the latents a little.

    It matters that there is a latent, but not whose: with skips at hand, reconstruction alone asks it for nothing that
    differs between sequences, and it becomes a constant that the decoder leans on (docs/decoder.md).
    """
    reached = ablations(reconstructor, sequences, sequences)
    print("reconstruction", reached)
    assert -1 < reached["skips zeroed"] < 1
    assert reached["as trained"] > reached["latents zeroed"] + 0.5
    assert reached["latents zeroed"] > reached["skips zeroed"] + 10
    assert reached["latents of the next"] > reached["as trained"] - 0.1


def test_borders_are_as_good_as_the_middle(reconstructor: Restorer, sequences: torch.Tensor) -> None:
    """A recording that runs over several segments: error where two meet against the error inside them."""
    rows = torch.view_as_complex(sequences.view(len(sequences), -1, 2)).numpy()
    signal = from_array(np.concatenate(list(rows[8:12])))
    (out,) = reconstructor.run(signal, "reconstruct")
    error = np.abs(out.samples[0] - signal.samples[0]) ** 2
    hop = 5120 - reconstructor.overlap
    at_border = np.zeros(signal.n, bool)
    for start in range(hop, signal.n - 5120, hop):
        at_border[start : start + reconstructor.overlap] = True
    ratio = error[at_border].mean() / error[~at_border].mean()
    print(f"error power where segments meet: {ratio:.2f} of that inside")
    assert ratio < 1.5
    steps = np.abs(np.diff(out.samples[0] - signal.samples[0]))
    edges = [s + k for s in range(hop, signal.n - 5120, hop) for k in (-1, reconstructor.overlap - 1)]
    print(f"largest step of the error at a border {steps[edges].max():.3f}, anywhere {steps.max():.3f}")
    assert steps[edges].max() < steps.max()  # no click: other places have larger steps


def test_denoising_gains_8_decibel(sequences: torch.Tensor) -> None:
    torch.manual_seed(1)
    noise = torch.randn_like(sequences)
    noise *= (sequences.square().mean(1) / noise.square().mean(1)).sqrt()[:, None]
    noisy = sequences + noise
    assert abs(mean_snr(noisy, sequences)) < 0.1
    # the encoder sees unit power; the target keeps its share of it, so input = target + noise
    scale = noisy.square().mean(1, keepdim=True).mul(2).rsqrt()
    restorer = overfit(noisy * scale, sequences * scale)
    restored = decoded(restorer, noisy * scale) / scale
    print("denoising from 0 dB", ablations(restorer, noisy * scale, sequences * scale))
    assert mean_snr(restored, sequences) >= 8
    assert snr_db(sequences.numpy(), restored.numpy()) >= 8


def shapes(size: int = 48) -> np.ndarray:
    """A disc, a bar and a gradient."""
    y, x = np.mgrid[:size, :size] / size
    image = 60 + 80 * x
    image[(x - 0.35) ** 2 + (y - 0.4) ** 2 < 0.05] = 230
    image[(np.abs(x - 0.75) < 0.07) & (y > 0.3)] = 20
    return image.astype(np.uint8)


def test_pictures_of_a_radio_signal_and_an_image(
    reconstructor: Restorer, sequences: torch.Tensor, tmp_path: Path
) -> None:
    """Beside random weights; PLANFORMER_PICTURES=docs/pictures draws the documentation's pictures anew."""
    folder = Path(os.environ.get("PLANFORMER_PICTURES", tmp_path))
    radio = from_array(torch.view_as_complex(sequences[8].view(-1, 2)).numpy(), rate=7.69e6, kind="iq")
    image = from_array(shapes(), kind="image")
    for name, signal in {"radio": radio, "image": image}.items():
        outputs = {
            "overfitted on 16 radio sequences": reconstructor.run(signal, "reconstruct")[0],
            "random weights": Restorer.random(0).run(signal, "reconstruct")[0],
        }
        picture = draw(folder / f"decoder_{name}.png", signal, outputs, dpi=60)
        with Image.open(picture) as drawn:  # spectrograms of noise hardly compress: a palette makes them a third
            drawn.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)
        assert picture.stat().st_size < 150_000
        trained, random = (compare(signal, output)["snr_db"] for output in outputs.values())
        print(f"{name}: {trained:.1f} dB, random weights {random:.1f} dB")
        assert trained > random + 3
