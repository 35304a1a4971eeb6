"""The loop: exact resume, selection, and every way to stop."""

import json
import os
import signal

import pytest
import torch

from planformer.errors import ConfigError, InputError, WeightsError
from planformer.models.planformer import PlanFormer
from planformer.training.checkpoint import list_checkpoints
from planformer.training.metrics import read_metrics
from planformer.training.run_folder import open_run
from planformer.training.trainer import Trainer
from planformer.training.watch import TrainingStopped
from training.conftest import tiny_recipe, tone_set


def losses(folder) -> list[float]:
    return [record["loss"] for record in read_metrics(folder / "metrics.jsonl", "step")]


def train(out, *changes, max_steps=None, data=None):
    trainer = Trainer(tiny_recipe(*changes), data or tone_set(), tone_set(6, seed=1), out, show=False)
    trainer.run(max_steps=max_steps)
    return trainer


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    return train(out), out


def test_run_folder_is_complete(finished):
    trainer, out = finished
    assert len(losses(out)) == trainer.step == 6
    for name in ("recipe.yaml", "run.json", "metrics.jsonl", "best/model.safetensors", "last/model.safetensors"):
        assert (out / name).is_file(), name
    info = json.loads((out / "run.json").read_text())
    assert info["seed"] == 0 and info["torch"] == torch.__version__ and info["data"]["emitters"] == 5
    assert [r["step"] for r in read_metrics(out / "metrics.jsonl", "probe")] == [0, 0, 2, 2, 4, 4, 6, 6]


def test_shipped_weights_load(finished):
    trainer, out = finished
    model = PlanFormer.from_pretrained(out / "last")
    for name, value in trainer.trainee.chosen_encoder(ema=True).state_dict().items():
        assert torch.equal(value, model.encoder.state_dict()[name])
    assert model.provenance["step"] == 6 and model.provenance["weights"] == "ema"


def test_best_is_the_highest_probe(finished):
    trainer, out = finished
    scores = [r["accuracy"] for r in read_metrics(out / "metrics.jsonl", "probe")]
    assert trainer.milestones.best["accuracy"] == max(scores)
    assert PlanFormer.from_pretrained(out / "best").provenance["step"] == trainer.milestones.best["step"]


def test_resumed_run_is_bit_identical(finished, out):
    whole, whole_out = finished
    for _ in range(6):
        last = train(out, max_steps=1)
    assert losses(out) == losses(whole_out)
    for name, value in whole.trainee.state_dict().items():
        assert torch.equal(value, last.trainee.state_dict()[name]), name


def test_steps_after_the_last_checkpoint_are_repeated_not_doubled(finished, out):
    """What a killed process had logged beyond its last checkpoint appears once."""
    _, whole_out = finished
    train(out, max_steps=3)
    with (out / "metrics.jsonl").open("a") as stream:
        stream.write(json.dumps({"kind": "step", "step": 4, "loss": 1.0}) + "\n" + '{"kind": "st')
    train(out)
    assert losses(out) == losses(whole_out)


def test_gradient_accumulation_updates_every_second_batch(out):
    trainer = train(out, "optimizer.accumulate=2", max_steps=4)
    norms = [r["gradient_norm"] for r in read_metrics(out / "metrics.jsonl", "step")]
    assert [norm > 0 for norm in norms] == [False, True, False, True]
    assert trainer.trainee.ema_updates == 2


def test_clipping_limits_the_update_not_the_record(out):
    train(out, "optimizer.clip_norm=1e-6", "optimizer.name=adamw", max_steps=1)
    assert next(read_metrics(out / "metrics.jsonl", "step"))["gradient_norm"] > 1e-3


def test_decoder_and_separation_run(out):
    trainer = train(out, "networks.decoder=compact", "separation.share=0.5", "probe.pictures_every_milestones=3")
    kinds = list(read_metrics(out / "metrics.jsonl", "step"))
    assert "separation/token" in kinds[1] and "separation/token" not in kinds[0]
    assert "reconstruction/reconstruction_time" in kinds[0]
    assert sorted(path.stem for path in (out / "plots").glob("reconstruction-*.png"))
    assert (out / "last" / "decoder.safetensors").is_file() and (out / "last" / "separation.safetensors").is_file()
    assert trainer.step == 6


def test_bfloat16_autocast_runs(out):
    train(out, "networks.precision=bfloat16", max_steps=2)
    assert all(abs(value) < 1e6 for value in losses(out))


def test_sigterm_saves_and_leaves(out):
    trainer = Trainer(tiny_recipe(), tone_set(), None, out, show=False)
    train_one = trainer._train

    def interrupted(batch):
        if batch.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_one(batch)

    trainer._train = interrupted
    trainer.run()
    assert trainer.step == 3
    assert [path.name for path in list_checkpoints(out / "checkpoints")] == ["step-00000003"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_nan_stops_with_the_reason_and_keeps_the_checkpoint(out):
    train(out, max_steps=2)
    trainer = Trainer(tiny_recipe(), tone_set(), None, out, show=False)
    forward = trainer.trainee.forward

    def broken(batch):
        output = forward(batch)
        if batch.step == 3:
            output.total = output.total * float("nan")
            output.terms["led/input"] = output.total.detach()
        return output

    trainer.trainee.forward = broken
    with pytest.raises(TrainingStopped, match=r"step 3: led/input is not finite"):
        trainer.run()
    assert [path.name for path in list_checkpoints(out / "checkpoints")] == ["step-00000002"]


def test_tolerated_nan_skips_the_update(out):
    trainer = Trainer(tiny_recipe("monitor.max_skipped=1"), tone_set(), None, out, show=False)
    forward = trainer.trainee.forward

    def broken(batch):
        output = forward(batch)
        output.total = output.total * (float("nan") if batch.step == 1 else 1.0)
        return output

    trainer.trainee.forward = broken
    trainer.run(max_steps=3)
    assert trainer.watch.skipped == 1
    assert all(torch.isfinite(p).all() for p in trainer.trainee.parameters())


def test_collapse_stops_with_the_reason(out):
    trainer = Trainer(tiny_recipe("monitor.min_effective_rank=1.5"), tone_set(), tone_set(6, seed=1), out, show=False)
    with torch.no_grad():
        trainer.trainee.encoder.latent_fusion.requires_grad_(False)
        for parameter in trainer.trainee.encoder.parameters():
            parameter.zero_()
    with pytest.raises(TrainingStopped, match="collapsed"):
        trainer.run()


def test_full_disk_during_a_run_warns_and_goes_on(out, monkeypatch, capsys):
    from planformer.training import trainer as module

    calls = []
    original = module.save_checkpoint

    def failing(*args, **kwargs):
        calls.append(args[1])
        if len(calls) == 1:
            raise InputError("checkpoints: can't write a checkpoint (the disk is full); the previous one is kept")
        return original(*args, **kwargs)

    monkeypatch.setattr(module, "save_checkpoint", failing)
    trainer = Trainer(tiny_recipe("checkpoint.every_steps=2"), tone_set(), None, out)
    trainer.run()
    assert trainer.step == 6 and calls == [2, 4, 6, 6]
    assert "disk is full" in capsys.readouterr().err


def test_too_little_space_is_found_before_the_first_step(out):
    with pytest.raises(InputError, match="MB free"):
        open_run(out, tiny_recipe(), needed_bytes=10**18)


def test_another_recipe_in_the_same_folder_is_refused(out):
    train(out, max_steps=1)
    with pytest.raises(ConfigError, match=r"optimizer\.learning_rate"):
        train(out, "optimizer.learning_rate=1e-5")
    with pytest.raises(ConfigError, match=r"model\.noise_sink"):
        train(out, "model.noise_sink=false")
    train(out, "checkpoint.every_minutes=3", max_steps=1)  # how often to save is free to change


def test_checkpoint_of_another_architecture_is_refused(out, tmp_path):
    train(out, max_steps=1)
    other = tmp_path / "other"
    train(other, "model.pooling=frequency", max_steps=1)
    (out / "checkpoints").rename(tmp_path / "away")
    (other / "checkpoints").rename(out / "checkpoints")
    with pytest.raises(WeightsError, match="another architecture"):
        train(out)


def test_unwritable_place_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file"):
        train(tmp_path / "file" / "run", max_steps=1)


LIKENESS = ("scenes.size=2", "extra.likeness_weight=1", "extra.descriptors_branch=clean")


@pytest.mark.parametrize("changes", [("extra.emitters_weight=1",), LIKENESS], ids=["head", "likeness"])
def test_more_emitters_than_there_is_room_for_are_an_error_before_anything_is_written(changes, data, out):
    recipe = tiny_recipe(*changes, "extra.emitters_count=4")
    with pytest.raises(ConfigError, match="emitters_count=4: the recordings have 5 emitters"):
        Trainer(recipe, data, None, out, show=False)
    assert not out.exists()
