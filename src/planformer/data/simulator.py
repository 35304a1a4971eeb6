"""Writing simulated collections: how many recordings of what, in which files, resumable and byte-identical by seed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planformer.data.collections import CARRIERS, MADE_UP, MODULATIONS, Recording, render
from planformer.data.emitters import EMITTERS, HELD_OUT_RADIO, MAX_STATIONS, Emitter, made_up_stations
from planformer.data.labels import label_metadata
from planformer.data.resampling import TARGET_RATE
from planformer.data.seeding import generator
from planformer.errors import InputError

VERSION = 6  # of the simulator: a file written by another version is written anew
SEQUENCE = 5120
TYPICAL_SAMPLES = 32 * SEQUENCE  # of a recording: short, so that many channels are seen
DEFAULT_SAMPLES = 200_000_000
# Share of the samples. The one modulation emitter sends eleven modulations, so it gets more than its 1/39.
SHARES = {"oracle": 0.30, "powder": 0.16, "modulation": 0.24, "commodity": 0.18, "fm": 0.12}
EVALUATION_RECORDINGS = 10  # of each class of the held-out sets
EVALUATION_MODULATIONS = ("BPSK", "QPSK", "8PSK", "CPFSK", "GFSK", "PAM4", "16QAM", "64QAM")


def plan(collections: Sequence[str], samples: int, seed: int, *, made_up: bool = False) -> list[Recording]:
    """The recordings that make up ``samples`` samples (at least one recording of every emitter).

    ``made_up``: POWDER's stations send protocols that do not exist (:mod:`planformer.data.waveforms.made_up`).

    >>> recordings = plan(["oracle", "fm"], 10_000_000, seed=0)
    >>> len({recording.emitter.name for recording in recordings})
    22
    """
    unknown = [name for name in collections if name not in EMITTERS]
    if unknown:
        raise InputError(f"unknown collection {unknown[0]!r}; known: {', '.join(EMITTERS)}")
    total = sum(SHARES[name] for name in collections)
    result: list[Recording] = []
    for name in collections:
        result += _plan_collection(name, EMITTERS[name], int(samples * SHARES[name] / total), seed, made_up=made_up)
    return result


def plan_stations(count: int, samples: int, seed: int, *, made_up: bool = False) -> list[Recording]:
    """Recordings of ``count`` made-up base stations, planned as those of POWDER's four; ``made_up`` as there.

    >>> {recording.emitter.collection for recording in plan_stations(8, 2_000_000, seed=0)}
    {'stations'}
    """
    if not 2 <= count <= MAX_STATIONS:
        raise InputError(f"{count} stations: 2 to {MAX_STATIONS} can be told apart")
    return _plan_collection("stations", made_up_stations(count), samples, seed, made_up=made_up)


def _plan_collection(
    name: str, emitters: Sequence[Emitter], samples: int, seed: int, *, made_up: bool = False
) -> list[Recording]:
    setting = emitters[0].setting
    conditions = _conditions(setting)
    if made_up and setting == "powder":
        conditions = [(MADE_UP, day, place) for _, day, place in conditions]
    rounds = max(1, round(samples / TYPICAL_SAMPLES / len(emitters)))
    count = rounds * len(emitters)
    rng = generator(seed, "plan", name)
    weights = rng.uniform(0.7, 1.3, count)  # lengths differ, so that length is no label
    lengths = np.maximum(weights / weights.sum() * samples, 5 * SEQUENCE).astype(int)
    recordings = []
    for k in range(count):
        emitter, turn = emitters[k % len(emitters)], k // len(emitters)
        protocol, day, place = conditions[turn % len(conditions)]
        recordings.append(Recording(emitter, protocol, day, turn, int(lengths[k]), place))
    return recordings


def _conditions(name: str) -> list[tuple[str, int, str]]:
    """(protocol, day, place) in the order in which an emitter goes through them: the paper's training subset."""
    if name == "oracle":
        return [("WiFi", 1, f"{feet}ft") for feet in (14, 26, 38, 50)]
    if name == "powder":
        return [(protocol, 1, f"s{session}") for session in range(1, 6) for protocol in ("WiFi", "4G")]
    if name == "modulation":
        return [(modulation, 1, "") for modulation in MODULATIONS]
    if name == "commodity":
        return [("CPM", day, f"{feet}ft") for feet in (5, 10) for day in (1, 2)]
    return [("FM", day, "") for day in (1, 2, 3)]


def plan_evaluation(sequences: int = 20, recordings: int = EVALUATION_RECORDINGS) -> dict[str, list[Recording]]:
    """The held-out sets: modulations from another radio and day; POWDER's stations on day 2 with the unseen 5G.

    >>> sets = plan_evaluation()
    >>> sorted(sets), len(sets["modulation"])
    (['fingerprint', 'modulation'], 80)
    """
    length = sequences * SEQUENCE
    modulation = [
        Recording(HELD_OUT_RADIO, name, 2, k, length, held_out=True)
        for name in EVALUATION_MODULATIONS
        for k in range(recordings)
    ]
    fingerprint = [
        Recording(emitter, protocol, 2, k, length, f"s{k % 5 + 1}", held_out=True)
        for emitter in EMITTERS["powder"]
        for protocol in ("WiFi", "4G", "5G")
        for k in range(recordings)
    ]
    return {"modulation": modulation, "fingerprint": fingerprint}


def write_recordings(
    recordings: Sequence[Recording],
    folder: Path,
    seed: int,
    *,
    test: Callable[[Recording], bool] | None = None,
) -> Iterator[tuple[Recording, bool]]:
    """Write one after the other into ``folder``; yields each with whether it was new (False: already there).

    A recording counts as there when its metadata names this simulator version, seed and recording, and its data
    file has the full length; the metadata is written last, so an interrupted run leaves no half recording behind.
    """
    from planformer.signals.sigmf_files import write_sigmf

    for recording in recordings:
        target = folder / recording.emitter.collection / recording.name
        wanted = _metadata(recording, seed, None if test is None else test(recording))
        if _is_there(target, wanted, recording.samples):
            yield recording, False
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        samples, conditions = render(recording, seed)
        wanted["planformer:conditions"] = dataclasses.asdict(conditions)
        capture = {"core:sample_start": 0, "core:frequency": CARRIERS[recording.emitter.setting]}
        document = {"global": wanted, "captures": [capture]}
        write_sigmf(target, samples, TARGET_RATE, "ci16_le", document, scale=1.0)
        yield recording, True


def _metadata(recording: Recording, seed: int, test: bool | None) -> dict[str, Any]:
    emitter: Emitter = recording.emitter
    more: dict[str, Any] = {} if test is None else {"test": test}
    header = label_metadata(
        emitter=emitter.name,
        family=emitter.family,
        collection=emitter.collection,
        protocol=recording.protocol,
        day=recording.day,
        native_rate=recording.native_rate,
        simulator=VERSION,
        seed=seed,
        recording=recording.name,
        samples=recording.samples,
        fingerprint=dataclasses.asdict(emitter.fingerprint),
        **more,
    )
    return header | {"core:description": "simulated by planformer", "core:hw": f"simulated {emitter.family}"}


def _is_there(target: Path, wanted: dict[str, Any], samples: int) -> bool:
    meta, data = Path(f"{target}.sigmf-meta"), Path(f"{target}.sigmf-data")
    try:
        header = json.loads(meta.read_text())["global"]
        complete = data.stat().st_size == 4 * samples
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return complete and all(header.get(key) == value for key, value in wanted.items() if key != "core:extensions")
