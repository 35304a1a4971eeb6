"""The forward passes use every network, and what is logged is what is differentiated."""

import copy

import pytest
import torch

from planformer.errors import ConfigError
from planformer.models.start import raise_levels, spread_kernels
from planformer.training.optimizer import freeze_parameters
from training.conftest import build

DECODER = ["networks.decoder=compact"]
SEPARATION = [*DECODER, "separation.share=1.0"]


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
