"""Video task (Appendix "Video Task"): normal against abnormal cell division, whole videos or the first frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.evaluation.tasks.base import Task, TaskData, as_labels, files_under

VIDEO_SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".gif")
FRAME_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")


class Mitosis(Task):
    name = "mitosis"
    official_items = 557
    title = "Normal or abnormal mitosis (video)"
    type = "physical"
    domain = "3-D"
    folders = ("mitosis", "Mitosis", "mitosis_classification")
    layout = "{train,test}/<class>/ with one video file or one folder of frames per sample"
    source = "https://doi.org/10.5281/zenodo.7788748"
    licence = "CC BY 4.0"
    checks = "two classes in both parts, every frame folder has frames"
    first_frame = False

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        items: list[Path] = []
        labels: list[str] = []
        test: list[bool] = []
        for part in ("train", "test"):
            classes = sorted(p for p in (root / part).iterdir() if p.is_dir()) if (root / part).is_dir() else []
            if len(classes) != 2:
                raise self.wrong(root / part, f"{len(classes)} class folders instead of two")
            for folder in classes:
                found = self._samples(folder)
                items += found
                labels += [folder.name] * len(found)
                test += [part == "test"] * len(found)
        if any(item.is_dir() for item in items):
            if not all(item.is_dir() for item in items):
                raise self.wrong(root, "video files and frame folders are mixed")
            return TaskData([self._frames(item) for item in items], as_labels(labels), "video", test=np.array(test))
        options = {"first_frame": True} if self.first_frame else {}
        return TaskData(items, as_labels(labels), "video", test=np.array(test), read_options=options)

    def _frames(self, folder: Path) -> npt.NDArray[np.uint8]:
        """Frames in the order of their names, ``[T, H, W]`` or ``[T, H, W, 3]``."""
        from PIL import Image, UnidentifiedImageError

        paths = files_under(folder, *FRAME_SUFFIXES)[: 1 if self.first_frame else None]
        frames = []
        for path in paths:
            try:
                with Image.open(path) as image:
                    frames.append(
                        np.asarray(image.convert("L" if image.mode in ("1", "L", "I", "F", "I;16") else "RGB"))
                    )
            except (OSError, UnidentifiedImageError) as error:
                raise InputError(f"{path}: not a readable image ({error}): download it again") from error
        if len({frame.shape for frame in frames}) != 1:
            raise self.wrong(folder, "frames of different sizes")
        return np.stack(frames)

    def _samples(self, folder: Path) -> list[Path]:
        samples = sorted(p for p in folder.iterdir() if p.is_dir() or p.suffix.lower() in VIDEO_SUFFIXES)
        if not samples:
            raise self.wrong(folder, "no videos or frame folders")
        for sample in samples:
            if sample.is_dir() and not files_under(sample, *FRAME_SUFFIXES):
                raise self.wrong(sample, "a frame folder without frames")
        return samples


class MitosisFirstFrame(Mitosis):
    name = "mitosis-first-frame"
    title = "Normal or abnormal mitosis (first frame)"
    in_averages = False  # the paper leaves it out of its averages
    first_frame = True
