"""The public model: shapes, reproducibility, batching that changes nothing, save and load, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer import PlanFormer, PlanFormerConfig
from planformer.config import Start
from planformer.errors import InputError, WeightsError
from planformer.models import pretrained
from planformer.models.readout import token_moments
from planformer.signals import PreprocessConfig, Signal, from_array, prepare

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)  # segments of 1,280 samples


@pytest.fixture(scope="module")
def model() -> PlanFormer:
    return PlanFormer.random(seed=0)


@pytest.fixture(scope="module")
def small() -> PlanFormer:
    return PlanFormer.random(seed=0, config=SMALL)


def noise(n: int, seed: int = 0, channels: int | None = None) -> np.ndarray:
    shape = (n,) if channels is None else (channels, n)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def iq(n: int, seed: int = 0) -> np.ndarray:
    return (noise(n, seed) + 1j * noise(n, seed + 1000)).astype(np.complex64)


# Reproducibility -----------------------------------------------------------------------------------------------------


def test_random_is_a_function_of_the_seed(small: PlanFormer) -> None:
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    again = PlanFormer.random(seed=0, config=SMALL)
    assert torch.equal(before, torch.random.get_rng_state())  # the caller's generator is left alone
    assert again.fingerprint == small.fingerprint
    assert PlanFormer.random(seed=1, config=SMALL).fingerprint != small.fingerprint


FIRST_KERNELS, POOLING = "time_tokenizer.stages.0.convolution.weight", "frequency_pooling.logit.weight"
PINNED = {  # values written down once
    "balanced": (
        {
            FIRST_KERNELS: ([-0.0033482, 0.2399049, -0.368077], -0.4027047),
            POOLING: ([-0.0507819, -0.0275487, 0.0015134], 1.1428005),
        },
        [0.1048642, -0.7700607, -0.1538111, -0.1514812],
        [-0.2950476, -0.1547148, -0.3374595, 0.1504389],
    ),
    "open": (
        {
            FIRST_KERNELS: ([-0.0050223, 0.3598573, -0.5521154], -0.6040569),
            POOLING: ([-0.0050782, -0.0027549, 0.0001513], 0.1142801),
        },
        [0.6268972, 0.3774054, -0.0038319, -0.0867856],
        [0.1508937, 0.0374153, 0.1611475, 0.1922623],
    ),
}


@pytest.mark.parametrize("start", PINNED)
def test_random_is_the_same_network_on_any_machine(start: Start) -> None:
    """Another machine, torch version or import order must give the same start values."""
    model = PlanFormer.random(0, PlanFormerConfig(start=start))
    own, time, frequency = PINNED[start]
    pinned = {
        "time_transformer.focus.projection.weight": ([-0.0295564, -0.0714241, -0.0412812], 0.6031508),
        "latent_fusion.to_time.weight": ([-0.0715218, -0.025555, 0.0267003], 11.3945343),
    }
    state = model.encoder.state_dict()
    for name, (first, total) in (pinned | own).items():
        assert state[name].flatten()[:3].tolist() == pytest.approx(first, abs=1e-6), name
        assert float(state[name].double().sum()) == pytest.approx(total, abs=1e-3), name
    tone = np.exp(2j * np.pi * 0.1 * np.arange(5120)).astype(np.complex64)
    z = model.embed(tone, rate=1.0, kind="iq")
    assert z[:4] == pytest.approx(time, abs=1e-4)
    assert z[128:132] == pytest.approx(frequency, abs=1e-4)


def test_random_does_not_depend_on_torch_defaults(small: PlanFormer) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        other = PlanFormer.random(seed=0, config=SMALL)
    finally:
        torch.set_default_dtype(torch.float32)
    assert other.fingerprint == small.fingerprint


def test_configuration_is_part_of_the_fingerprint(small: PlanFormer) -> None:
    config = SMALL.model_copy(update={"preprocess": PreprocessConfig(short="tile")})
    assert PlanFormer.random(seed=0, config=config).fingerprint != small.fingerprint


# Shapes and meaning --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "kind", "width"),
    [
        (noise(3000), "audio", 256),
        (noise(3000, channels=3), "seismic", 768),
        (iq(6000), "iq", 256),
        (np.random.default_rng(0).integers(0, 255, (28, 28), np.uint8), "image", 256),
        (np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8), "image", 768),
        (np.random.default_rng(0).integers(0, 255, (2, 8, 8), np.uint8), "video", 256),
        (b"any bytes are a signal", "text", 256),
        (b"any bytes are a signal", None, 256),
        ([1, 2, 3, 2], None, 256),
    ],
)
def test_every_kind_of_array(model: PlanFormer, x: object, kind: str | None, width: int) -> None:
    z = model.embed(x, rate=100, kind=kind)
    assert z.shape == (width,)
    assert z.dtype == np.float32
    assert np.isfinite(z).all()


def test_channels_are_embedded_one_by_one(model: PlanFormer) -> None:
    x = noise(6000, channels=2)
    each = [model.embed(channel, rate=100, kind="seismic") for channel in x]
    np.testing.assert_allclose(model.embed(x, rate=100, kind="seismic"), np.concatenate(each), atol=1e-5)


def test_one_segment_equals_the_plain_forward(model: PlanFormer) -> None:
    x = iq(5120)
    segment = prepare(from_array(x, kind="iq"))[0]  # [1, 5120]
    with torch.no_grad():
        plain = model.encoder(torch.from_numpy(segment.view(np.float32))).embedding[0].numpy()
    np.testing.assert_allclose(model.embed(x, kind="iq"), plain, atol=1e-5)


def test_many_segments_equal_the_all_at_once_pooling(model: PlanFormer) -> None:
    segments = prepare(from_array(iq(5120 * 3 + 700), kind="iq"))[0]  # [4, 5120]
    with torch.no_grad():
        tokens = model.encoder.tokenize(torch.from_numpy(segments.view(np.float32)))
        whole = torch.cat(model.encoder.pool_segments(tokens.time, tokens.frequency), -1).numpy()
    np.testing.assert_allclose(model.embed(iq(5120 * 3 + 700), kind="iq"), whole, atol=1e-5)


def test_encode_agrees_with_embed(model: PlanFormer) -> None:
    x = noise(5120 * 2 + 10, channels=2)
    out = model.encode(x, rate=100, kind="seismic")
    assert out.time_tokens.shape == (2, 3 * 80, 128)
    assert out.frequency_tokens.shape == (2, 16, 128)
    assert out.noise_power.shape == (2,)
    assert out.aux
    z = model.embed(x, rate=100, kind="seismic")
    np.testing.assert_allclose(out.embedding.numpy().reshape(-1), z, atol=1e-5)


def test_token_readout_is_mean_and_deviation(model: PlanFormer) -> None:
    x = iq(5120 * 2)
    out = model.encode(x, kind="iq")
    time, frequency = out.time_tokens[0], out.frequency_tokens[0]
    moments = [time.mean(0), time.std(0, correction=0), frequency.mean(0), frequency.std(0, correction=0)]
    z = model.embed(x, kind="iq", readout="tokens")
    np.testing.assert_allclose(z, torch.cat(moments).numpy(), atol=1e-5)
    np.testing.assert_allclose(token_moments(time[None], frequency[None])[0], z, atol=1e-5)
    assert len(model.feature_names("tokens")) == z.size == 512
    assert model.feature_names()[0] == "time_0"
    assert model.feature_names()[-1] == "frequency_127"


def test_level_does_not_matter(model: PlanFormer) -> None:
    x = noise(4000)
    z = model.embed(x, rate=100, kind="audio")
    np.testing.assert_allclose(model.embed(1e6 * x, rate=100, kind="audio"), z, atol=1e-4)


# Batching ------------------------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(
    lengths=st.lists(st.sampled_from([3, 900, 1280, 1281, 4000]), min_size=1, max_size=6),
    batch_size=st.integers(1, 9),
    seed=st.integers(0, 5),
)
def test_batch_size_and_order_change_nothing(lengths: list[int], batch_size: int, seed: int) -> None:
    model = PlanFormer.random(seed=0, config=SMALL)
    items = [noise(n, seed=i, channels=2) for i, n in enumerate(lengths)]
    one_by_one = np.stack([model.embed(x) for x in items])
    order = np.random.default_rng(seed).permutation(len(items))
    together = model.embed_many([items[i] for i in order], batch_size=batch_size)
    np.testing.assert_allclose(together, one_by_one[order], atol=1e-5)


def test_results_come_as_soon_as_possible_and_in_order(small: PlanFormer) -> None:
    seen: list[int] = []

    def items() -> object:
        for i in range(50):
            seen.append(i)
            yield noise(100, seed=i)

    for found in small.iter_embed(items(), batch_size=4):
        assert found.index <= len(seen) <= found.index + 5  # never reads ahead of one batch
    assert found.index == 49


def test_generators_and_empty_lists(small: PlanFormer) -> None:
    assert small.embed_many([]).shape == (0, 64)
    assert small.embed_many(noise(50, seed=i) for i in range(3)).shape == (3, 64)


def test_embed_segments_is_the_same_call(small: PlanFormer) -> None:
    items = [iq(1280 * 2, seed=i) for i in range(5)]
    segments = np.stack([prepare(from_array(x, kind="iq"), small.preprocess)[0] for x in items])  # [5, 2, 1280]
    expected = small.embed_many(items, kind="iq")
    for batch_size in (1, 3, 64):
        np.testing.assert_allclose(small.embed_segments(segments, batch_size=batch_size), expected, atol=1e-5)
    tokens = small.embed_segments(segments, readout="tokens")
    np.testing.assert_allclose(tokens, small.embed_many(items, kind="iq", readout="tokens"), atol=1e-5)
    assert small.embed_segments(segments[:0]).shape == (0, 64)


def test_paths_signals_and_arrays_give_one_answer(small: PlanFormer, tmp_path: Path) -> None:
    import soundfile

    x = noise(9000) / 10
    soundfile.write(tmp_path / "a.wav", x, 8000, subtype="FLOAT")
    from_file = small.embed(tmp_path / "a.wav")
    signal = from_array(x, rate=8000, kind="audio")
    assert isinstance(signal, Signal)
    np.testing.assert_allclose(small.embed(str(tmp_path / "a.wav")), from_file, atol=0)
    np.testing.assert_allclose(small.embed(signal), from_file, atol=1e-5)
    np.testing.assert_allclose(small.embed(x, rate=8000, kind="audio"), from_file, atol=1e-5)
    stereo = np.stack([x, x[::-1]], 1)
    soundfile.write(tmp_path / "b.wav", stereo, 8000, subtype="FLOAT")
    assert small.embed(tmp_path / "b.wav").size == 64
    assert small.embed(tmp_path / "b.wav", channels="each").size == 128
    np.testing.assert_allclose(small.embed(tmp_path / "b.wav", channels=0), from_file, atol=1e-5)


# Bad input -----------------------------------------------------------------------------------------------------------


def test_bad_input_is_one_line(small: PlanFormer, tmp_path: Path) -> None:
    segments = np.ones((1, 1, 100), np.complex64)
    cases = [
        lambda: small.embed(tmp_path / "absent.wav"),
        lambda: small.embed([]),
        lambda: small.embed([1.0, np.nan]),
        lambda: small.embed([1.0, 2.0], kind="smell"),
        lambda: small.embed([1.0, 2.0], channels="each"),
        lambda: small.embed([1.0, 2.0], readout="best"),
        lambda: small.embed_many([noise(9), noise(9, channels=2)]),
        lambda: small.embed_many([noise(9)], batch_size=0),
        lambda: small.embed_segments(segments),
        lambda: small.encode([]),
    ]
    for case in cases:
        with pytest.raises(InputError) as caught:
            case()
        assert "\n" not in str(caught.value)


def test_a_bad_item_fails_alone(small: PlanFormer, tmp_path: Path) -> None:
    items = [noise(100), tmp_path / "absent", noise(6000, 1), np.full(9, np.nan), "/", noise(10, 2)]
    failed: list[int] = []
    found = list(small.iter_embed(items, batch_size=2, on_error=lambda index, error: failed.append(index)))
    assert failed == [1, 3, 4]
    assert [f.index for f in found] == [0, 2, 5]
    for f in found:
        np.testing.assert_allclose(f.embedding, small.embed(items[f.index]), atol=1e-5)


# Save and load -------------------------------------------------------------------------------------------------------


def test_round_trip_is_exact(small: PlanFormer, tmp_path: Path) -> None:
    folder = small.save_pretrained(tmp_path / "w", provenance={"recipe": "none"})
    other = PlanFormer.from_pretrained(folder)
    assert other.fingerprint == small.fingerprint
    assert other.config == small.config
    assert other.provenance["recipe"] == "none"
    x = noise(7000)
    np.testing.assert_array_equal(other.embed(x), small.embed(x))
    assert other.save_pretrained(tmp_path / "w2")
    assert (tmp_path / "w" / "model.safetensors").read_bytes() == (tmp_path / "w2" / "model.safetensors").read_bytes()


def test_unknown_configuration_key_is_refused(small: PlanFormer, tmp_path: Path) -> None:
    from planformer.models.weights import write_component

    config = {**small.config.model_dump(mode="json"), "flavour": 1}
    write_component(tmp_path, "model", small.encoder.state_dict(), config, architecture="planformer-encoder")
    with pytest.raises(WeightsError, match="flavour"):
        PlanFormer.from_pretrained(tmp_path)


def test_other_sizes_are_refused(small: PlanFormer, tmp_path: Path) -> None:
    from planformer.models.weights import write_component

    config = PlanFormerConfig().model_dump(mode="json")
    write_component(tmp_path, "model", small.encoder.state_dict(), config, architecture="planformer-encoder")
    with pytest.raises(WeightsError, match="has shape"):
        PlanFormer.from_pretrained(tmp_path)


def test_without_shipped_weights_one_line_offers_random(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pretrained, "SHIPPED", tmp_path)
    with pytest.raises(WeightsError, match=r"PlanFormer\.random\(seed=0\)") as caught:
        PlanFormer.from_pretrained()
    assert "\n" not in str(caught.value)


def test_shipped_weights_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small: PlanFormer) -> None:
    small.save_pretrained(tmp_path)
    monkeypatch.setattr(pretrained, "SHIPPED", tmp_path)
    assert PlanFormer.from_pretrained().fingerprint == small.fingerprint
    assert PlanFormer.load(None).fingerprint == small.fingerprint


def test_load_understands_names(small: PlanFormer, tmp_path: Path) -> None:
    assert PlanFormer.load(small) is small
    assert PlanFormer.load("random").fingerprint == PlanFormer.load("random:0").fingerprint
    assert PlanFormer.load(small.save_pretrained(tmp_path)).fingerprint == small.fingerprint
    with pytest.raises(WeightsError, match="whole number"):
        PlanFormer.load("random:x")


def test_provenance_names_versions_and_hashes(small: PlanFormer, tmp_path: Path) -> None:
    small.save_pretrained(tmp_path)
    record = json.loads((tmp_path / "provenance.json").read_text())
    assert set(record["sha256"]) == {"config.json", "model.safetensors"}
    assert record["torch"] == torch.__version__
    assert record["weights"] == "random:0"
