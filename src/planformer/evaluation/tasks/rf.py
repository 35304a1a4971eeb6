"""Radio tasks (Appendix "RF Tasks"): modulation recognition and POWDER base-station fingerprinting."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planformer.errors import InputError
from planformer.evaluation.tasks.base import Task, TaskData, as_labels, files_under

SEGMENT = 5120
MODULATIONS = ("BPSK", "QPSK", "8PSK", "CPFSK", "GFSK", "PAM4", "16QAM", "64QAM")
POWDER_RATES = {"4G": 7.69e6, "5G": 7.69e6, "WiFi": 5e6}


class RfModulation(Task):
    """Eight modulations of a radio and a day that training has not seen.

    The paper's recordings are not public; `planformer simulate` writes a set of the same kind.
    """

    name = "rf-modulation"
    title = "Modulation recognition"
    type = "physical"
    domain = "1-D"
    folders = ("rf-modulation", "modulation", "eval/modulation")
    layout = "SigMF recordings with a modulation in their metadata, or <modulation>/*.sigmf-meta"
    source = "`planformer simulate eval --out DIR`"
    licence = "made by this package"
    checks = "eight classes, 5,120-sample items cut at even distances"
    per_recording = 60

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        metas = files_under(root, ".sigmf-meta")
        if not metas:
            raise self.missing(data_dir, root / "*.sigmf-meta")
        chunks, labels, groups, test = [], list[str](), list[str](), list[bool]()
        for meta in metas:
            found, settings = read_chunks(meta, self.per_recording)
            label = _find(settings, "modulation") or meta.parent.name
            chunks.append(found)
            labels += [str(label)] * len(found)
            groups += [meta.stem] * len(found)
            test += [str(_find(settings, "split") or "") == "test"] * len(found)
        flags = np.array(test)
        fixed = flags if flags.any() and not flags.all() else None
        return TaskData(np.concatenate(chunks), as_labels(labels), "iq", 7.69e6, as_labels(groups), "recording", fixed)


class Powder(Task):
    name = "powder"
    title = "Fingerprinting (POWDER)"
    type = "physical"
    domain = "1-D"
    folders = ("GlobecomPOWDER", "powder", "POWDER")
    layout = "{4G,5G,Wifi}_Day_{1,2}_{bes,browning,honors,meb}_s{1..5}.bin (complex64) with a .json of the same name"
    source = "https://genesys-lab.org/powder"
    licence = "research use, by its authors"
    checks = (
        "names, datatype cf32, whole samples, finite values; Day 2 is used, set 5 of each recording is the test part"
    )
    per_recording = 50

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        pattern = re.compile(r"(4G|5G|WiFi)_Day_([12])_([a-z]+)_s(\d)", re.IGNORECASE)
        chunks, labels, groups, test = [], list[str](), list[str](), list[bool]()
        for path in files_under(root, ".bin"):
            match = pattern.fullmatch(path.stem)
            if match is None:
                raise self.wrong(path, "unexpected file name")
            protocol, day, station, part = match.groups()
            if day != "2":
                continue  # Day 1 is training data
            found = self._chunks(path, POWDER_RATES["WiFi" if protocol.lower() == "wifi" else protocol.upper()])
            chunks.append(found)
            labels += [station] * len(found)
            groups += [path.stem] * len(found)
            test += [part == "5"] * len(found)
        if not chunks:
            raise self.missing(data_dir, root / "5G_Day_2_<station>_s<n>.bin")
        fixed = np.array(test) if any(test) else None
        return TaskData(np.concatenate(chunks), as_labels(labels), "iq", 7.69e6, as_labels(groups), "recording", fixed)

    def _chunks(self, path: Path, rate: float) -> npt.NDArray[np.complex64]:
        beside = path.with_suffix(".json")
        if beside.is_file():
            datatype = json.loads(beside.read_text()).get("global", {}).get("core:datatype", "cf32")
            if not str(datatype).startswith("cf32"):
                raise self.wrong(path, f"datatype {datatype} instead of cf32")
        if path.stat().st_size % 8:
            raise self.wrong(path, f"{path.stat().st_size} bytes are not whole complex64 samples")
        samples = np.memmap(path, np.complex64, mode="r")
        return even_chunks(samples, self.per_recording, rate, path)


def read_chunks(meta: Path, count: int) -> tuple[npt.NDArray[np.complex64], dict[str, Any]]:
    """Evenly spaced 5,120-sample items of a SigMF recording at 7.69 MHz, and its metadata."""
    from planformer import signals

    try:
        settings = json.loads(meta.read_text())
    except json.JSONDecodeError as error:
        raise InputError(f"{meta}: not valid JSON ({error})") from error
    signal = signals.read(meta)
    return even_chunks(signal.samples[0], count, signal.rate, meta), settings


def even_chunks(samples: npt.NDArray[Any], count: int, rate: float, path: Path) -> npt.NDArray[np.complex64]:
    """``count`` items at even distances, brought to 7.69 MHz, each of 5,120 samples."""
    from planformer.signals import resample_rate

    span = int(np.ceil(SEGMENT * rate / 7.69e6)) + (0 if rate == 7.69e6 else 64)
    if len(samples) < span:
        raise InputError(f"{path}: {len(samples)} samples are fewer than one item of {span}: the file is cut short")
    count = min(count, len(samples) // span)
    starts = np.linspace(0, len(samples) - span, count).astype(int)
    cut = np.stack([samples[s : s + span] for s in starts]).astype(np.complex64)
    if not np.isfinite(cut).all():
        raise InputError(f"{path}: samples are NaN or infinite: the datatype may be wrong, or the file is damaged")
    if rate != 7.69e6:
        margin = 16  # the filter's edge
        cut = np.asarray(resample_rate(cut, rate, 7.69e6), np.complex64)[:, margin : margin + SEGMENT]
    return cut[:, :SEGMENT]


def _find(tree: Any, key: str) -> Any:
    """The first value whose key ends with ``key`` (namespaces such as "core:" or "planformer:" ignored)."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name.split(":")[-1] == key and not isinstance(value, dict | list):
                return value
        children = list(tree.values())
    else:
        children = tree if isinstance(tree, list) else []
    return next((found for child in children if (found := _find(child, key)) is not None), None)
