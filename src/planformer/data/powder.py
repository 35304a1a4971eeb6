"""POWDER: four base stations sending WiFi, 4G and 5G on two days (paper, Appendix E.1.2).

Distributed by the GENESYS lab (genesys-lab.org/powder) as
``GlobecomPOWDER/{4G,5G,Wifi}_Day_{1,2}_{bes,browning,honors,meb}_s{1..5}.bin`` with a ``.json`` beside each.
Training uses WiFi and 4G of day 1 under one label per station; 5G and day 2 are held out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from planformer.data.conversion import RealRecording, decide_datatype, read_json
from planformer.data.emitters import POWDER_STATIONS, powder_name
from planformer.data.resampling import TARGET_RATE
from planformer.errors import InputError

_NAME = re.compile(
    r"(?P<protocol>4G|5G|WiFi)_Day_(?P<day>[12])_(?P<station>[a-z]+)_s(?P<session>\d+)\.bin", re.IGNORECASE
)
_EXPECTED = "GlobecomPOWDER/{4G,5G,Wifi}_Day_{1,2}_{bes,browning,honors,meb}_s{1..5}.bin"
_PROTOCOLS = {"4g": "4G", "5g": "5G", "wifi": "WiFi"}
RATES = {"WiFi": 5e6, "4G": TARGET_RATE, "5G": TARGET_RATE}

Subset = Literal["train", "held out", "day 2", "all"]


def in_subset(subset: Subset, protocol: str, day: int) -> bool:
    """Whether a recording belongs to the paper's training subset, to what it holds out, or to its test day.

    >>> in_subset("train", "4G", 1), in_subset("train", "5G", 1), in_subset("day 2", "5G", 2)
    (True, False, True)
    """
    training = day == 1 and protocol != "5G"
    return {"train": training, "held out": not training, "day 2": day == 2, "all": True}[subset]


def find_powder(root: str | Path, subset: Subset = "train") -> list[RealRecording]:
    """The recordings of a subset below ``root``."""
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; unpack POWDER there ({_EXPECTED})")
    found, others = [], 0
    for path in sorted(root.rglob("*.bin")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        protocol, day = _PROTOCOLS[match["protocol"].lower()], int(match["day"])
        if in_subset(subset, protocol, day):
            found.append(_describe(path, protocol, day, match["station"].lower(), int(match["session"])))
        else:
            others += 1
    if not found:
        raise InputError(f"{root}: no POWDER recordings of subset {subset!r} ({others} others); looked for {_EXPECTED}")
    return found


def _describe(data: Path, protocol: str, day: int, station: str, session: int) -> RealRecording:
    if station not in POWDER_STATIONS:
        raise InputError(f"{data}: {station} is none of POWDER's stations ({', '.join(POWDER_STATIONS)})")
    meta = data.with_suffix(".json")
    document = read_json(meta)
    header = document.get("global", document.get("_metadata", {}).get("global"))
    if not isinstance(header, dict):
        raise InputError(f"{meta}: no 'global' metadata")
    rate = header.get("core:sample_rate", RATES[protocol])
    if not isinstance(rate, int | float) or not abs(rate - RATES[protocol]) <= 0.01 * RATES[protocol]:
        raise InputError(f"{meta}: sample rate {rate!r}; {protocol} was recorded at {RATES[protocol] / 1e6} MHz")
    named = _transmitter(document.get("annotations"))
    if named is not None and station not in named.lower():
        raise InputError(f"{meta}: names the transmitter {named!r}, the file name says {station}; which is right?")
    datatype, decision = decide_datatype(data, header.get("core:datatype"))
    labels = {
        "emitter": powder_name(station),
        "family": "X310-rooftop",
        "collection": "powder",
        "protocol": protocol,
        "day": day,
        "place": f"s{session}",
    }
    # 7.68 and 7.69 MHz are both written for the LTE rate: the paper calls it 7.69 and does not resample
    return RealRecording(data, datatype, decision, 5e6 if protocol == "WiFi" else TARGET_RATE, labels)


def _transmitter(annotations: Any) -> str | None:
    """The transmitter's name, if the annotations (a dictionary here, a list in SigMF) give one."""
    entries = annotations if isinstance(annotations, list) else [annotations]
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        for key, value in entry.items():
            text = value.get("core:location", value.get("name")) if isinstance(value, dict) else value
            if "transmitter" in key.lower() and isinstance(text, str):
                hits = [station for station in POWDER_STATIONS if station in text.lower()]
                if hits:
                    return text
    return None
