"""The HEAR benchmark's common interface, so that the audio community's harness can run the encoder unchanged.

Sound at 16 kHz: a segment of 5,120 samples is 320 ms. A scene is the whole clip, as ``PlanFormer.embed`` gives it. A
timestamp embedding, every 50 ms, is ``embed`` of the 320 ms centred on it (silence beyond the clip's ends): nothing
outside them changes it, as the Hilbert transform is that of the stretch too and not of the whole clip.

>>> model = load_model("random")
>>> audio = torch.rand(2, 8000) * 2 - 1
>>> get_scene_embeddings(audio, model).shape
torch.Size([2, 256])
>>> embeddings, milliseconds = get_timestamp_embeddings(audio, model)
>>> embeddings.shape, milliseconds[0, :3].tolist()
(torch.Size([2, 10, 256]), [0.0, 50.0, 100.0])
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from planformer.errors import InputError
from planformer.models.planformer import PlanFormer
from planformer.signals.analytic import analytic
from planformer.signals.preprocess import finish, segments

SAMPLE_RATE = 16000
HOP_MS = 50.0


class HearModel(nn.Module):
    """What the harness wants of a model: a module with three numbers on it."""

    def __init__(self, model: PlanFormer) -> None:
        super().__init__()
        self.planformer = model
        self.encoder = model.encoder  # registered, so that .to(device) moves it
        self.sample_rate = SAMPLE_RATE
        self.scene_embedding_size = 2 * model.config.dim
        self.timestamp_embedding_size = 2 * model.config.dim


def load_model(model_file_path: str = "") -> HearModel:
    """Shipped weights for "", else a weights folder, a hub name, "random" or "random:SEED"."""
    return HearModel(PlanFormer.load(model_file_path or None))


def get_scene_embeddings(audio: Tensor, model: HearModel) -> Tensor:
    """Sounds ``[n, samples]`` in [-1, 1] -> one embedding each, ``[n, 256]``."""
    x = analytic(_checked(audio))  # [n, samples], each row its own signal
    config = model.planformer.preprocess
    parts = list(segments([x], config, removes_mean=config.remove_mean))
    return _embed(np.concatenate(parts, axis=1), audio, model)  # [n, segments, 5120]


def get_timestamp_embeddings(audio: Tensor, model: HearModel) -> tuple[Tensor, Tensor]:
    """Sounds ``[n, samples]`` -> embeddings ``[n, times, 256]`` and their times in milliseconds ``[n, times]``."""
    x = _checked(audio)
    config = model.planformer.preprocess
    length, hop = config.segment_length, round(HOP_MS * SAMPLE_RATE / 1000)
    count = -(-x.shape[1] // hop)
    padded = np.pad(x, ((0, 0), (length // 2, length)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, length, axis=1)
    windows = windows[:, : count * hop : hop]  # [n, times, length]
    rows = [finish(analytic(sound)[None], removes_mean=config.remove_mean)[0] for sound in windows]
    stacked = np.concatenate(rows)[:, None]  # [n * times, 1, 5120]
    embeddings = _embed(stacked, audio, model).unflatten(0, (len(x), count))
    times = torch.arange(count, dtype=torch.float32, device=audio.device) * HOP_MS
    return embeddings, times.expand(len(x), -1).clone()


def _embed(prepared: npt.NDArray[np.complex64], audio: Tensor, model: HearModel) -> Tensor:
    return torch.from_numpy(model.planformer.embed_segments(prepared)).to(audio.device)


def _checked(audio: Tensor) -> npt.NDArray[np.float32]:
    if audio.ndim != 2 or not audio.is_floating_point() or 0 in audio.shape:
        raise InputError(f"audio is a float tensor [sounds, samples], not {audio.dtype} {list(audio.shape)}")
    if not bool(torch.isfinite(audio).all()):
        raise InputError("audio holds NaN or infinite samples")
    return audio.detach().float().cpu().numpy()
