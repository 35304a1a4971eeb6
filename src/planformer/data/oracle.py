"""ORACLE: 16 X310 radios sending the same WiFi frames at several distances (paper, Appendix E.1.1).

Distributed by the GENESYS lab (genesys-lab.org/oracle) as ``neu_m044q5210.zip`` with
``KRI-16Devices-RawData/<d>ft/WiFi_air_X310_<serial>_<d>ft_run<n>.sigmf-{meta,data}``; run 1 is the first collection.
Two traps: the metadata are SigMF 0.02 wrapped in ``_metadata``, and the samples may be float64 pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from planformer.data.conversion import RealRecording, decide_datatype, read_json
from planformer.data.emitters import ORACLE_SERIALS, oracle_name
from planformer.errors import InputError

TRAINING_FEET = (14, 26, 38, 50)
RATE = 5e6
_NAME = re.compile(r"WiFi_air_X310_(?P<serial>\w+?)_(?P<feet>\d+)ft_run(?P<run>\d+)\.sigmf-data")
_EXPECTED = "KRI-16Devices-RawData/<d>ft/WiFi_air_X310_<serial>_<d>ft_run<n>.sigmf-data"


def find_oracle(
    root: str | Path, feet: Iterable[int] = TRAINING_FEET, runs: Iterable[int] = (1,)
) -> list[RealRecording]:
    """The recordings of the given distances and runs below ``root`` (default: the paper's training subset).

    The archive may be unpacked at any depth; folder names (one is ``32ft-6db``) don't matter, file names do.
    """
    root, wanted_feet, wanted_runs = Path(root), set(feet), set(runs)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; unpack ORACLE there ({_EXPECTED})")
    found, others = [], 0
    for path in sorted(root.rglob("*.sigmf-data")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        if int(match["feet"]) in wanted_feet and int(match["run"]) in wanted_runs:
            found.append(_describe(path, match["serial"], int(match["feet"]), int(match["run"])))
        else:
            others += 1
    if not found:
        raise InputError(
            f"{root}: no ORACLE recordings of {sorted(wanted_feet)} ft, run {sorted(wanted_runs)} below it "
            f"({others} of other distances or runs); looked for {_EXPECTED}"
        )
    return found


def _describe(data: Path, serial: str, feet: int, run: int) -> RealRecording:
    if serial not in ORACLE_SERIALS:
        raise InputError(f"{data}: {serial} is none of ORACLE's 16 radios ({', '.join(ORACLE_SERIALS)})")
    meta = data.with_suffix(".sigmf-meta")
    document = read_json(meta)
    inner = document.get("_metadata", document)  # SigMF 0.02 as distributed wraps the whole document
    header = inner.get("global") if isinstance(inner, dict) else None
    if not isinstance(header, dict):
        raise InputError(f"{meta}: no 'global' metadata, neither at the top nor in '_metadata'")
    rate = header.get("core:sample_rate", RATE)
    if not isinstance(rate, int | float) or not abs(rate - RATE) <= 0.01 * RATE:
        raise InputError(f"{meta}: sample rate {rate!r}; ORACLE was recorded at 5 MHz")
    datatype, decision = decide_datatype(data, header.get("core:datatype"))
    labels = {
        "emitter": oracle_name(serial),
        "family": "X310",
        "collection": "oracle",
        "protocol": "WiFi",
        "day": run,
        "place": f"{feet}ft",
    }
    return RealRecording(data, datatype, decision, float(rate), labels)
