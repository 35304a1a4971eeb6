"""Checkpoints are complete or absent, and only the right ones are read."""

import errno
import json

import pytest
import torch

from planformer.errors import InputError, WeightsError
from planformer.training import checkpoint
from planformer.training.checkpoint import list_checkpoints, load_latest, remove_leftovers, save_checkpoint

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3)}


def save(folder, step, **options):
    state = {"optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": []}, "n": step}
    return save_checkpoint(folder, step, TENSORS, state, architecture="x", **options)


def test_round_trip_without_pickle(tmp_path):
    save(tmp_path, 7)
    found = load_latest(tmp_path, architecture="x")
    assert found is not None and found.step == 7 and found.state["n"] == 7
    assert torch.equal(found.tensors["a"], TENSORS["a"])
    assert torch.equal(found.state["optimizer"]["state"][0]["exp_avg"], torch.ones(3))


def test_rotation_keeps_the_newest(tmp_path):
    for step in (1, 2, 3, 10):
        save(tmp_path, step, keep=2)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000003", "step-00000010"]


def test_nothing_there_is_none(tmp_path):
    assert load_latest(tmp_path / "no", architecture="x") is None


@pytest.mark.parametrize("damage", ["truncate", "delete", "manifest"])
def test_damaged_one_is_skipped_for_the_previous(tmp_path, damage):
    save(tmp_path, 1)
    newest = save(tmp_path, 2)
    if damage == "truncate":
        file = newest / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-3])
    elif damage == "delete":
        (newest / "state.pt").unlink()
    else:
        (newest / "manifest.json").write_text("{")
    found = load_latest(tmp_path, architecture="x")
    assert found is not None and found.step == 1


def test_all_damaged_is_an_error_not_a_fresh_start(tmp_path):
    path = save(tmp_path, 1)
    (path / "state.pt").write_bytes(b"")
    with pytest.raises(WeightsError, match="no intact checkpoint"):
        load_latest(tmp_path, architecture="x")


def test_other_architecture_is_refused(tmp_path):
    save(tmp_path, 1)
    with pytest.raises(WeightsError, match="another architecture"):
        load_latest(tmp_path, architecture="y")


def test_killed_while_writing_leaves_the_previous(tmp_path):
    save(tmp_path, 1)
    half = tmp_path / ".writing-step-00000002-99"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    found = load_latest(tmp_path, architecture="x")
    assert found is not None and found.step == 1
    remove_leftovers(tmp_path)
    assert not half.exists()


def test_full_disk_keeps_the_previous_and_says_so(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint.torch, "save", full)
    with pytest.raises(InputError, match="disk is full"):
        save(tmp_path, 2)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_same_step_can_be_written_again(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 1)
    assert json.loads((tmp_path / "step-00000001" / "manifest.json").read_text())["step"] == 1
