import pytest
import torch
from pydantic import ValidationError

import reference.encoder as plain
from planformer.config import PlanFormerConfig
from planformer.models.encoder import Encoder
from planformer.models.start import spread_kernels

SMALL = {"window": 256, "channels": (4, 8, 16), "dim": 32, "num_heads": 4, "num_windows": 3}
CHOICES = [
    {},
    {"pooling": "frequency"},
    {"cross_window_position": "after_pooling", "cross_window_strides": (4, 4, 2)},
    {"centring": "tokens"},
    {"start": "torch"},
    {"parseval_gate": False},
    {"noise_sink": False},
]


def build(seed=0, **choices):
    torch.manual_seed(seed)
    encoder = Encoder(PlanFormerConfig(**(SMALL | choices)))
    with torch.no_grad():  # away from the start values, so that every bias and gain matters
        for parameter in encoder.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn_like(parameter))
        for tokenizer in (encoder.time_tokenizer, encoder.frequency_tokenizer):
            for stage in tokenizer.stages:  # so narrow, the one hidden ReLU of the attention may start dead
                stage.attention.squeeze.weight.abs_()
    return encoder


def segments(count=2):
    return torch.randn(count, 1536)


def total(output):
    return output.embedding.square().sum() + sum(output.aux.values()) + output.noise_power.sum()


def test_published_counts():
    encoder = Encoder()
    trainable = sum(p.numel() for p in encoder.parameters() if p.requires_grad)
    fixed = sum(p.numel() for p in encoder.parameters() if not p.requires_grad)
    assert (trainable, fixed) == (1_978_190, 12_288)


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_equals_the_plain_encoder(choices):
    encoder, x, blindspot = build(**choices), segments(), torch.tensor([True, False])
    output = encoder(x, blindspot=blindspot)
    time, frequency, embedding, power, aux = plain.encoder(encoder, x, blindspot)
    torch.testing.assert_close(output.time_tokens, time, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(output.frequency_tokens, frequency, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(output.embedding, embedding, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(output.noise_power, power, atol=1e-5, rtol=1e-4)
    assert output.aux.keys() == aux.keys()
    for key, value in output.aux.items():
        torch.testing.assert_close(value, aux[key], atol=1e-4, rtol=1e-4, msg=key)
    with torch.inference_mode():
        silent = encoder(x, blindspot=blindspot, return_aux=False)
    assert silent.aux == {}
    torch.testing.assert_close(silent.embedding, embedding.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("choices", [*CHOICES[:3], *CHOICES[-2:]], ids=str)
def test_gradients_equal_those_of_the_plain_encoder(choices):
    encoder, x, blindspot = build(**choices), segments(), torch.tensor([False, True])
    leaves = {n: p for n, p in encoder.named_parameters() if p.requires_grad}
    ours = torch.autograd.grad(total(encoder(x, blindspot=blindspot)), leaves.values())
    _, _, embedding, power, aux = plain.encoder(encoder, x, blindspot)
    loss = embedding.square().sum() + sum(aux.values()) + power.sum()
    for name, mine, other in zip(leaves, ours, torch.autograd.grad(loss, leaves.values()), strict=True):
        torch.testing.assert_close(mine, other, atol=2e-4, rtol=2e-3, msg=name)


@pytest.mark.parametrize("blindspot", [True, False])
@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_parameter_receives_a_finite_gradient(choices, blindspot):
    encoder = build(**choices)
    total(encoder(segments(), blindspot=blindspot)).backward()
    for name, parameter in encoder.named_parameters():
        if not parameter.requires_grad:
            continue
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        # A softmax over the tokens does not see a constant in its logits: those biases have gradient zero.
        if not name.endswith(("pooler.logit.bias", "pooling.logit.bias")):
            assert parameter.grad.abs().sum() > 0, name


def test_without_sinks_no_noise_is_found_and_nothing_of_them_trains():
    encoder = build(noise_sink=False)
    output = encoder(segments())
    assert not output.noise_power.any()
    found = {key: float(value) for key, value in output.aux.items() if key.startswith("noise_decorrelation/")}
    assert len(found) == 6 and not any(found.values())
    fixed = {name for name, p in encoder.named_parameters() if not p.requires_grad and "positions" not in name}
    assert fixed == {name for name, _ in encoder.named_parameters() if ".sink." in name}


def test_switches_keep_the_parameters_and_change_the_embedding():
    whole, x = build(), segments()
    for switch in ("parseval_gate", "noise_sink"):
        part = Encoder(PlanFormerConfig(**(SMALL | {switch: False})))
        part.load_state_dict(whole.state_dict())
        with torch.no_grad():
            # Far above rounding (1e-6); near the start the gate hardly closes, so its share is small.
            assert (part(x).embedding - whole(x).embedding).abs().max() > 1e-4, switch


def test_switches_are_written_only_where_they_are_used():
    """So that fingerprints and checkpoints from before they existed stay valid."""
    assert not {"parseval_gate", "noise_sink"} & PlanFormerConfig().model_dump().keys()
    for choice in ({"parseval_gate": False}, {"noise_sink": False}, {}):
        config = PlanFormerConfig(**choice)
        assert choice.items() <= config.model_dump(mode="json").items()
        assert PlanFormerConfig.model_validate(config.model_dump(mode="json")) == config
        assert PlanFormerConfig.model_validate_json(config.model_dump_json()) == config


def test_batch_size_and_order_do_not_matter():
    encoder, x = build().eval(), segments(4)
    with torch.no_grad():
        together = encoder(x).embedding
        reverse = encoder(x.flip(0)).embedding.flip(0)
        alone = torch.cat([encoder(row[None]).embedding for row in x])
    torch.testing.assert_close(together, reverse, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def hard_inputs():
    n = torch.arange(768.0)
    tone = torch.view_as_real(torch.polar(torch.ones(768), 0.3 * n)).flatten()
    noise = torch.randn(1536)
    return {
        "silent": torch.zeros(1536),
        "constant": torch.ones(1536),
        "tone": tone,
        "clipped": (10 * noise).clamp(-1, 1),
        "huge": 1e15 * noise,
        "tiny": 1e-20 * noise,
    }


@pytest.mark.parametrize("kind", hard_inputs())
@pytest.mark.parametrize("pooling", ["native", "frequency"])
def test_no_nan_in_values_or_gradients(kind, pooling):
    encoder = build(pooling=pooling)
    output = encoder(hard_inputs()[kind][None])
    total_loss = output.embedding.square().sum() + sum(output.aux.values())
    total_loss.backward()
    assert output.embedding.isfinite().all()
    assert all(value.isfinite() for value in output.aux.values())
    assert all(p.grad.isfinite().all() for p in encoder.parameters() if p.grad is not None)


def test_one_segment_pools_to_the_plain_forward():
    encoder, x = build(), segments(1)
    with torch.no_grad():
        output, tokens = encoder(x), encoder.tokenize(x)
        pooled = encoder.pool_segments(tokens.time, tokens.frequency)
        state = encoder.running_pool()
        state.update(tokens.time, tokens.frequency)
        running = state.finish()
    for latents in (pooled, running):
        torch.testing.assert_close(torch.cat(latents, -1), output.embedding[0], atol=1e-6, rtol=1e-5)


def test_running_pool_equals_all_segments_at_once():
    encoder, x = build(), segments(7)
    with torch.no_grad():
        tokens = encoder.tokenize(x)
        expected = encoder.pool_segments(tokens.time, tokens.frequency)
        state = encoder.running_pool()
        for piece in torch.arange(7).split((3, 1, 3)):
            state.update(tokens.time[piece], tokens.frequency[piece])
    assert state.num_segments == 7
    for ours, theirs in zip(state.finish(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_inference_in_pieces_changes_nothing(monkeypatch):
    monkeypatch.setattr("planformer.models.encoder.PIECE", 4)
    encoder, x = build(), segments(6)
    blindspot = torch.tensor([True, False, True, False, False, True])
    with torch.no_grad():
        whole = encoder(x, blindspot=blindspot, return_skips=True)  # auxiliary terms need the whole batch
        pieces = encoder(x, blindspot=blindspot, return_skips=True, return_aux=False)
    torch.testing.assert_close(pieces.embedding, whole.embedding, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(pieces.noise_power, whole.noise_power, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(pieces.skips.frequency[1], whole.skips.frequency[1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(pieces.focused, whole.focused, atol=1e-5, rtol=1e-5)


def test_an_empty_running_pool_says_so():
    with pytest.raises(ValueError, match="update"):
        build().running_pool().finish()


def test_skips_are_the_features_at_4x_and_16x():
    output = build()(segments(), return_skips=True)
    for domain in (output.skips.time, output.skips.frequency):
        assert [tuple(x.shape) for x in domain] == [(2, 3, 4, 128), (2, 3, 8, 32)]
    assert build()(segments()).skips is None


def test_auxiliary_groups():
    groups = {key.split("/")[0] for key in build()(segments()).aux}
    assert groups == {"orthogonality", "parseval_jsd", "focus_diversity", "focus_norm", "noise_decorrelation"}


def test_a_sharp_start_enlarges_the_first_kernels_only():
    encoders = {}
    for start in ("balanced", "sharp"):
        torch.manual_seed(0)
        encoders[start] = Encoder(PlanFormerConfig(**SMALL, start=start)).state_dict()
    for name, value in encoders["balanced"].items():
        gain = 4 if name.endswith("tokenizer.stages.0.convolution.weight") else 1
        assert torch.equal(encoders["sharp"][name], gain * value), name
    enlarged = [name for name, value in encoders["sharp"].items() if not torch.equal(value, encoders["balanced"][name])]
    assert len(enlarged) == 2, "one kernel in each domain"


def test_raised_levels_change_first_kernels_and_offsets_only():
    torch.manual_seed(0)
    before = Encoder(PlanFormerConfig(**SMALL, start="balanced")).state_dict()
    torch.manual_seed(0)
    after = Encoder(PlanFormerConfig(**SMALL, start="level")).state_dict()
    for name, value in before.items():
        if name.endswith("tokenizer.stages.0.convolution.weight"):
            assert torch.equal(after[name], 1.5 * value), name
        elif name.endswith("sink.affine.2.bias"):
            gamma, offsets = (after[name] - value).chunk(2)
            assert not gamma.any(), name
            size = 0.15 if ".stages.0." in name else 0.1
            by_channel = offsets.view(4, -1)
            torch.testing.assert_close(by_channel[:, 0], torch.full((4,), size))
            assert not by_channel[:, max(1, by_channel.shape[1] // 8) :].any(), name
        else:
            assert torch.equal(after[name], value), name


def first_fusion(start):
    """The fusion behind the tokenizers, and tokens of both domains."""
    torch.manual_seed(0)
    own, other = torch.randn(4, 80, 128), torch.randn(4, 16, 128)
    torch.manual_seed(1)
    return Encoder(PlanFormerConfig(start=start)).tokenizer_fusion, own, other


def test_an_open_start_lets_each_domain_through():
    """A fusion that scrambles has cosine near zero with its own domain's normalised features."""
    likeness = {}
    for start in ("balanced", "open"):
        fusion, own, other = first_fusion(start)
        with torch.no_grad():
            fused, _ = fusion(own, other)
        likeness[start] = float(torch.cosine_similarity(fused, own, -1).mean())
    assert abs(likeness["balanced"]) < 0.1
    assert likeness["open"] > 0.8


def test_a_clear_start_has_first_kernels_of_many_sizes_whose_factors_undo_them():
    torch.manual_seed(0)
    encoder = Encoder(PlanFormerConfig(start="clear"))
    for tokenizer, sizes in ((encoder.time_tokenizer, (0.87, 10.4)), (encoder.frequency_tokenizer, (0.43, 5.2))):
        stage = tokenizer.stages[0]
        norms = stage.convolution.weight.detach().flatten(1).norm(dim=1)
        ratios = norms.sort().values[1:] / norms.sort().values[:-1]
        torch.testing.assert_close(ratios, ratios.mean().expand(15), rtol=1e-3, atol=0)
        assert (float(norms.min()), float(norms.max())) == pytest.approx(sizes, rel=1e-3)
        factors = stage.sink.affine[-1].bias.detach().chunk(2)[0].view(4, 16)
        torch.testing.assert_close(factors * norms, torch.full((4, 16), 0.87), rtol=1e-3, atol=0)
    shapes = encoder.time_tokenizer.stages[0].convolution.weight.detach()[:, 0]
    assert (shapes[:, 2][[0, 8]].sign() == torch.tensor([1, -1])).all() and int((shapes[0] != 0).sum()) == 1
    small = Encoder(PlanFormerConfig(**SMALL, start="clear"))
    assert small(segments()).embedding.isfinite().all()


def test_spread_kernels_change_only_where_the_activation_bends():
    """For kernels so large that the activation is a plain rectifier, the sinks undo the sizes exactly."""
    torch.manual_seed(0)
    windows = torch.randn(5, 2048, 1)
    changes = {}
    for size in (1.0, 1e4):
        encoder = Encoder(PlanFormerConfig())
        stage = encoder.time_tokenizer.stages[0]
        with torch.no_grad():
            stage.convolution.weight.mul_(size)
            stage.sink.affine[-1].weight.zero_()  # the share of noise is measured over all channels, loud ones first
            before = stage(windows, False, False)[0]
            kernels = stage.convolution.weight.clone()
            other = encoder.frequency_tokenizer.stages[0].convolution.weight.clone()
            spread_kernels(encoder, 6.0)
            changes[size] = float((stage(windows, False, False)[0] - before).norm() / before.norm())
        ratios = (stage.convolution.weight / kernels).detach()
        assert (float(ratios.min()), float(ratios.max())) == pytest.approx((1.0, 6.0), rel=1e-4)
        assert torch.equal(encoder.frequency_tokenizer.stages[0].convolution.weight, other)
    assert changes[1e4] < 1e-3 < 0.02 < changes[1.0]


def test_gates_of_a_clear_start_hardly_answer_to_what_passes():
    bends = {}
    for start in ("open", "clear"):
        fusion, own, other = first_fusion(start)
        glu = fusion.time_glu
        with torch.no_grad():
            gate = torch.sigmoid(glu.projection(glu.norm(torch.cat((own, fusion.to_time(other)), -1))).chunk(2, -1)[1])
        bends[start] = float(gate.std((0, 1)).mean())
    assert bends["clear"] < 0.2 * bends["open"]


@pytest.mark.parametrize("start", ["open", "clear"])
def test_an_open_or_clear_start_keeps_gradients_for_every_parameter(start):
    torch.manual_seed(0)
    encoder = Encoder(PlanFormerConfig(start=start))
    output = encoder(torch.randn(2, 10240))
    (output.embedding.square().sum() + sum(output.aux.values())).backward()
    silent = [n for n, p in encoder.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert not [name for name in silent if not name.endswith("logit.bias")], silent


def test_a_sink_with_raised_levels_tells_a_faint_token_from_a_loud_one():
    """The norm gives every token the same power; only with offsets does its direction say how strong it was."""
    torch.manual_seed(2)
    pattern = torch.randn(1, 64, 16)
    changes = {}
    for start in ("balanced", "level"):
        torch.manual_seed(0)
        sink = Encoder(PlanFormerConfig(start=start)).time_tokenizer.stages[0].sink
        # Without what the estimated noise takes away, whose own activation is not scale free.
        torch.nn.init.zeros_(sink.expand.weight)
        with torch.no_grad():
            loud, faint = (sink(scale * pattern).features for scale in (1.0, 0.05))
        changes[start] = float((loud - faint).square().mean())
    assert changes["balanced"] < 0.01  # what a hundredth of the last layer's weight leaves
    assert changes["level"] > 0.1


def test_sinks_start_neutral():
    torch.manual_seed(0)
    sink = Encoder(PlanFormerConfig(**SMALL, start="balanced")).time_tokenizer.stages[0].sink
    gamma, beta = sink.affine(torch.rand(5, 1) * 2).chunk(2, -1)
    torch.testing.assert_close(gamma, torch.ones_like(gamma), atol=0.05, rtol=0)
    torch.testing.assert_close(beta, torch.zeros_like(beta), atol=0.05, rtol=0)


@pytest.mark.parametrize(
    "bad",
    [{"dim": 64}, {"num_heads": 7}, {"channels": (6, 8, 16)}, {"window": 100}, {"num_windows": 0}, {"colour": 1}],
    ids=str,
)
def test_impossible_configurations_are_refused(bad):
    with pytest.raises(ValidationError):
        PlanFormerConfig(**(SMALL | bad))


def test_configuration_round_trip_and_paper():
    config = PlanFormerConfig.paper()
    assert (config.pooling, config.start, config.preprocess.short) == ("frequency", "torch", "resample")
    assert PlanFormerConfig.model_validate_json(config.model_dump_json()) == config
