"""The extra terms: what each reads, what is logged is what is differentiated, and that training lowers it."""

import pytest
import torch

from planformer.data.scenes import NAMES
from planformer.errors import ConfigError
from planformer.losses.descriptors import GROUPS
from planformer.models.readout import token_moments
from planformer.training.extra import start_classifier
from planformer.training.extra_config import START_EMBEDDING, START_TOKENS
from training.conftest import build


def test_descriptors_and_start_are_added_to_the_total():
    trainee, stream = build("extra.start_weight=2.0")
    output = trainee(stream.batch(0))
    # The head starts as the identity and the encoder is still at its start.
    assert float(output.terms["extra/start"]) == pytest.approx(0.0, abs=1e-6)
    with torch.no_grad():
        trainee.encoder.time_pooling.requires_grad_(False)
        for parameter in trainee.encoder.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    moved = trainee(stream.batch(0))
    assert float(moved.terms["extra/start"]) > 0.01
    assert float(moved.raw["extra/start"]) == pytest.approx(float(moved.terms["extra/start"]) / 2)
    assert float(moved.total.detach()) == pytest.approx(float(sum(moved.terms.values())), rel=1e-5)


def test_descriptors_are_calibrated_on_the_stream_and_read_from_both_branches():
    changes = ("extra.descriptors_weight=3.0", "extra.descriptors_components=8", "extra.descriptors_calibration=32")
    trainee, stream = build(*changes)
    with pytest.raises(RuntimeError, match="calibrate"):
        trainee(stream.batch(0))
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    output = trainee(stream.batch(0))
    assert float(output.terms["extra/descriptors"]) == pytest.approx(3 * float(output.raw["extra/descriptors"]))
    assert float(output.total.detach()) == pytest.approx(float(sum(output.terms.values())), rel=1e-5)


def test_a_descriptor_group_of_weight_zero_is_left_out():
    trainee, _ = build("extra.descriptors_weight=1.0", "extra.descriptors_groups={kernels: 0, envelope: 2}")
    assert "kernels" not in trainee.extra.descriptors.groups
    assert list(trainee.extra.descriptor_loss.groups) == list(trainee.extra.descriptors.groups)
    assert trainee.extra.descriptor_loss.group_weights["envelope"] == 2
    with pytest.raises(ConfigError, match="greater than or equal to 0"):
        build("extra.descriptors_groups={kernels: -1}")
    with pytest.raises(ConfigError, match="loudness: not among spectrum"):
        build("extra.descriptors_groups={loudness: 0}")


def test_powers_of_the_phase_are_described_only_where_they_are_named():
    """What recipes of earlier rounds describe stays as it was."""
    trainee, _ = build("extra.descriptors_weight=1.0")
    assert trainee.extra.descriptors.groups == GROUPS
    named = ("extra.descriptors_weight=1.0", "extra.descriptors_groups={phase_powers: 2}")
    trainee, _ = build(*named)
    assert trainee.extra.descriptors.groups == (*GROUPS, "phase_powers")
    assert trainee.extra.descriptor_loss.group_weights["phase_powers"] == 2
    assert trainee.extra.descriptor_loss.groups["phase_powers"] == 24


def test_descriptors_fall_when_they_are_trained():
    changes = ("networks.symmetry=false", "extra.descriptors_weight=1.0", "extra.descriptors_components=8")
    trainee, stream = build(*changes, "extra.descriptors_calibration=32")
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    optimizer = torch.optim.Adam(trainee.encoder.parameters(), lr=2e-3)
    losses = []
    for step in range(12):
        output = trainee(stream.batch(step))
        optimizer.zero_grad()
        output.total.backward()
        optimizer.step()
        losses.append(float(output.total.detach()))
    assert sum(losses[-4:]) < sum(losses[:4])


@pytest.mark.parametrize("changes", [("extra.probe_weight=2.0",), ("extra.probe_weight=2.0", "diversify.family=4")])
def test_batch_probes_alone_train_without_calibration(changes):
    trainee, stream = build("networks.symmetry=false", "extra.descriptors_branch=clean", *changes)
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    output = trainee(stream.batch(0))
    assert list(output.terms) == ["extra/probe"]
    assert float(output.terms["extra/probe"]) == pytest.approx(2 * float(output.raw["extra/probe"]))
    output.total.backward()
    without = [n for n, p in trainee.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert not [name for name in without if "bias" not in name], without


def test_a_trained_map_of_descriptors_is_solved_first_and_trained_with_the_rest():
    changes = ("networks.symmetry=false", "extra.descriptors_weight=1.0", "extra.descriptors_components=8")
    trainee, stream = build(*changes, "extra.descriptors_calibration=32", "extra.descriptors_map=trained")
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    output = trainee(stream.batch(0))
    assert float(output.total.detach()) < 1.0, "a map that is still random would be above predicting the mean"
    output.total.backward()
    assert trainee.extra.descriptor_loss.map.weight.grad.abs().max() > 0


def test_descriptors_are_of_the_signal_or_of_the_noisy_input():
    changes = ("networks.symmetry=false", "extra.descriptors_weight=1.0", "extra.descriptors_components=8")
    for of in ("signal", "input"):
        trainee, stream = build(*changes, "extra.descriptors_calibration=32", f"extra.descriptors_of={of}")
        batch = stream.batch(0)
        described = dict(trainee.extra._described(batch))
        assert described["clean"] is batch.clean
        assert described["augmented"] is (batch.target if of == "signal" else batch.noisy)
    trainee, stream = build(*changes, "extra.descriptors_calibration=32", "extra.descriptors_branch=clean")
    assert [name for name, _ in trainee.extra._described(stream.batch(0))] == ["clean"]


def test_emitters_are_told_apart_by_what_is_as_recorded():
    trainee, stream = build("networks.symmetry=false", "extra.emitters_weight=2.0", "extra.emitters_count=5")
    batch = stream.batch(0)
    before = trainee(batch)
    assert float(before.total.detach()) == pytest.approx(2 * float(before.raw["extra/emitters"]))
    before.total.backward()
    assert trainee.encoder.time_pooling.logit.weight.grad.any()
    batch.plain[3:] = False
    few = float(trainee(batch).raw["extra/emitters"])
    batch.labels[3:] = 0  # what is not as recorded has no say
    assert float(trainee(batch).raw["extra/emitters"]) == pytest.approx(few)
    batch.plain[:] = False
    assert float(trainee(batch).total.detach()) == 0


@pytest.mark.parametrize("head", [0, 8])
def test_kinds_are_told_apart_with_and_without_a_map(head):
    changes = ("networks.symmetry=false", "extra.kinds_weight=2.0", f"extra.kinds_head={head}", "diversify.kind=2")
    trainee, stream = build(*changes)
    batch = stream.batch(0)
    output = trainee(batch)
    assert list(output.terms) == ["extra/kinds"]
    assert float(output.total.detach()) == pytest.approx(2 * float(output.raw["extra/kinds"]))
    output.total.backward()
    assert trainee.encoder.time_pooling.logit.weight.grad.any()
    assert trainee.extra.kind_head.weight.grad.any() if head else not hasattr(trainee.extra, "kind_head")
    batch.kinds = torch.arange(len(batch.kinds))
    assert float(trainee(batch).total.detach()) == 0, "nobody has company"


def assert_a_regression_starts_better(*changes):
    losses = {}
    for start in ("random", "solved"):
        trainee, stream = build(*changes, f"extra.emitters_start={start}")
        trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
        losses[start] = float(trainee(stream.batch(50)).raw["extra/emitters"])
    assert losses["solved"] < 0.8 * losses["random"]


def test_the_emitters_head_may_begin_as_a_regression():
    changes = ("networks.symmetry=false", "extra.emitters_weight=1.0", "extra.emitters_count=5")
    changes += ("extra.descriptors_weight=1.0", "extra.descriptors_components=8", "extra.descriptors_calibration=64")
    assert_a_regression_starts_better(*changes)


def test_the_emitters_head_begins_with_what_named_scenes_know():
    """Most of what is as recorded may lie in named scenes, which are not described."""
    changes = ("networks.symmetry=false", "extra.emitters_weight=1.0", "extra.emitters_count=5", "scenes.size=4")
    changes += ("extra.likeness_weight=1.0", "extra.descriptors_branch=clean", "extra.descriptors_calibration=128")
    changes += ("scenes.named=1", "scenes.recorded=0")
    assert_a_regression_starts_better(*changes)


def test_a_started_classifier_knows_its_rows():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 4
    rows = torch.randn(200, 6, generator=generator) + 3 * torch.eye(6)[labels]
    rows = (rows - rows.mean(0)) / rows.std(0)
    head = torch.nn.Linear(6, 7)
    start_classifier(head, rows, labels)
    assert (head(rows).argmax(1) == labels).float().mean() > 0.95


def assert_every_weight_has_gradient(trainee, output):
    output.total.backward()
    without = [n for n, p in trainee.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert not [name for name in without if "bias" not in name], without


def trained(trainee, batch, name, *, steps):
    """What one term is in each of some steps on one batch."""
    optimizer = torch.optim.Adam([p for p in trainee.parameters() if p.requires_grad], 3e-3)
    found = []
    for _ in range(steps):
        output = trainee(batch)
        optimizer.zero_grad()
        output.total.backward()
        optimizer.step()
        found.append(float(output.raw[name]))
    return found


def test_likeness_alone_trains_the_encoder_towards_its_target():
    changes = ("networks.symmetry=false", "scenes.size=4", "extra.likeness_weight=2.0", "extra.likeness_names=1.0")
    trainee, stream = build(*changes, "extra.descriptors_branch=clean", "extra.descriptors_calibration=128")
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    output = trainee(stream.batch(0))
    assert list(output.terms) == ["extra/likeness"]
    assert float(output.total.detach()) == pytest.approx(2 * float(output.raw["extra/likeness"]))
    assert_every_weight_has_gradient(trainee, output)
    found = trained(trainee, stream.batch(0), "likeness/within", steps=70)
    assert found[-1] < 0.7 * found[0]


def test_named_scenes_are_asked_for_their_emitters_and_for_nothing_else():
    changes = ("networks.symmetry=false", "scenes.size=4", "extra.likeness_weight=1.0", "scenes.named=1")
    changes += ("extra.likeness_start=3.0", "extra.emitters_weight=2.0", "extra.emitters_start=solved")
    trainee, stream = build(*changes, "extra.descriptors_branch=clean", "extra.descriptors_calibration=128")
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    batch = stream.batch(0)
    seen = []
    trainee.extra.descriptors.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    output = trainee(batch)
    assert torch.equal(torch.view_as_real(seen[0]).flatten(1), batch.clean[:4]), "four of eight are described"
    assert list(output.terms) == ["extra/likeness", "extra/emitters"]
    changed = stream.batch(0)
    changed.clean[4:] = stream.batch(1).clean[4:]
    again = trainee(changed)
    assert float(again.raw["extra/likeness"]) == pytest.approx(float(output.raw["extra/likeness"]), rel=1e-5)
    assert float(again.raw["extra/emitters"]) != pytest.approx(float(output.raw["extra/emitters"]), rel=1e-3)
    assert_every_weight_has_gradient(trainee, output)
    found = trained(trainee, batch, "extra/emitters", steps=40)
    assert found[-1] < 0.7 * found[0]


def test_likeness_describes_the_signal_without_the_noise_where_it_is_known():
    changes = ("networks.symmetry=false", "scenes.size=4", "extra.likeness_weight=1.0", "scenes.noise_free=true")
    trainee, stream = build(*changes, "extra.descriptors_branch=clean", "extra.descriptors_calibration=128")
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    batch = next(b for b in map(stream.batch, range(50)) if not torch.equal(b.clean, b.described))
    seen = []
    trainee.extra.descriptors.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    trainee(batch)
    assert torch.equal(torch.view_as_real(seen[0]).flatten(1), batch.described)


def test_likeness_keeps_what_the_tokens_of_the_start_say():
    """The start's share of the target is the moments of its tokens, whatever the encoder has become since."""
    changes = ("networks.symmetry=false", "scenes.size=4", "extra.likeness_weight=1.0", "extra.likeness_start=3.0")
    changes += ("extra.likeness_roots=false", "extra.descriptors_branch=clean", "extra.descriptors_calibration=128")
    trainee, stream = build(*changes)
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    batch = stream.batch(0)
    before = trainee.encoder(batch.clean, return_aux=False)
    expected = token_moments(before.time_tokens, before.frequency_tokens).detach()
    assert_every_weight_has_gradient(trainee, trainee(batch))
    assert not any(parameter.requires_grad for parameter in trainee.extra.start.parameters())
    found = trained(trainee, batch, "likeness/within", steps=70)
    assert found[-1] < 0.8 * found[0]
    described = trainee.extra.describe(batch.clean)
    assert torch.allclose(described[START_TOKENS], expected, atol=1e-5)
    after = trainee.encoder(batch.clean, return_aux=False)
    assert not torch.allclose(token_moments(after.time_tokens, after.frequency_tokens), expected, atol=1e-2)
    assert trainee.extra.likeness.shares[START_TOKENS] == 3.0


def test_likeness_to_the_embedding_of_the_start_asks_for_no_change_but_less_noise():
    """Alone it is zero where the encoder hears what is described, and comes back there from weights that have moved."""
    changes = ("networks.symmetry=false", "scenes.size=4", "extra.likeness_weight=1.0", "extra.likeness_embedding=1")
    changes += (f"extra.likeness_groups={{{', '.join(f'{name}: 0' for name in GROUPS)}}}", "scenes.noise_free=true")
    trainee, stream = build(*changes, "extra.descriptors_branch=clean", "extra.descriptors_calibration=400")
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    assert trainee.extra.likeness.groups == {START_EMBEDDING: 64}
    batches = [stream.batch(step) for step in range(50)]
    heard = next(b for b in batches if torch.equal(b.clean, b.described))
    noisy = next(b for b in batches if not torch.equal(b.clean, b.described))
    with torch.no_grad():
        assert float(trainee(heard).raw["likeness/within"]) < 1e-3  # clipped at five deviations, else exact
        assert float(trainee(noisy).raw["likeness/within"]) > 0.02
        for parameter in trainee.encoder.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter) * parameter.requires_grad)
    assert_every_weight_has_gradient(trainee, trainee(heard))
    found = trained(trainee, heard, "likeness/within", steps=40)
    assert found[0] > 0.01 and found[-1] < 0.7 * found[0]


def test_factors_of_a_scene_stretch_its_own_sequences_and_no_others():
    """Nine times the power of the amplitudes in letters: they differ three times as much there, and only there."""
    changes = (
        "networks.symmetry=false",
        "scenes.size=4",
        "extra.likeness_weight=1.0",
        "extra.descriptors_branch=clean",
    )
    trainee, _ = build(*changes, "extra.likeness_scenes={letters: {amplitudes: 9}}")
    likeness = trainee.extra.likeness
    assert likeness.stretch.shape == (len(NAMES), sum(likeness.groups.values()))
    first = 0
    for name, size in likeness.groups.items():
        for scene, factors in zip(NAMES, likeness.stretch[:, first : first + size], strict=True):
            assert set(factors.tolist()) == {3.0 if (scene, name) == ("letters", "amplitudes") else 1.0}
        first += size
    plain, _ = build(*changes)
    assert len(plain.extra.likeness.stretch) == 0


def test_classes_of_scenes_train_the_encoder_to_tell_them_apart():
    changes = ("networks.symmetry=false", "scenes.size=8", "scenes.classes=true", "extra.classes_weight=2.0")
    trainee, stream = build(*changes)
    output = trainee(stream.batch(0))
    assert list(output.terms) == ["extra/classes"]
    assert float(output.total.detach()) == pytest.approx(2 * float(output.raw["extra/classes"]))
    assert_every_weight_has_gradient(trainee, output)
    found = trained(trainee, stream.batch(0), "extra/classes", steps=40)
    assert found[-1] < 0.5 * found[0]


def test_extra_terms_are_in_single_precision_under_autocast():
    changes = ("networks.symmetry=false", "scenes.size=4", "extra.likeness_weight=1.0")
    trainee, stream = build(*changes, "extra.descriptors_branch=clean", "extra.descriptors_calibration=128")
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    seen = []
    trainee.extra.likeness.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = trainee(stream.batch(0))
    assert seen == [torch.float32] and output.total.dtype == torch.float32
