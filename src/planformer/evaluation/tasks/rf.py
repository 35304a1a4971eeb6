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
POWDER_RATES = {"4G": 7.69e6, "5G": 7.69e6, "WiFi": 5e6}


class RfModulation(Task):
    """Eight modulations of a radio and a day that training has not seen.

    The paper's recordings are not public: `planformer simulate eval` writes a set of the same kind, and own recordings
    are read from a folder per modulation.
    """

    name = "rf-modulation"
    title = "Modulation recognition"
    type = "physical"
    domain = "1-D"
    folders = ("radio-eval/modulation", "rf-modulation")
    layout = "radio-eval/ as written by `planformer simulate eval`, or rf-modulation/<modulation>/*.sigmf-meta"
    source = "`planformer simulate eval --out DATA/radio-eval`"
    licence = "made by this package"
    checks = "at least two classes, whole 5,120-sample items, recordings never on both sides of the fixed split"
    per_recording = 60

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        if root.parent.name == "radio-eval":
            return simulated(root.parent, "modulation")
        metas = files_under(root, ".sigmf-meta")
        if not metas:
            raise self.missing(data_dir, root / "<modulation>/*.sigmf-meta")
        chunks, labels, groups = [], list[str](), list[str]()
        for meta in metas:
            found = read_chunks(meta, self.per_recording)
            chunks.append(found)
            labels += [meta.parent.name] * len(found)
            groups += [meta.stem] * len(found)
        return TaskData(np.concatenate(chunks), as_labels(labels), "iq", 7.69e6, as_labels(groups), "recording")


def simulated(folder: Path, name: str) -> TaskData:
    """A set of `planformer simulate eval`; the notes say that it is simulated."""
    from planformer.data.heldout import evaluation_sets

    part = evaluation_sets(folder)[name]
    labels = as_labels([part.classes[code] for code in part.labels])
    notes = ("simulated by this package: other radios, channels and days than the training recordings",)
    return TaskData(part.samples, labels, "iq", part.rate, as_labels(part.groups), "recording", part.test, notes=notes)


class Powder(Task):
    name = "powder"
    title = "Fingerprinting (POWDER)"
    type = "physical"
    domain = "1-D"
    folders = ("GlobecomPOWDER", "powder", "POWDER", "radio-eval/fingerprint")
    layout = "{4G,5G,Wifi}_Day_{1,2}_{bes,browning,honors,meb}_s{1..5}.bin (complex64) with a .json of the same name"
    source = "https://genesys-lab.org/powder"
    licence = "research use, by its authors"
    checks = (
        "names, datatype cf32, whole samples, finite values; Day 2 is used, set 5 of each recording is the test part"
    )
    per_recording = 50

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        if root.name == "fingerprint":
            return simulated(root.parent, "fingerprint")
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


def read_chunks(meta: Path, count: int) -> npt.NDArray[np.complex64]:
    """Evenly spaced 5,120-sample items of a SigMF recording at 7.69 MHz."""
    from planformer import signals

    signal = signals.read(meta)
    return even_chunks(signal.samples[0], count, signal.rate, meta)


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
