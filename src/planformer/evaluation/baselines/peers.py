"""CLIP ViT-B/32 and DINOv3 ViT-S as baselines, from weights on the user's disk (Appendix "Comparison to CLIP").

Nothing is downloaded: PLANFORMER_CLIP and PLANFORMER_DINO name the weights. Text is left out, as in the paper.
Only the image tower is counted; the paper's 151 M for CLIP includes the text tower.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planformer.errors import MissingExtraError, PlanFormerError, WeightsError
from planformer.evaluation.baselines.spectrograms import Pixels, audio_pictures, photo, radio_pictures
from planformer.evaluation.featurisers import Advance, Features, Featuriser
from planformer.evaluation.tasks import TaskData

if TYPE_CHECKING:
    from torch import nn

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class VisionTower(Featuriser):
    """A frozen image model on pictures of the signals; windows and frames are mean-pooled, channels concatenated."""

    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    variable: str
    batch = 16

    def __init__(self, tower: nn.Module | None = None) -> None:
        self._tower = tower

    def build(self, weights: Path) -> nn.Module:
        raise NotImplementedError

    @property
    def tower(self) -> nn.Module:
        if self._tower is None:
            weights = self.weights()
            try:
                self._tower = self.build(weights).eval().requires_grad_(False)
            except PlanFormerError:
                raise
            except Exception as error:  # libraries of others, files of users: anything can happen
                reason = str(error).partition("\n")[0][:200]
                raise WeightsError(f"{self.name}: {weights} is not its weights ({reason})") from error
        return self._tower

    def weights(self) -> Path:
        name = os.environ.get(self.variable, "")
        if not name or not Path(name).exists():
            raise WeightsError(f"{self.name}: set {self.variable} to its weights on disk (nothing is downloaded)")
        return Path(name)

    @property
    def identity(self) -> str:
        digest = hashlib.sha256()
        for key, value in sorted(self.tower.state_dict().items()):
            digest.update(key.encode() + value.cpu().numpy().tobytes())
        return f"{self.name}:v1:{digest.hexdigest()}"

    def not_applicable(self, data: TaskData) -> str | None:
        if data.kind == "text":
            return "pictures of text are not compared (as in the paper)"
        if self._tower is None and not os.environ.get(self.variable):
            return f"set {self.variable} to its weights on disk"
        return None

    def parameters(self) -> int:
        return sum(p.numel() for p in self.tower.parameters())

    def features(self, data: TaskData, advance: Advance | None = None) -> Features:
        rows = []
        for index in range(len(data)):
            groups = [self._encode(pictures).mean(axis=0) for pictures in pictures_of(data, index)]
            rows.append(np.concatenate(groups))
            if advance:
                advance(1)
        return np.stack(rows).astype(np.float32)

    def _encode(self, pictures: Pixels) -> Features:
        import torch

        rows = []
        mean, std = torch.tensor(self.mean).view(3, 1, 1), torch.tensor(self.std).view(3, 1, 1)
        with torch.inference_mode():
            for start in range(0, len(pictures), self.batch):
                pixels = torch.from_numpy(pictures[start : start + self.batch].copy()).permute(0, 3, 1, 2) / 255.0
                out = self.tower((pixels - mean) / std)  # (b, 3, 224, 224) -> (b, d)
                rows.append(np.asarray(out.cpu().numpy(), dtype=np.float32))
        return np.concatenate(rows)


def pictures_of(data: TaskData, index: int) -> Iterator[Pixels]:
    """Groups of pictures to be mean-pooled: windows of a sound, frames of a video, one group for each channel else."""
    if data.kind == "image" and not isinstance(data.items[index], Path | str):
        yield photo(np.asarray(data.items[index]))[None]
    elif data.kind in ("image", "video"):
        # (frames, 224, 224, 3)
        yield np.stack([photo(frame) for frame in frames_of(data, index)])
    elif data.kind == "audio":
        yield audio_pictures(data.signal(index))
    else:
        for picture in radio_pictures(data.signal(index)):
            yield picture[None]


def frames_of(data: TaskData, index: int) -> Iterator[Any]:
    """The pixels of an image or video, frame by frame; only the first if the task asks for that."""
    item = data.items[index]
    if not isinstance(item, Path | str):
        yield from np.asarray(item)
        return
    if data.kind == "image":
        from PIL import Image

        with Image.open(item) as image:
            yield np.asarray(image.convert("RGB"))
        return
    try:
        import av
    except ImportError as error:
        raise MissingExtraError("PyAV", "video", "reading video") from error
    with av.open(str(item)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="rgb24")
            if data.read_options.get("first_frame"):
                return


class Clip(VisionTower):
    name = "clip"
    title = "CLIP ViT-B/32 image tower"
    mean, std = CLIP_MEAN, CLIP_STD
    variable = "PLANFORMER_CLIP"

    def build(self, weights: Path) -> nn.Module:
        try:
            import open_clip
        except ImportError as error:
            raise MissingExtraError("open_clip_torch", "peers", "the CLIP baseline") from error
        return _clip_visual(open_clip.create_model, str(weights))


def _clip_visual(create: Callable[..., Any], weights: str | None) -> nn.Module:
    """The image tower with its projection to 512 numbers."""
    visual: nn.Module = create("ViT-B-32-quickgelu", pretrained=weights).visual
    return visual


class Dino(VisionTower):
    name = "dino"
    title = "DINOv3 ViT-S/16"
    variable = "PLANFORMER_DINO"

    def build(self, weights: Path) -> nn.Module:
        try:
            import timm
        except ImportError as error:
            raise MissingExtraError("timm", "peers", "the DINOv3 baseline") from error
        model: nn.Module = timm.create_model(
            "vit_small_patch16_dinov3", pretrained=False, num_classes=0, checkpoint_path=str(weights)
        )
        return model
