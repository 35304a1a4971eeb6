"""Reconstruct, denoise and separate signals of any length with the encoder and the decoder (paper, Appendix B).

Each segment is brought to what the encoder expects (mean and power), decoded, and given its mean and power back;
``preprocess.normalise`` says whether these are the segment's own or the whole signal's. To denoise, the segment passes
the filter that the decoded waveform describes (:mod:`planformer.nn.spectral_gain`); the waveform itself is the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from planformer.config import PlanFormerConfig
from planformer.errors import InputError, WeightsError
from planformer.iq import deinterleave, interleave
from planformer.models.decoder import Decoder
from planformer.models.decoder_config import DecoderConfig
from planformer.models.encoder import Encoder, EncoderOutput, Skips
from planformer.models.overlap import ComplexArray, overlap_add
from planformer.models.restoration_scale import Scale
from planformer.models.weights import load_strict, read_component, weights_name, write_component
from planformer.nn.spectral_gain import FRAME, refine
from planformer.signals import Signal, from_array, resample_length
from planformer.signals import read as read_file
from planformer.signals.preprocess import PreprocessConfig, fit

DECODER, SEPARATION = "decoder", "separation"
DECODER_ARCHITECTURE, SEPARATION_ARCHITECTURE = "planformer-decoder", "planformer-separation"
Task = Literal["reconstruct", "denoise", "separate"]
Ablation = Literal["none", "skips", "latent"]


class Restorer:
    """Encoder, decoder and (for mixtures) separation networks, frozen.

    >>> from planformer.signals import from_array
    >>> restorer = Restorer.random(seed=0)
    >>> restorer.run(from_array(np.sin(np.arange(7000) / 9)), "reconstruct")[0].n
    7000
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        separation: nn.Module | None = None,
        *,
        ablation: Ablation = "none",
        overlap: int | None = None,
        refined: bool = True,
    ) -> None:
        """``overlap``: samples that neighbouring segments share; default: one window of the encoder.

        ``refined``: to denoise, the decoded waveform is a filter for the input; False: it is the output, as in the
        paper.
        """
        if decoder.config.segment != encoder.config.segment or decoder.config.channels != encoder.config.channels:
            raise WeightsError("the decoder was made for another encoder: segment or channels differ")
        self.encoder, self.decoder, self.separation = encoder.eval(), decoder.eval(), separation
        if separation is not None:
            separation.eval()
        self.ablation: Ablation = ablation
        self.refined = refined
        segment = encoder.config.segment
        self.overlap = encoder.config.window if overlap is None else overlap
        if not 0 <= self.overlap <= segment // 2:
            raise InputError(f"an overlap of {self.overlap} samples: from 0 to half a segment, {segment // 2}")

    @classmethod
    def random(cls, seed: int = 0, config: PlanFormerConfig | None = None, *, size: str = "compact") -> Restorer:
        """Untrained networks: the control that shows what the architecture alone can do."""
        config = config or PlanFormerConfig()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            decoder = Decoder(DecoderConfig.from_encoder(config, size=size))
            return cls(Encoder(config), decoder, _separation_networks(config))

    @classmethod
    def load(cls, encoder: Encoder, folder: str | Path) -> Restorer:
        """The decoder (and separation networks, if stored) that lie in the encoder's weights folder."""
        folder = Path(folder)
        if not (folder / weights_name(DECODER)).is_file():
            raise WeightsError(
                f"{folder}: these weights have no decoder ({weights_name(DECODER)}), they can embed but not restore; "
                "use weights that were trained with one (recipe: networks.decoder: compact), "
                "or --weights random for the untrained control"
            )
        stored = read_component(folder, DECODER, architecture=DECODER_ARCHITECTURE)
        try:
            config = DecoderConfig.model_validate(stored.config)
        except ValidationError as error:
            raise WeightsError(f"{folder}/{DECODER}.json: {error.errors()[0]['msg']}") from error
        with torch.random.fork_rng(devices=[]):
            decoder, separation = Decoder(config), None
            load_strict(decoder, stored.tensors, where=folder)
            if (folder / weights_name(SEPARATION)).is_file():
                separation = _separation_networks(encoder.config)
                mixed = read_component(folder, SEPARATION, architecture=SEPARATION_ARCHITECTURE)
                load_strict(separation, mixed.tensors, where=folder)
        return cls(encoder, decoder, separation)

    def save(self, folder: str | Path) -> Path:
        """Write the decoder (and the separation networks) beside the encoder's files in a weights folder."""
        if self.separation is not None:
            save_separation(folder, self.separation)
        return save_decoder(folder, self.decoder)

    def variant(self, *, ablation: Ablation | None = None, refined: bool | None = None) -> Restorer:
        """The same networks with a part switched off, or with the decoded waveform as it is."""
        return type(self)(
            self.encoder,
            self.decoder,
            self.separation,
            ablation=self.ablation if ablation is None else ablation,
            overlap=self.overlap,
            refined=self.refined if refined is None else refined,
        )

    # Signals -----------------------------------------------------------------------------------------------------

    def run(self, signal: Signal, task: Task, *, batch_size: int = 16) -> list[Signal]:
        """One restored signal (two for ``separate``) of the input's length, rate, scale and kind."""
        parts = list(self.stream(signal, task, batch_size=batch_size))
        sources = np.concatenate(parts, axis=-1)  # (S, C, n)
        provenance = {**signal.provenance, "restored": task}
        return [Signal(samples, signal.rate, signal.kind, provenance) for samples in sources]

    def run_item(
        self, item: Any, task: Task, *, rate: float | None = None, kind: str | None = None, **read: Any
    ) -> list[Signal]:
        """:meth:`run` for a path, an array, bytes or a Signal; a file's channels are kept apart."""
        if isinstance(item, Signal):
            return self.run(item, task)
        if isinstance(item, str | Path):
            return self.run(read_file(item, kind, rate=rate, **{"channels": "each", **read}), task)  # type: ignore[arg-type]
        if read:
            raise InputError(f"{', '.join(read)}: only for paths; index the array instead")
        usual = "text" if isinstance(item, bytes) else "array"
        return self.run(from_array(item, rate=rate, kind=kind or usual), task)  # type: ignore[arg-type]

    def stream(self, signal: Signal, task: Task, *, batch_size: int = 16) -> Iterator[ComplexArray]:
        """The same block by block, ``[S, C, m]``."""
        if signal.kind == "video":  # a frame is a segment of its own
            frames = signal.samples.reshape(signal.channels, int(signal.provenance.get("frames", 1)), -1)
            scale = self._signal_scale([signal.samples], remove_mean=True)
            short = self._short(task) if frames.shape[-1] <= self.encoder.config.segment else "resample"
            for index in range(frames.shape[1]):
                yield self._whole(frames[:, index], task, True, short, scale)
            return
        short = self._short(task) if signal.kind == "image" else self.preprocess.short
        yield from self.stream_blocks(
            [signal.samples],
            task,
            remove_mean=signal.is_analytic and self.preprocess.remove_mean,
            short=short,
            batch_size=batch_size,
        )

    def stream_blocks(
        self,
        blocks: Iterable[ComplexArray],
        task: Task,
        *,
        remove_mean: bool,
        short: str = "pad",
        batch_size: int = 16,
    ) -> Iterator[ComplexArray]:
        """Blocks ``[C, k]`` of one signal, of any length -> blocks ``[S, C, m]``, in bounded memory.

        With ``normalise="signal"`` the blocks are gone through twice: an iterator that can't start again is refused.
        """
        length = self.encoder.config.segment
        scale = self._signal_scale(blocks, remove_mean=remove_mean)
        enough, blocks = _at_least(blocks, length)
        if not enough:
            yield self._whole(np.concatenate(list(blocks), axis=1), task, remove_mean, short, scale)
            return

        def process(segments: ComplexArray) -> ComplexArray:
            return self.segments(segments, task, remove_mean=remove_mean, scale=scale)

        yield from overlap_add(blocks, process, length=length, overlap=self.overlap, batch=batch_size)

    @property
    def preprocess(self) -> PreprocessConfig:
        return self.encoder.config.preprocess

    def _short(self, task: Task) -> str:
        """How a small picture fills a segment. Stretched, its noise would be smooth, and nothing told it apart."""
        return self.preprocess.short if task == "denoise" else "resample"

    def _signal_scale(self, blocks: Iterable[ComplexArray], *, remove_mean: bool) -> Scale | None:
        """Mean and power of the whole signal where the model is fed with these; None: each segment's own."""
        if self.preprocess.normalise == "segment":
            return None
        return Scale.of_signal(blocks, self.preprocess, remove_mean=remove_mean)

    def _whole(
        self, samples: ComplexArray, task: Task, remove_mean: bool, short: str, scale: Scale | None
    ) -> ComplexArray:
        """A signal ``[C, n]`` shorter than a segment: filled as the encoder's preparation does, and cut again.

        Its power is that of its own samples; what fills the segment does not count.
        """
        n, length = samples.shape[-1], self.encoder.config.segment
        scale = scale or Scale.of(samples, remove_mean=remove_mean)
        unit = fit(scale.to_unit(samples), length, short)
        out = self._decode_units(unit[None], task, n if short == "pad" else None)[:, 0]
        out = resample_length(out, n) if short == "resample" else out[..., :n]
        return scale.back(out)

    # Segments ----------------------------------------------------------------------------------------------------

    def segments(
        self, segments: ComplexArray, task: Task, *, remove_mean: bool, scale: Scale | None = None
    ) -> ComplexArray:
        """Raw segments ``[K, C, 5120]`` -> sources ``[S, K, C, 5120]``; mean and power (own or ``scale``) come back."""
        scale = scale or Scale.of(segments, remove_mean=remove_mean)
        return scale.back(self._decode_units(scale.to_unit(segments), task))

    @torch.inference_mode()
    def _decode_units(self, segments: ComplexArray, task: Task, filled: int | None = None) -> ComplexArray:
        """Segments of unit power ``[K, C, 5120]`` -> ``[S, K, C, 5120]``; behind ``filled`` samples they are silent."""
        device = next(self.encoder.parameters()).device
        x = torch.from_numpy(np.ascontiguousarray(segments.reshape(-1, segments.shape[-1]))).to(device)
        waves = torch.stack([deinterleave(wave) for wave in self.decode(interleave(x), task)])  # (S, K C, 5120)
        filled = x.shape[-1] if filled is None else filled
        if task == "denoise" and self.refined and filled >= FRAME:
            waves[0, :, :filled] = refine(x[:, :filled], waves[0, :, :filled])
        return waves.cpu().numpy().reshape(-1, *segments.shape)

    def decode(self, x: Tensor, task: Task) -> list[Tensor]:
        """Interleaved segments of unit power ``[B, 10240]`` -> one waveform, or two.

        Noisy input goes through the encoder as in training, with a blind spot in its first kernel unless the decoder's
        configuration says otherwise; a reconstruction keeps the full kernel.
        """
        blindspot = task != "reconstruct" and self.decoder.config.blindspot
        out = self.encoder(x, blindspot=blindspot, return_skips=True, return_aux=False)
        sources = self._separated(out) if task == "separate" else [out]
        return [self._waveform(source) for source in sources]

    def _separated(self, out: EncoderOutput) -> list[EncoderOutput]:
        if self.separation is None:
            raise WeightsError(
                "these weights have no separation networks (separation.safetensors): train with separation.share > 0"
            )
        from planformer.losses.inputs import DomainPair

        assert out.focused is not None
        pairs, _ = self.separation(DomainPair(*out.focused))
        result = []
        for pair in pairs:
            time, frequency = self.encoder.transformer_fusion(pair.time, pair.frequency)
            latents = self.encoder.pool(time, frequency)
            result.append(EncoderOutput(time, frequency, *latents, {}, out.noise_power, out.skips))
        return result

    def _waveform(self, out: EncoderOutput) -> Tensor:
        assert out.skips is not None
        skips, latents = out.skips, [out.time_latent, out.frequency_latent]
        if self.ablation == "skips":
            skips = Skips([torch.zeros_like(s) for s in skips.time], [torch.zeros_like(s) for s in skips.frequency])
        if self.ablation == "latent":
            latents = [torch.zeros_like(z) for z in latents]
        waveform, _, _ = self.decoder(out.time_tokens, out.frequency_tokens, *latents, skips, return_aux=False)
        result: Tensor = waveform
        return result


def restorer_for(encoder: Encoder, folder: Path | None, weights: str) -> Restorer:
    """The decoder that belongs to an encoder: stored beside it, or random beside random weights."""
    if folder is not None:
        return Restorer.load(encoder, folder)
    name, _, seed = weights.partition(":")
    if name != "random":
        raise WeightsError("this model came without a decoder: load a weights folder that has one")
    control = Restorer.random(int(seed or 0), encoder.config)
    return Restorer(encoder, control.decoder, control.separation)


def continue_decoder(decoder: Decoder, folder: str | Path) -> bool:
    """Start from the decoder stored in a weights folder; False, and nothing changed, if there is none of this size."""
    folder = Path(folder)
    if not (folder / weights_name(DECODER)).is_file():
        return False
    stored = read_component(folder, DECODER, architecture=DECODER_ARCHITECTURE)
    same = {"blindspot": decoder.config.blindspot}
    if stored.config | same != decoder.config.model_dump(mode="json"):
        return False
    load_strict(decoder, stored.tensors, where=folder)
    return True


def save_decoder(folder: str | Path, decoder: Decoder, provenance: dict[str, Any] | None = None) -> Path:
    """Store a decoder beside an encoder: ``decoder.safetensors`` and ``decoder.json``."""
    return write_component(
        folder,
        DECODER,
        decoder.state_dict(),
        decoder.config.model_dump(mode="json"),
        architecture=DECODER_ARCHITECTURE,
        provenance=provenance,
    )


def save_separation(folder: str | Path, separation: nn.Module) -> Path:
    """Store the separation networks beside an encoder: ``separation.safetensors`` and ``separation.json``."""
    return write_component(folder, SEPARATION, separation.state_dict(), {}, architecture=SEPARATION_ARCHITECTURE)


def _separation_networks(config: PlanFormerConfig) -> nn.Module:
    from planformer.models.auxiliary import SeparationNetworks

    return SeparationNetworks(config.dim, num_heads=config.num_heads)


def _at_least(blocks: Iterable[ComplexArray], length: int) -> tuple[bool, Iterator[ComplexArray]]:
    """Whether the blocks hold ``length`` samples, and all of them again."""
    iterator = iter(blocks)
    held: list[ComplexArray] = []
    count = 0
    for block in iterator:
        held.append(block)
        count += block.shape[1]
        if count >= length:
            break

    def again() -> Iterator[ComplexArray]:
        while held:
            yield held.pop(0)
        yield from iterator

    if not held:
        raise InputError("an empty signal can't be restored")
    return count >= length, again()
