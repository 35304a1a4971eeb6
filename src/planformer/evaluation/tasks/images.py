"""Image tasks (Appendix "Image Tasks"): MNIST, FashionMNIST, PathMNIST at 64x64, CIFAKE, and blood cells."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.evaluation.tasks.base import Task, TaskData, as_labels, files_under

FASHION_NAMES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
PATH_NAMES = (
    "adipose",
    "background",
    "debris",
    "lymphocytes",
    "mucus",
    "smooth muscle",
    "normal mucosa",
    "stroma",
    "tumour",
)


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """An IDX file of bytes, gzipped or not, checked against its own header."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a readable IDX file ({error}): download it again") from error
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise InputError(f"{path}: not an IDX file of bytes (it starts with {raw[:4]!r}): download it again")
    shape = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
    data = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if data.size != int(np.prod(shape)):
        raise InputError(f"{path}: the header says {shape}, the file holds {data.size} bytes: download it again")
    return data.reshape(shape)


class Mnist(Task):
    name = "mnist"
    official_items = 70_000
    title = "Digit (MNIST)"
    type = "mixed"
    domain = "2-D"
    folders = ("mnist", "MNIST/raw", "MNIST")
    layout = "four IDX files {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]"
    source = "http://yann.lecun.com/exdb/mnist/"
    licence = "public domain (CC0 1.0) per the paper; CC BY-SA 3.0 as commonly stated"
    checks = "IDX headers, 60,000 + 10,000 images of 28x28, labels 0 to 9"
    names: tuple[str, ...] = tuple("0123456789")
    counts: tuple[int, int] | None = (60_000, 10_000)

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        parts = [(self._idx(root, p, "images-idx3"), self._idx(root, p, "labels-idx1")) for p in ("train", "t10k")]
        for (images, labels), count in zip(parts, self.counts or (None, None), strict=True):
            if len(images) != len(labels) or (count is not None and len(images) != count):
                raise self.wrong(root, f"{len(images)} images and {len(labels)} labels where {count} were expected")
        codes = np.concatenate([labels for _, labels in parts])
        if codes.max(initial=0) >= len(self.names):
            raise self.wrong(root, f"label {codes.max()} beyond the {len(self.names)} classes")
        test = np.repeat([False, True], [len(labels) for _, labels in parts])
        images = np.concatenate([images for images, _ in parts])
        return TaskData(images, as_labels([self.names[c] for c in codes]), "image", test=test)

    def _idx(self, root: Path, part: str, what: str) -> npt.NDArray[np.uint8]:
        for form in (f"{part}-{what}-ubyte.gz", f"{part}-{what}-ubyte", f"{part}-{what.replace('-', '.')}-ubyte"):
            if (root / form).is_file():
                return read_idx(root / form)
        raise self.missing(root, root / f"{part}-{what}-ubyte.gz")


class FashionMnist(Mnist):
    name = "fashion-mnist"
    title = "Clothing (FashionMNIST)"
    folders = ("fashion-mnist", "FashionMNIST/raw", "FashionMNIST")
    source = "https://github.com/zalandoresearch/fashion-mnist"
    licence = "MIT"
    # Copies without the official split lose a row or two, so only the rounded counts are checked.
    checks = "IDX headers, as many labels as images, ten classes"
    names = FASHION_NAMES
    counts = None


class _Npz(Task):
    """MedMNIST's form: {train,val,test}_{images,labels} in one .npz."""

    files: tuple[str, ...]
    names: tuple[str, ...]
    domain = "2-D"

    def load(self, data_dir: Path) -> TaskData:
        root = data_dir if any((data_dir / f).is_file() for f in self.files) else self.root(data_dir)
        path = next((root / f for f in self.files if (root / f).is_file()), None)
        if path is None:
            raise self.missing(data_dir, *[root / f for f in self.files])
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in archive.files}
        except (ValueError, OSError) as error:
            raise InputError(f"{path}: not a readable .npz ({error}): download it again") from error
        return self._assemble(path, arrays)

    def present(self, data_dir: Path) -> bool:
        return any((data_dir / f).is_file() for f in self.files) or super().present(data_dir)

    def _assemble(self, path: Path, arrays: dict[str, npt.NDArray[Any]]) -> TaskData:
        needed = [f"{part}_{what}" for part in ("train", "val", "test") for what in ("images", "labels")]
        absent = [key for key in needed if key not in arrays]
        if absent:
            raise self.wrong(path, f"no array {', '.join(absent)} (it has {', '.join(sorted(arrays))})")
        images = np.concatenate([arrays[f"{p}_images"] for p in ("train", "val", "test")])
        codes = np.concatenate([arrays[f"{p}_labels"].reshape(-1) for p in ("train", "val", "test")]).astype(int)
        if images.shape[1:] != (64, 64, 3) or images.dtype != np.uint8 or len(images) != len(codes):
            raise self.wrong(path, f"images {images.shape} {images.dtype} with {len(codes)} labels")
        sources = [arrays.get(f"{p}_source") for p in ("train", "val", "test")]
        groups = (
            None
            if any(s is None for s in sources)
            else as_labels(np.concatenate([s for s in sources if s is not None]))
        )
        test = np.arange(len(codes)) >= len(codes) - len(arrays["test_labels"])
        labels = as_labels([self.names[c] for c in codes])
        return TaskData(images, labels, "image", groups=groups, group_name="source image", test=test)


class PathMnist(_Npz):
    name = "pathmnist"
    official_items = 107_180
    title = "Pathology (PathMNIST)"
    type = "physical"
    folders = ("pathmnist", "PathMNIST", "medmnist")
    files = ("pathmnist_64.npz",)
    names = PATH_NAMES
    layout = "pathmnist_64.npz with {train,val,test}_{images,labels}, 64x64x3 uint8 (MedMNIST+)"
    source = "https://zenodo.org/records/6496656 (64x64: https://zenodo.org/records/10519652)"
    licence = "CC BY 4.0"
    checks = "array names, shape and type, labels 0 to 8"


class BloodCells(_Npz):
    name = "bloodcells"
    title = "Blood cells (BCCD)"
    type = "physical"
    folders = ("bloodcells",)
    files = ("bccd_64.npz",)
    names = ("red cell", "white cell", "platelet")
    layout = "bccd_64.npz in MedMNIST's form, with {train,val,test}_source"
    source = "https://github.com/Shenggan/BCCD_Dataset (64x64 windows around the boxes)"
    licence = "MIT"


class Cifake(Task):
    name = "cifake"
    official_items = 120_000
    title = "Fake detection (CIFAKE)"
    type = "physical"
    domain = "2-D"
    folders = ("cifake", "CIFAKE")
    layout = "{train,test}/{REAL,FAKE}/*.jpg, 32x32"
    source = "https://www.kaggle.com/datasets/birdy654/cifake-real-and-ai-generated-synthetic-images"
    licence = "CC BY 4.0 per the paper"
    checks = "both classes in both parts, 32x32 pixels"

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        paths: list[Path] = []
        labels: list[str] = []
        test: list[bool] = []
        for part in ("train", "test"):
            for label in ("REAL", "FAKE"):
                found = (
                    files_under(root / part / label, ".jpg", ".jpeg", ".png") if (root / part / label).is_dir() else []
                )
                if not found:
                    raise self.wrong(root / part / label, "no images here")
                paths += found
                labels += [label] * len(found)
                test += [part == "test"] * len(found)
        return TaskData(self._pixels(paths), as_labels(labels), "image", test=np.array(test))

    def _pixels(self, paths: list[Path]) -> npt.NDArray[np.uint8]:
        from PIL import Image, UnidentifiedImageError

        pixels = np.empty((len(paths), 32, 32, 3), dtype=np.uint8)
        for k, path in enumerate(paths):
            try:
                with Image.open(path) as image:
                    if image.size != (32, 32):
                        raise self.wrong(path, f"{image.size[0]}x{image.size[1]} pixels instead of 32x32")
                    pixels[k] = np.asarray(image.convert("RGB"))
            except (OSError, UnidentifiedImageError) as error:
                raise InputError(f"{path}: not a readable image ({error}): download it again") from error
        return pixels
