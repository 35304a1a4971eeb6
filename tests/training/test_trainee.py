"""The forward passes use every network, and what is logged is what is differentiated."""

import copy

import pytest
import torch

from planformer.errors import ConfigError
from planformer.models.readout import token_moments
from planformer.models.start import raise_levels, spread_kernels
from planformer.training.extra import START_TOKENS, start_classifier
from planformer.training.optimizer import freeze_parameters
from planformer.training.stream import BatchStream
from planformer.training.trainee import Trainee
from training.conftest import tiny_recipe, tone_set

DECODER = ["networks.decoder=compact"]
SEPARATION = [*DECODER, "separation.share=1.0"]


def build(*changes):
    recipe = tiny_recipe(*changes)
    torch.manual_seed(0)
    return Trainee(recipe), BatchStream(tone_set(), recipe)


@pytest.mark.parametrize("changes", [[], DECODER, SEPARATION], ids=["encoder", "decoder", "separation"])
def test_every_trainable_parameter_receives_gradient(changes):
    trainee, stream = build(*changes, "curriculum.snr_upper=11")
    output = trainee(stream.batch(0))
    output.total.backward()
    silent = [n for n, p in trainee.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    # A softmax does not see a constant added to all its scores.
    silent = [name for name in silent if not name.endswith("pooling.score.bias")]
    assert not [name for name in silent if "bias" not in name], silent
    assert all(torch.isfinite(p.grad).all() for p in trainee.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    "change",
    [
        "model.pooling=frequency",
        "model.parseval_gate=false",
        "model.noise_sink=false",
        "objective.led_weight=0",
        "objective.isoficreg.repulsion_weight=0",
        "objective.isoficreg_weight=0",
        "networks.blindspot=false",
        "networks.decoder=none",
    ],
)
def test_every_ablation_trains_whatever_is_left(change):
    """A parameter without a gradient is known as such: several processes would wait for it forever."""
    trainee, stream = build(*DECODER, change)
    output = trainee(stream.batch(0))
    output.total.backward()
    unused = [name for name, p in trainee.named_parameters() if p.requires_grad and p.grad is None]
    assert trainee.may_leave_parameters_unused or not unused, unused
    assert len(unused) < 4
    assert all(torch.isfinite(p.grad).all() for p in trainee.parameters() if p.grad is not None)
    trainee.update_ema()


@pytest.mark.parametrize("changes", [[], SEPARATION], ids=["single", "separation"])
def test_total_is_the_sum_of_the_logged_terms(changes):
    trainee, stream = build(*changes)
    output = trainee(stream.batch(0))
    assert float(output.total.detach()) == pytest.approx(float(sum(output.terms.values())), rel=1e-5)


def test_one_pass_equals_two():
    trainee, stream = build()
    batch = stream.batch(0)
    both = trainee.encode_pair(batch.clean, batch.noisy)
    clean = trainee.encoder(batch.clean, blindspot=False)
    noisy = trainee.encoder(batch.noisy, blindspot=True)
    assert torch.allclose(both.embedding, torch.cat((clean.embedding, noisy.embedding)), atol=1e-5)


def test_activation_checkpointing_changes_nothing():
    plain, stream = build()
    saving, _ = build("networks.activation_checkpointing=true")
    saving.load_state_dict(plain.state_dict())
    gradients = []
    for trainee in (plain, saving):
        torch.manual_seed(1)
        trainee(stream.batch(0)).total.backward()
        gradients.append([p.grad for p in trainee.parameters() if p.grad is not None])
    assert all(torch.allclose(a, b, atol=1e-4, rtol=1e-4) for a, b in zip(*gradients, strict=True))


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


def test_without_symmetry_only_the_extra_terms_train():
    changes = ("extra.descriptors_weight=3.0", "extra.descriptors_components=8", "extra.descriptors_calibration=32")
    trainee, stream = build(*changes, "networks.symmetry=false")
    trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
    output = trainee(stream.batch(0))
    assert list(output.terms) == ["extra/descriptors"]
    output.total.backward()
    without = [n for n, p in trainee.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert not [name for name in without if "bias" not in name], without


def test_without_symmetry_something_must_train():
    with pytest.raises(ConfigError, match="nothing to train by"):
        build("networks.symmetry=false")
    with pytest.raises(ConfigError, match=r"needs separation\.share 0"):
        build(*DECODER, "networks.symmetry=false", "separation.share=0.5")


def test_a_decoder_learns_behind_an_encoder_that_stays_as_it_is(monkeypatch):
    changes = ("networks.symmetry=false", "networks.blindspot=false", "objective.perceptual_weight=0")
    trainee, stream = build(*DECODER, *changes)
    freeze_parameters(trainee, ("encoder.*",))
    before = {name: value.clone() for name, value in trainee.encoder.state_dict().items()}
    rows = []
    forward = trainee.encoder.forward

    def counting(x, **options):
        rows.append((len(x), int(options["blindspot"].sum())))
        return forward(x, **options)

    monkeypatch.setattr(trainee.encoder, "forward", counting)
    optimizer = torch.optim.Adam(trainee.decoder.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        output = trainee(stream.batch(0))
        assert all(name.startswith("reconstruction/") for name in output.terms) and len(output.terms) == 4
        optimizer.zero_grad()
        output.total.backward()
        optimizer.step()
        trainee.update_ema()
        losses.append(float(output.total.detach()))
    assert losses[-1] < 0.9 * losses[0]
    assert set(rows) == {(8, 0)}, "the noise-free branch is not encoded, and nothing is masked"
    for encoder in (trainee.encoder, trainee.chosen_encoder(ema=True)):
        for name, value in encoder.state_dict().items():
            assert torch.equal(value, before[name]), name
    assert not trainee.components(ema=True)[1].config.blindspot


def test_ema_follows_and_forgets_the_start():
    trainee, _ = build("ema.decay=0.999")
    with torch.no_grad():
        for parameter in trainee.encoder.parameters():
            parameter.fill_(1.0)
    for _ in range(200):
        trainee.update_ema()
    parameter = next(trainee.chosen_encoder(ema=True).parameters())
    # A plain average with 0.999 would still be at 0.18 of the way.
    assert (parameter - 1).abs().max() < 0.01


def test_target_scale_makes_input_equal_target_plus_noise():
    trainee, _ = build(*DECODER)
    power = torch.tensor([0.25, 1.0])
    assert trainee.target_scale(power).tolist() == [0.5, 1.0]
    unit, _ = build(*DECODER, "networks.target_scale=unit")
    assert unit.target_scale(power).tolist() == [1.0, 1.0]


def test_reconstruct_keeps_training_mode():
    trainee, stream = build(*DECODER)
    assert trainee.reconstruct(stream.batch(0).clean[:2]).shape == (2, 2560)
    assert trainee.training


def test_start_from_a_weights_folder(tmp_path):
    from planformer.models.planformer import PlanFormer

    source, _ = build("seed=4")
    PlanFormer(source.encoder).save_pretrained(tmp_path / "w")
    trainee, _ = build(f"networks.init_from={tmp_path / 'w'}")
    for name, value in source.encoder.state_dict().items():
        assert torch.equal(value, trainee.encoder.state_dict()[name])


def test_continued_weights_may_have_their_levels_raised(tmp_path):
    from planformer.models.planformer import PlanFormer

    PlanFormer(build()[0].encoder).save_pretrained(tmp_path / "w")
    begin = f"networks.init_from={tmp_path / 'w'}"
    as_stored, raised = (build(begin, f"networks.raise_levels={raise_}")[0].encoder for raise_ in ("false", "true"))
    expected = copy.deepcopy(as_stored)
    raise_levels(expected)
    for name, value in raised.state_dict().items():
        assert torch.equal(value, expected.state_dict()[name]), name
    kernel = "time_tokenizer.stages.0.convolution.weight"
    assert not torch.equal(raised.state_dict()[kernel], as_stored.state_dict()[kernel])
    fresh = build("networks.raise_levels=true")[0].encoder.state_dict()
    assert torch.equal(fresh[kernel], build("model.start=level")[0].encoder.state_dict()[kernel])
    with pytest.raises(ConfigError, match="twice"):
        build("networks.raise_levels=true", "model.start=level")


def test_continued_weights_may_have_their_first_kernels_spread(tmp_path):
    from planformer.models.planformer import PlanFormer

    PlanFormer(build()[0].encoder).save_pretrained(tmp_path / "w")
    as_stored, spread = (
        build(f"networks.init_from={tmp_path / 'w'}", f"networks.spread_kernels={top}")[0].encoder for top in (1, 6)
    )
    expected = copy.deepcopy(as_stored)
    spread_kernels(expected, 6.0)
    changed = [name for name, value in as_stored.state_dict().items() if not value.equal(spread.state_dict()[name])]
    assert "time_tokenizer.stages.0.convolution.weight" in changed
    assert all(name.startswith("time_tokenizer.stages.0.") for name in changed)
    for name, value in spread.state_dict().items():
        assert torch.equal(value, expected.state_dict()[name]), name
    with pytest.raises(ConfigError, match="spread_kernels"):
        build("networks.spread_kernels=0.5")


def test_a_stored_decoder_of_the_same_size_continues(tmp_path):
    from planformer.models.planformer import PlanFormer
    from planformer.models.restoration import save_decoder

    source, _ = build(*DECODER, "seed=4")
    with torch.no_grad():
        for parameter in source.decoder.parameters():
            parameter.add_(1.0)
    PlanFormer(source.encoder).save_pretrained(tmp_path / "w")
    fresh = build(*DECODER, f"networks.init_from={tmp_path / 'w'}")[0].decoder.state_dict()
    save_decoder(tmp_path / "w", source.decoder)
    behind = build(*DECODER, "networks.blindspot=false", f"networks.init_from={tmp_path / 'w'}")[0]
    for name, value in source.decoder.state_dict().items():
        assert torch.equal(value, behind.decoder.state_dict()[name])
    assert not behind.decoder.config.blindspot
    assert any(not torch.equal(value, fresh[name]) for name, value in source.decoder.state_dict().items())


def test_extra_terms_alone_encode_only_the_branch_they_read(monkeypatch):
    trainee, stream = build("networks.symmetry=false", "extra.start_weight=1.0")
    rows = []
    forward = trainee.encoder.forward

    def counting(x, **options):
        rows.append(len(x))
        return forward(x, **options)

    monkeypatch.setattr(trainee.encoder, "forward", counting)
    output = trainee(stream.batch(0))
    assert rows == [8] and list(output.terms) == ["extra/start"]


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


def test_the_emitters_head_may_begin_as_a_regression():
    changes = ("networks.symmetry=false", "extra.emitters_weight=1.0", "extra.emitters_count=5")
    changes += ("extra.descriptors_weight=1.0", "extra.descriptors_components=8", "extra.descriptors_calibration=64")
    losses = {}
    for start in ("random", "solved"):
        trainee, stream = build(*changes, f"extra.emitters_start={start}")
        trainee.extra.calibrate((stream.batch(step) for step in range(100)), trainee.encoder)
        losses[start] = float(trainee(stream.batch(50)).raw["extra/emitters"])
    assert losses["solved"] < 0.8 * losses["random"]


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
    described = trainee.extra._describe(batch.clean)
    assert torch.allclose(described[START_TOKENS], expected, atol=1e-5)
    after = trainee.encoder(batch.clean, return_aux=False)
    assert not torch.allclose(token_moments(after.time_tokens, after.frequency_tokens), expected, atol=1e-2)
    assert trainee.extra.likeness.shares[START_TOKENS] == 3.0


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
