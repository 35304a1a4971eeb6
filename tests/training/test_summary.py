"""Summaries, publishing and ablations of small real runs."""

import json

import numpy as np
import pytest
import torch

from planformer.errors import ConfigError, InputError
from planformer.models.planformer import PlanFormer
from planformer.training import start
from planformer.training.ablation import parse_variants, run_ablation, shorten, table_rows, table_text
from planformer.training.publishing import publish, publish_decoder
from planformer.training.summary import summarise, summary_text
from planformer.training.trainer import Trainer
from training.conftest import tiny_recipe, tone_set


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("summary") / "run"
    recipe = tiny_recipe("checkpoint.keep_milestone_weights=true", "schedule.milestones=2")
    Trainer(recipe, tone_set(), tone_set(6, seed=1), out, show=False).run()
    return out


def test_summary_of_a_finished_run(run):
    summary = summarise(run)
    assert summary.finished and summary.steps == 4
    assert sum(summary.shares.values()) == pytest.approx(1)
    assert summary.best("probe")["accuracy"] > 0 and summary.best("compass") is None
    text = summary_text(summary)
    assert "step 4 of 4 (finished" in text and "samples/s" in text and "probe     ema" in text


def test_not_a_run_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"recipe\.yaml is missing"):
        summarise(tmp_path)


def test_publish_adds_where_the_weights_come_from(run, tmp_path):
    out = publish(run, tmp_path / "weights", which="last")
    model = PlanFormer.from_pretrained(out)
    provenance = model.provenance
    assert provenance["step"] == 4 and provenance["data"]["emitters"] == 5
    assert provenance["radio_probe"]["accuracy"] >= 0
    assert provenance["recipe"]["optimizer"]["learning_rate"] == 1e-3
    assert "folder" not in provenance["recipe"]["data"]
    assert provenance["radio_probe_at_start"] is not None


def continued(weights, out, *changes):
    recipe = tiny_recipe("schedule.milestones=2", f"networks.init_from={weights}", *changes)
    Trainer(recipe, tone_set(), tone_set(6, seed=1), out, show=False).run(max_steps=1)
    return out


def test_publish_lists_the_runs_that_were_continued_first_run_first(run, tmp_path):
    second = continued(run / "milestones" / "step-00000002-ema", tmp_path / "second", "seed=6")
    third = continued(second / "last", tmp_path / "third", "seed=7")
    provenance = PlanFormer.from_pretrained(publish(third, tmp_path / "weights", which="last")).provenance
    assert [(origin["recipe"]["seed"], origin["step"]) for origin in provenance["continues"]] == [(0, 2), (6, 1)]
    assert provenance["recipe"]["seed"] == 7
    began = json.loads((run / "milestones" / "step-00000002-ema" / "provenance.json").read_text())["sha256"]
    assert provenance["continues"][0]["sha256"]["model.safetensors"] == began["model.safetensors"]
    assert "init_from" not in json.dumps(provenance) and str(tmp_path) not in json.dumps(provenance)
    # published weights carry their past along, and a past that is gone is no error
    fourth = continued(tmp_path / "weights", tmp_path / "fourth", "seed=8")
    provenance = PlanFormer.from_pretrained(publish(fourth, tmp_path / "more", which="last")).provenance
    assert [origin["recipe"]["seed"] for origin in provenance["continues"]] == [0, 6, 7]
    assert all("continues" not in origin for origin in provenance["continues"])
    (tmp_path / "weights").rename(tmp_path / "elsewhere")
    assert "continues" not in PlanFormer.from_pretrained(publish(fourth, tmp_path / "less", which="last")).provenance


def test_publish_averages_several_runs(run, tmp_path):
    other = tmp_path / "other"
    recipe = tiny_recipe("schedule.milestones=2", "seed=5")
    Trainer(recipe, tone_set(), tone_set(6, seed=1), other, show=False).run()
    published = [PlanFormer.from_pretrained(publish(path, tmp_path / path.name, which="last")) for path in (run, other)]
    mean = PlanFormer.from_pretrained(publish([run, other], tmp_path / "mean", which="last"))
    one, two = (model.encoder.state_dict() for model in published)
    for name, value in mean.encoder.state_dict().items():
        torch.testing.assert_close(value, (one[name] + two[name]) / 2)
    assert [origin["recipe"]["seed"] for origin in mean.provenance["average_of"]] == [0, 5]
    alone = PlanFormer.from_pretrained(publish([run], tmp_path / "alone", which="last"))
    assert all(torch.equal(value, one[name]) for name, value in alone.encoder.state_dict().items())


def test_publish_averages_a_run_and_the_weights_it_began_from(run, tmp_path):
    """The run left the gate out and the weights have it; with the gate put back they are one network."""
    start = publish(run, tmp_path / "start", which="last")
    path = continued(start, tmp_path / "fast", "model.parseval_gate=false", "seed=6")
    end = PlanFormer.from_pretrained(publish(path, tmp_path / "end", which="last", gate=True)).encoder.state_dict()
    with pytest.raises(InputError, match="can't be averaged"):
        publish([path, start], tmp_path / "mean", which="last")
    mean = PlanFormer.from_pretrained(publish([path, start], tmp_path / "mean", which="last", gate=True))
    began = PlanFormer.from_pretrained(start).encoder.state_dict()
    for name, value in mean.encoder.state_dict().items():
        torch.testing.assert_close(value, (end[name] + began[name]) / 2)
    assert mean.config.parseval_gate
    first, second = mean.provenance["average_of"]
    assert first["recipe"]["seed"] == 6 and first["continues"][0]["recipe"]["seed"] == 0
    assert second["sha256"] == json.loads((start / "provenance.json").read_text())["sha256"]
    assert second["run"] == first["continues"][0]["run"] and "recipe" not in second, "a run is described once"


def test_other_networks_are_not_averaged(run, tmp_path):
    other = tmp_path / "other"
    recipe = tiny_recipe("schedule.milestones=2", "model.pooling=frequency")
    Trainer(recipe, tone_set(), tone_set(6, seed=1), other, show=False).run()
    with pytest.raises(InputError, match="can't be averaged"):
        publish([run, other], tmp_path / "mean", which="last")
    assert not (tmp_path / "mean").exists()


def test_publish_puts_the_gate_back_and_changes_nothing_else(tmp_path):
    path = tmp_path / "fast"
    Trainer(tiny_recipe("model.parseval_gate=false"), tone_set(), tone_set(6, seed=1), path, show=False).run(
        max_steps=1
    )
    fast = PlanFormer.from_pretrained(publish(path, tmp_path / "as-it-is", which="last"))
    whole = PlanFormer.from_pretrained(publish(path, tmp_path / "gate", which="last", gate=True))
    assert not fast.config.parseval_gate and whole.config.parseval_gate
    assert whole.config == fast.config.model_copy(update={"parseval_gate": True})
    assert all(map(torch.equal, fast.encoder.state_dict().values(), whole.encoder.state_dict().values()))
    assert whole.provenance["recipe"]["model"]["parseval_gate"] is False


def test_publish_adds_a_decoder_to_the_encoder_it_was_trained_behind(run, tmp_path):
    weights = publish(run, tmp_path / "weights", which="last")
    files = {name: (weights / name).read_bytes() for name in ("model.safetensors", "config.json")}
    past = PlanFormer.from_pretrained(weights).provenance
    behind = ("networks.decoder=compact", "networks.symmetry=false", "objective.perceptual_weight=0")
    decoding = (*behind, "objective.refined_weight=5", "optimizer.freeze=[encoder.*]", "seed=3")
    first = continued(weights, tmp_path / "first", *decoding)
    second = continued(first / "last", tmp_path / "second", *decoding)
    publish_decoder(second, weights, which="last")
    model = PlanFormer.from_pretrained(weights)
    assert model.denoise(np.sin(np.arange(3000) / 7)).n == 3000
    assert {name: (weights / name).read_bytes() for name in files} == files
    assert model.provenance["recipe"] == past["recipe"] and model.provenance["step"] == past["step"]
    added = model.provenance["decoder"]
    assert added["recipe"]["objective"]["refined_weight"] == 5
    assert len(added["continues"]) == 1, "the first run had a decoder, the encoder's own run none"
    with pytest.raises(InputError, match="has no decoder"):
        publish_decoder(run, weights, which="last")
    mean = publish([run, weights], tmp_path / "mean", which="last")  # a decoder belongs to one encoder
    assert sorted(path.name for path in mean.iterdir()) == ["config.json", "model.safetensors", "provenance.json"]
    assert "decoder" in PlanFormer.from_pretrained(weights).provenance
    assert all("decoder" not in origin for origin in PlanFormer.from_pretrained(mean).provenance["average_of"])
    other = publish(continued(weights, tmp_path / "other", "seed=9"), tmp_path / "others", which="last")
    with pytest.raises(InputError, match="another encoder"):
        publish_decoder(second, other, which="last")
    assert not (other / "decoder.safetensors").exists()


def test_publish_a_milestone_and_unknown_names(run, tmp_path):
    assert PlanFormer.from_pretrained(publish(run, tmp_path / "m", which="step-00000002-raw")).provenance["step"] == 2
    with pytest.raises(InputError, match="step-00000002-ema"):
        publish(run, tmp_path / "x", which="step-9")


def test_variants_and_their_mistakes():
    assert parse_variants(["a=1"])[1].changes == ("a=1",)
    with pytest.raises(ConfigError, match="--set"):
        parse_variants(["nonsense"])
    with pytest.raises(ConfigError, match="twice"):
        parse_variants(["a=1", "a=1"])


@pytest.mark.parametrize("steps", [1, 7, 12, 200])
def test_shortened_schedule_has_exactly_the_steps(steps):
    schedule = shorten(tiny_recipe(), steps)["schedule"]
    assert schedule["milestones"] * schedule["steps_per_milestone"] == steps


def test_table_has_mean_spread_and_difference():
    results = {"baseline": [{"radio": 10.0}, {"radio": 14.0}], "x": [{"radio": 20.0}, {"radio": 22.0}]}
    rows = table_rows(results)
    assert rows[1]["radio"] == {"mean": 21.0, "spread": pytest.approx(2**0.5), "difference": 9.0}
    assert "21.00 ± 1.41" in table_text(rows)


def test_ablation_runs_every_variant_and_keeps_finished_ones(tmp_path, monkeypatch):
    trained = []

    def pretrain(recipe, out, *, show):
        trained.append((recipe.model.pooling, recipe.seed))
        Trainer(recipe, tone_set(), tone_set(6, seed=1), out, show=False).run()

    monkeypatch.setattr(start, "pretrain", pretrain)
    options = {"steps": 2, "seeds": [0, 1], "show": False}
    changes = ["model.pooling=frequency", "optimizer.learning_rate=0.01"]
    rows = run_ablation(tiny_recipe(), changes, tmp_path, **options)
    assert trained == [("native", 0), ("native", 1), ("frequency", 0), ("frequency", 1), ("native", 0), ("native", 1)]
    # Another pooling starts elsewhere, another rate does not.
    names = ["untrained", "baseline", f"{changes[0]}, untrained", *changes]
    assert [row["variant"] for row in rows] == names
    assert json.loads((tmp_path / "ablation.json").read_text())["steps"] == 2
    run_ablation(tiny_recipe(), changes, tmp_path, **options)
    assert len(trained) == 6


def test_an_interrupted_ablation_says_how_to_go_on(tmp_path, monkeypatch):
    def pretrain(recipe, out, *, show):
        Trainer(recipe, tone_set(), tone_set(6, seed=1), out, show=False).run(max_steps=1)

    monkeypatch.setattr(start, "pretrain", pretrain)
    for _ in range(2):
        with pytest.raises(InputError, match=r"baseline-seed0: interrupted"):
            run_ablation(tiny_recipe(), [], tmp_path, steps=3, seeds=[0], show=False)
    assert run_ablation(tiny_recipe(), [], tmp_path, steps=3, seeds=[0], show=False)


def test_long_changes_that_begin_alike_are_different_runs(tmp_path, monkeypatch):
    """They once shared a folder, and the second was given the first one's result."""
    folders = []

    def pretrain(recipe, out, *, show):
        folders.append(out.name)
        Trainer(recipe, tone_set(), tone_set(6, seed=1), out, show=False).run()

    monkeypatch.setattr(start, "pretrain", pretrain)
    alike = "objective.reconstruction_time_weight=50.0 objective.reconstruction_frequency_weight=50.0 optimizer.eps="
    run_ablation(tiny_recipe(), [alike + "1e-7", alike + "1e-6"], tmp_path, steps=1, seeds=[0], show=False)
    assert len(folders) == len(set(folders)) == 3
    assert all(len(name) < 100 for name in folders)
    with pytest.raises(ConfigError, match="holds a run with another recipe"):
        run_ablation(tiny_recipe("optimizer.eps=1e-5"), [], tmp_path, steps=1, seeds=[0], show=False)


def test_wrong_change_is_found_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "pretrain", lambda *args, **kwargs: pytest.fail("trained"))
    with pytest.raises(ConfigError, match=r"unknown key model\.colour"):
        run_ablation(tiny_recipe(), ["model.colour=red"], tmp_path, steps=2, seeds=[0])
