"""Recipes are deltas over typed defaults, and nothing wrong in them gets through."""

from pathlib import Path

import pytest

from planformer.errors import ConfigError
from planformer.training.recipe import Recipe, build_recipe, load_recipe, merge, parse_change, write_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes_load(path):
    assert load_recipe(path).name == path.stem


def test_paper_recipe_is_the_papers():
    recipe = load_recipe(next(path for path in RECIPES if path.stem == "paper"))
    assert (recipe.optimizer.name, recipe.optimizer.learning_rate) == ("adam", 1e-4)
    assert recipe.schedule.decay == "constant" and recipe.schedule.warmup_steps == 0
    assert (recipe.schedule.milestones, recipe.schedule.steps_per_milestone) == (400, 288)
    assert (recipe.data.batch_size, recipe.curriculum.cycles, recipe.separation.share) == (128, 80, 0.5)
    assert recipe.model.pooling == "frequency"
    assert recipe.ema.decay == 0.999


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        ({"optimizer": {"lr": 1}}, "unknown key optimizer.lr"),
        ({"nonsense": 1}, "unknown key nonsense"),
        ({"optimizer": {"learning_rate": -1}}, "optimizer.learning_rate"),
        ({"data": {"batch_size": "many"}}, "data.batch_size"),
        ({"model": {"dim": 100}}, "model"),
        ({"schedule": {"milestones": 1, "steps_per_milestone": 5, "warmup_steps": 9}}, "warmup_steps"),
        ({"data": {"batch_size": 4, "emitters_per_batch": 8}}, "emitters_per_batch"),
        ({"networks": {"decoder": "none"}}, "separation.share"),
        ({"extra": {"emitters_start": "solved"}}, "emitters_start=solved needs descriptors"),
        ({"scenes": {"size": 3}, "data": {"batch_size": 8}}, "multiple of scenes.size"),
        ({"scenes": {"size": 2}, "diversify": {"kind": 2}}, "exclude each other"),
        ({"scenes": {"size": 2, "voices": 1}}, "unknown key scenes.voices"),
        ({"extra": {"likeness_weight": 1}}, "likeness_weight needs scenes.size"),
        ({"scenes": {"size": 2, "classes": True}}, "scenes.classes needs an even scenes.size"),
        ({"scenes": {"classes": True}}, "scenes.classes needs an even scenes.size"),
        ({"scenes": {"size": 4}, "extra": {"classes_weight": 1}}, "classes_weight needs scenes.classes"),
        ({"scenes": {"size": 2}, "extra": {"likeness_weight": 1, "probe_weight": 1}}, "stands alone"),
        ({"scenes": {"size": 2}, "extra": {"likeness_weight": 1}}, "needs extra.descriptors_branch=clean"),
        ({"scenes": {"size": 2}, "extra": {"likeness_groups": {"colour": 1}}}, "colour: not among"),
        ({"extra": {"likeness_scenes": {"songs": {"kernels": 2}}}}, "songs: not among the scenes recorded"),
        ({"extra": {"likeness_scenes": {"voice": {"colour": 2}}}}, "colour: not among spectrum"),
        ({"extra": {"likeness_scenes": {"voice": {"kernels": -1}}}}, "likeness_scenes.voice.kernels"),
        ({"extra": {"likeness_scenes": {"voice": {"start_tokens": 2}}}}, "start_tokens has no share to multiply"),
        ({"extra": {"likeness_scenes": {"voice": {"phase_powers": 2}}}}, "phase_powers has no share to multiply"),
        ({"scenes": {"related": [0.5, 0.2, 0.9]}}, "chances from 0 to 1 that do not fall"),
        ({"scenes": {"related": [0.5, 0.6, 1.1]}}, "chances from 0 to 1 that do not fall"),
        ({"extra": {"kinds_weight": 1}}, "kinds_weight needs diversify.kind"),
        ({"diversify": {"kind": 3}, "data": {"batch_size": 8}}, "multiples of diversify.kind"),
        ({"diversify": {"kind": 2, "family": 3}, "data": {"batch_size": 6}}, "multiples of diversify.kind"),
    ],
)
def test_wrong_recipes_name_the_key(delta, message):
    with pytest.raises(ConfigError, match=message):
        build_recipe(delta, where="x.yaml")


def test_file_problems_name_the_file(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml"):
        load_recipe(tmp_path / "nothing.yaml")
    (tmp_path / "broken.yaml").write_text("a: [1, 2")
    with pytest.raises(ConfigError, match=r"broken\.yaml: not a YAML"):
        load_recipe(tmp_path / "broken.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ConfigError, match="mapping"):
        load_recipe(tmp_path / "list.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.yaml"):
        load_recipe(tmp_path / "binary.yaml")


def test_changes_and_extends(tmp_path):
    (tmp_path / "base.yaml").write_text("seed: 5\noptimizer: {learning_rate: 1e-3, clip_norm: 2}")
    (tmp_path / "child.yaml").write_text("extends: base.yaml\noptimizer: {clip_norm: 3}")
    recipe = load_recipe(tmp_path / "child.yaml", ["data.batch_size=16", "optimizer.clip_norm=null"])
    assert (recipe.seed, recipe.optimizer.learning_rate) == (5, 1e-3)
    assert (recipe.optimizer.clip_norm, recipe.data.batch_size) == (None, 16)


def test_recipes_that_extend_each_other_are_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("extends: a.yaml")
    with pytest.raises(ConfigError, match="without end"):
        load_recipe(tmp_path / "a.yaml")


@pytest.mark.parametrize("change", ["noequals", "=3", "a..b=3", "a=[1"])
def test_malformed_changes(change):
    with pytest.raises(ConfigError, match="--set"):
        parse_change(change)


def test_merge_leaves_its_arguments_alone():
    base = {"a": {"b": 1}}
    assert merge(base, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}}
    assert base == {"a": {"b": 1}}


def test_written_recipe_reads_back_equal(tmp_path):
    recipe = build_recipe({"seed": 3, "optimizer": {"freeze": ["encoder.*"], "rate_factors": {"a*": 0.1}}})
    write_recipe(recipe, tmp_path / "r.yaml")
    assert load_recipe(tmp_path / "r.yaml") == recipe


def test_architecture_depends_on_networks_only():
    base = Recipe()
    assert base.architecture == build_recipe({"optimizer": {"learning_rate": 1}}).architecture
    assert base.architecture != build_recipe({"networks": {"decoder": "compact"}}).architecture
    assert base.architecture != build_recipe({"model": {"pooling": "frequency"}}).architecture


def test_an_augmented_branch_is_made_where_something_reads_it():
    quiet = {"networks": {"symmetry": False, "decoder": "none"}, "separation": {"share": 0.0}}
    described = {"descriptors_weight": 1.0, "descriptors_branch": "clean"}
    assert build_recipe({}).reads_augmented
    assert not build_recipe(quiet | {"extra": described}).reads_augmented
    assert build_recipe(quiet | {"extra": described | {"descriptors_branch": "both"}}).reads_augmented
    decoder = {"networks": {"symmetry": False, "decoder": "compact"}, "separation": {"share": 0.0}}
    assert build_recipe(decoder | {"extra": described}).reads_augmented


def test_likeness_is_another_architecture_and_leaves_the_others_their_names():
    scenes, likeness = {"scenes": {"size": 2}}, {"likeness_weight": 1, "descriptors_branch": "clean"}
    plain = build_recipe(scenes)
    assert plain.architecture == build_recipe({}).architecture
    assert build_recipe(scenes | {"extra": likeness}).architecture != plain.architecture
    frozen = build_recipe(scenes | {"extra": likeness | {"likeness_start": 1}})
    assert frozen.architecture != build_recipe(scenes | {"extra": likeness}).architecture
    kept = build_recipe(scenes | {"extra": likeness | {"likeness_embedding": 1}})
    assert kept.architecture not in (frozen.architecture, build_recipe(scenes | {"extra": likeness}).architecture)
    stretched = build_recipe(scenes | {"extra": likeness | {"likeness_scenes": {"voice": {"kernels": 2}}}})
    assert stretched.architecture != build_recipe(scenes | {"extra": likeness}).architecture
