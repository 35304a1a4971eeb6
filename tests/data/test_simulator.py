"""What is written: the paper's table, byte-identical, resumable, free of trivial labels."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from planformer.data import simulator
from planformer.data.collections import MADE_UP, Recording, render
from planformer.data.emitters import EMITTERS, HELD_OUT_RADIO, made_up_stations
from planformer.data.recordings import RecordingSet
from planformer.data.simulator import SHARES, plan, plan_evaluation, plan_stations, write_recordings
from planformer.errors import InputError


def hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_papers_table() -> None:
    assert {name: len(emitters) for name, emitters in EMITTERS.items()} == {
        "oracle": 16, "powder": 4, "modulation": 1, "commodity": 12, "fm": 6
    }  # fmt: skip
    names = [emitter.name for emitters in EMITTERS.values() for emitter in emitters]
    assert len(set(names)) == 39
    assert HELD_OUT_RADIO.name not in names
    families = {emitter.family for emitter in EMITTERS["commodity"]}
    assert families == {"B210", "HackRF", "UBX160", "PlutoSDR"}


def test_training_never_plans_what_is_held_out() -> None:
    recordings = plan(list(SHARES), 100_000_000, seed=0)
    assert {r.place for r in recordings if r.emitter.collection == "oracle"} == {"14ft", "26ft", "38ft", "50ft"}
    powder = {(r.protocol, r.day) for r in recordings if r.emitter.collection == "powder"}
    assert powder == {("WiFi", 1), ("4G", 1)}
    assert len({r.protocol for r in recordings if r.emitter.collection == "modulation"}) == 11
    evaluation = plan_evaluation()
    assert {r.emitter.name for r in evaluation["modulation"]} == {HELD_OUT_RADIO.name}
    assert len({r.protocol for r in evaluation["modulation"]}) == 8
    assert {(r.protocol, r.day) for r in evaluation["fingerprint"]} == {("WiFi", 2), ("4G", 2), ("5G", 2)}


@pytest.mark.parametrize("samples", [1, 3_000_000, 200_000_000])
def test_plan_reaches_the_size_and_every_emitter(samples: int) -> None:
    recordings = plan(list(SHARES), samples, seed=0)
    assert len({r.emitter.name for r in recordings}) == 39
    assert len({r.name for r in recordings}) == len(recordings)
    total = sum(r.samples for r in recordings)
    assert total == pytest.approx(max(samples, 39 * 25_600), rel=0.02 if samples > 10**7 else 0.5)


def test_unknown_collection_is_an_error() -> None:
    with pytest.raises(InputError, match=r"unknown collection 'orcale'.*oracle"):
        plan(["orcale"], 100, 0)


def test_byte_identical_in_any_order_and_different_by_seed(tmp_path: Path) -> None:
    recordings = plan(list(SHARES), 1, seed=0)[::5]
    list(write_recordings(recordings, tmp_path / "a", 0))
    list(write_recordings(recordings[::-1], tmp_path / "b", 0))
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    list(write_recordings(recordings[:2], tmp_path / "c", 1))
    assert hashes(tmp_path / "c").items().isdisjoint(hashes(tmp_path / "a").items())


def test_interrupted_run_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = plan(["fm"], 1, seed=0)
    list(write_recordings(recordings, tmp_path / "whole", 0))
    run = write_recordings(recordings, tmp_path / "parts", 0)
    for _ in range(2):
        next(run)
    run.close()
    half = tmp_path / "parts" / "fm" / f"{recordings[1].name}.sigmf-data"
    half.write_bytes(half.read_bytes()[:1000])  # as if the disk had been full
    rendered: list[str] = []

    def counting(recording: Recording, seed: int) -> object:
        rendered.append(recording.name)
        return render(recording, seed)

    monkeypatch.setattr(simulator, "render", counting)
    assert [new for _, new in write_recordings(recordings, tmp_path / "parts", 0)] == [False] + [True] * 5
    assert len(rendered) == 5
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")


def test_another_simulator_version_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = plan(["fm"], 1, seed=0)[:1]
    list(write_recordings(recordings, tmp_path, 0))
    monkeypatch.setattr(simulator, "VERSION", simulator.VERSION + 1)
    assert [new for _, new in write_recordings(recordings, tmp_path, 0)] == [True]


def test_metadata_is_valid_sigmf_with_the_label(tmp_path: Path) -> None:
    import sigmf

    recording = plan(["powder"], 1, seed=0)[0]
    list(write_recordings([recording], tmp_path, 0))
    path = next(tmp_path.rglob("*.sigmf-meta"))
    sigmf.sigmffile.fromfile(str(path)).validate()
    header = json.loads(path.read_text())["global"]
    assert header["core:datatype"] == "ci16_le"
    assert header["core:sample_rate"] == 7.69e6
    assert header["planformer:emitter"] == "powder-bes"
    assert {f"planformer:{key}" for key in ("family", "collection", "protocol", "day", "fingerprint")} <= set(header)
    assert "planformer" in [extension["name"] for extension in header["core:extensions"]]


def test_native_rates_are_the_papers() -> None:
    rates = {name: Recording(emitters[0], "4G", 1, 0, 1).native_rate for name, emitters in EMITTERS.items()}
    assert rates == {"oracle": 5e6, "powder": 7.69e6, "modulation": 30.72e6, "commodity": 10e6, "fm": 2e5}
    assert Recording(EMITTERS["powder"][0], "WiFi", 1, 0, 1).native_rate == 5e6


def test_same_radio_other_day_is_another_channel_but_the_same_hardware() -> None:
    emitter = EMITTERS["powder"][0]
    first, second = (render(Recording(emitter, "4G", day, 0, 6000), 0) for day in (1, 2))
    assert first[1].link != second[1].link
    assert first[1].receiver.offset_hz != second[1].receiver.offset_hz
    assert abs(first[1].temperature_ppm - second[1].temperature_ppm) > 0


def test_a_made_up_station_is_another_radio_of_powders_product() -> None:
    """Everything but the hardware is POWDER's: waveforms, rates, carrier, channels, the receiver of the day."""
    made_up = made_up_stations(40)
    powder = EMITTERS["powder"][0]
    assert len({station.fingerprint for station in (*made_up, *EMITTERS["powder"])}) == 44
    planned = plan_stations(40, 80 * 32 * 5120, seed=3)
    assert {recording.protocol for recording in planned} == {"WiFi", "4G"} and {r.day for r in planned} == {1}
    ours, theirs = Recording(made_up[0], "WiFi", 1, 0, 6000), Recording(powder, "WiFi", 1, 0, 6000)
    assert ours.native_rate == theirs.native_rate
    here, there = (render(recording, 0)[1] for recording in (ours, theirs))
    assert here.receiver.iq_phase_deg == there.receiver.iq_phase_deg, "one receiver a day"
    assert here.link.profile in {"pedestrian", "vehicular", "urban"}
    own, other = (render(ours, 0, fingerprint=emitter.fingerprint)[0] for emitter in (made_up[0], powder))
    assert np.abs(own - other).max() > 1e-3, "the hardware makes a difference"


def test_made_up_protocols_are_sent_by_base_stations_where_they_are_asked_for() -> None:
    """They take the place of WiFi and 4G, place by place; no other collection knows them, nor do the held-out sets."""
    usual, made_up = plan_stations(8, 8_000_000, seed=0), plan_stations(8, 8_000_000, seed=0, made_up=True)
    assert {recording.protocol for recording in made_up} == {MADE_UP}
    assert [(r.emitter, r.day, r.place, r.samples) for r in made_up] == [
        (r.emitter, r.day, r.place, r.samples) for r in usual
    ]
    both = plan(["oracle", "powder"], 20_000_000, seed=0, made_up=True)
    assert {(r.emitter.collection, r.protocol) for r in both} == {("oracle", "WiFi"), ("powder", MADE_UP)}
    assert MADE_UP not in {r.protocol for part in plan_evaluation().values() for r in part}
    first, again = (render(made_up[0], 0)[0] for _ in range(2))
    assert np.array_equal(first, again) and first.shape == (made_up[0].samples,)


def test_trivial_features_do_not_identify_emitters(tmp_path: Path) -> None:
    """Power, DC, length, peak alone, with whole recordings held out: near chance for 16 radios."""
    recordings = [Recording(e, "WiFi", 1, k, 6 * 5120, "14ft") for e in EMITTERS["oracle"] for k in range(6)]
    list(write_recordings(recordings, tmp_path, 11))
    data = RecordingSet.from_folder(tmp_path)
    x = data.sequences(np.arange(len(data)))
    unit = x / np.sqrt(np.mean(np.abs(x) ** 2, axis=1, keepdims=True))
    mean = unit.mean(1)
    features = {
        "power": np.log(np.mean(np.abs(x) ** 2, 1))[:, None],
        "dc": np.stack([mean.real, mean.imag, np.log(np.abs(mean))], 1),
        "peak": np.stack([np.abs(unit).max(1), np.mean(np.abs(unit) ** 4, 1)], 1),
    }
    for name, values in features.items():
        probe = make_pipeline(StandardScaler(), SVC())
        scores = cross_val_score(probe, values, data.labels, groups=data.recordings, cv=GroupKFold(3))
        assert scores.mean() < 0.16, name  # chance is 0.0625


def test_lengths_do_not_identify_emitters() -> None:
    recordings = plan(["oracle"], 40_000_000, seed=0)
    lengths = {e.name: [r.samples for r in recordings if r.emitter == e] for e in EMITTERS["oracle"]}
    between = np.std([np.mean(v) for v in lengths.values()])
    within = np.mean([np.std(v) for v in lengths.values()])
    assert between < within
    assert all(len(set(v)) == len(v) for v in lengths.values())
