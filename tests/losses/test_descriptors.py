"""Descriptors land where physics puts them; the loss is 1 for the mean, near 0 when the embedding holds them."""

from __future__ import annotations

import math

import pytest
import torch

from planformer.data.diversify import diversify
from planformer.losses.descriptors import DescriptorLoss, Descriptors, descriptor_sizes

N = 5120


def tone(cycles_per_sample: float) -> torch.Tensor:
    return torch.exp(2j * torch.pi * cycles_per_sample * torch.arange(N)).to(torch.complex64)[None]


def noise(batch: int) -> torch.Tensor:
    return torch.randn(batch, N, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("frequency", [-0.3, -0.1, 0.05, 0.4])
def test_a_tone_peaks_in_its_band(frequency: float) -> None:
    groups = Descriptors()(tone(frequency))
    assert abs(int(groups["spectrum"].argmax()) - (frequency + 0.5) * 128) <= 1
    assert abs(int(groups["phase_steps"].argmax()) - (frequency + 0.5) * 32) <= 1


def test_a_burst_shows_in_the_envelopes() -> None:
    x = noise(1)
    x[:, N // 2 :] = 0
    groups = Descriptors()(x)
    for name, above in (("envelope", 5), ("fine_envelope", 3)):  # 64 and 16 samples a band
        first, second = groups[name][0].chunk(2)
        assert first.min() > second.max() + above, name


def test_a_burst_shows_in_the_blocks_it_covers() -> None:
    x = noise(1)
    x[:, : 8 * N // 20] = 0
    x[:, 12 * N // 20 :] = 0
    blocks = Descriptors()(x)["kernel_blocks"].reshape(16, 20)
    wide = torch.arange(16) % 4 == 3  # 9 taps at dilation 64 reach two blocks further
    assert (blocks[:, 9:12].amin(1) > blocks[:, :8].amax(1) + 5).all()
    assert (blocks[~wide, 9:12].amin(1) > blocks[~wide, 13:].amax(1) + 5).all()


def test_kernel_responses_equal_the_plain_convolution() -> None:
    descriptors, x = Descriptors(), noise(3)
    x[1] = tone(0.05)[0]  # a constant magnitude: its spread is nearly zero
    groups = descriptors(x)
    response = torch.fft.ifft(torch.fft.fft(x.to(torch.complex128))[:, None] * descriptors.kernels)  # (B, k, n)
    magnitude = response.abs()
    positive = (response.real > 0).double().mean(-1)
    power = torch.log(magnitude.square().mean(-1) + 1e-4)
    plain = torch.cat([positive, power, magnitude.std(-1)], 1)
    assert torch.allclose(groups["kernels"].double(), plain, atol=1e-3)
    blocks = torch.log(magnitude[:, :16].square().reshape(3, 16, 20, -1).mean(-1) + 1e-4)
    assert torch.allclose(groups["kernel_blocks"].double(), blocks.flatten(1), atol=1e-3)


@pytest.mark.parametrize("frequency", [-0.2, -0.02, 0.01, 0.3])
def test_a_tone_that_stops_deviates_in_its_logarithmic_band(frequency: float) -> None:
    x = tone(frequency)
    steady = Descriptors()(x)
    x[:, N // 2 :] = 0
    stopped = Descriptors()(x)
    band, side = divmod(int(steady["band_means"].argmax()), 2)  # bands from low to high, both sides of each
    edges = torch.logspace(0, torch.log10(torch.tensor(256.0)).item(), 25)
    assert side == int(frequency < 0)
    assert edges[band] - 1.5 <= abs(frequency) * 512 <= edges[band + 1] + 1.5
    assert steady["band_deviations"][0, 2 * band + side] < 0.1 < 3 < stopped["band_deviations"][0, 2 * band + side]


def test_chosen_groups_equal_those_of_all() -> None:
    x = noise(2)
    everything = Descriptors()(x)
    chosen = Descriptors(groups=["kernel_blocks", "spectrum"])(x)
    assert list(chosen) == ["spectrum", "kernel_blocks"]
    assert all(torch.equal(everything[name], value) for name, value in chosen.items())
    with pytest.raises(ValueError, match="loudness"):
        Descriptors(groups=["loudness"])


def test_envelope_modulation_shows_its_rate() -> None:
    n = torch.arange(N)
    x = noise(1) * (1 + 0.9 * torch.cos(2 * torch.pi * 100 * n / N))
    modulation = Descriptors()(x)["modulation"][0]
    assert int(modulation.argmax()) == 99 // 10


def test_histograms_are_distributions() -> None:
    groups = Descriptors()(noise(3))
    assert groups["phase_steps"].square().sum(1) == pytest.approx(torch.ones(3).numpy(), abs=1e-5)
    assert groups["amplitudes"].square().sum(1) == pytest.approx(3 * torch.ones(3).numpy(), abs=1e-5)


def test_distributions_without_roots_are_plain_means_over_the_samples() -> None:
    x = noise(2)
    roots, shares = Descriptors()(x), Descriptors(groups=["amplitudes", "phase_steps"], roots=False)(x)
    assert all(torch.allclose(share, roots[name].square(), atol=1e-6) for name, share in shares.items())
    halves = [Descriptors(N // 2, groups=["amplitudes"], roots=False)(part)["amplitudes"] for part in x.chunk(2, 1)]
    within = slice(0, 42)  # of the samples; the steps over the seam are of neither half
    assert torch.allclose(shares["amplitudes"][:, within], (halves[0] + halves[1])[:, within] / 2, atol=1e-6)


def test_global_phase_leaves_all_but_the_waveform_dependent_groups() -> None:
    x = noise(2)
    first, second = Descriptors()(x), Descriptors()(x * torch.exp(torch.tensor(1j * 0.7)))
    for name in (
        "spectrum",
        "spectrum_deviation",
        "log_spectrum",
        "spectrogram",
        "envelope",
        "modulation",
        "fine_envelope",
        "kernel_blocks",
        "band_means",
        "band_deviations",
        "phase_steps",
    ):
        assert torch.allclose(first[name], second[name], atol=1e-3), name
    assert not torch.allclose(first["waveform"], second["waveform"], atol=1e-3)


@pytest.mark.parametrize("x", [torch.zeros(1, N, dtype=torch.complex64), torch.ones(1, N, dtype=torch.complex64)])
def test_silence_and_constants_are_finite(x: torch.Tensor) -> None:
    assert all(torch.isfinite(value).all() for value in Descriptors()(x).values())


def varied(batch: int) -> dict[str, torch.Tensor]:
    """Descriptors of signals that differ in level, band and burst length."""
    x = diversify(noise(batch), torch.Generator().manual_seed(1))
    return Descriptors()(x)


def calibrated(groups: dict[str, torch.Tensor], width: int, **options: float) -> DescriptorLoss:
    loss = DescriptorLoss(width, descriptor_sizes(), components=32, **options)
    loss.calibrate(groups)
    return loss


def test_loss_is_one_without_information_and_falls_to_zero_with_it() -> None:
    groups = varied(600)
    loss = calibrated(groups, 32, emphasis=0.0, ridge=1e-6)
    blind, terms = loss(torch.zeros(600, 32), groups)
    assert float(blind) == pytest.approx(1.0, abs=0.01)
    assert sorted(terms) == [f"descriptors/quarter_{i}" for i in (1, 2, 3, 4)]
    informed = calibrated(groups, 32, emphasis=0.0, ridge=1e-6)
    mixed = informed.targets(groups) @ torch.randn(32, 32, generator=torch.Generator().manual_seed(0))
    assert float(informed(mixed, groups)[0]) < 1e-3


def test_map_equals_ridge_regression() -> None:
    groups = varied(400)
    loss = calibrated(groups, 8, ridge=0.1)
    embedding = 3 + torch.randn(400, 8, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 9)
    target = loss.observe(embedding, groups)
    deviation = embedding.std(0, unbiased=False)
    rows = torch.cat([embedding / deviation, torch.ones(400, 1)], 1).double()
    expected = torch.linalg.solve(rows.T @ rows / 400 + 0.1 * torch.eye(9), rows.T @ target.double() / 400)
    expected[:-1] /= deviation[:, None]
    assert torch.allclose(loss.solve(), expected, atol=1e-5)


def test_gradient_reaches_the_embedding_and_lowers_the_solved_error() -> None:
    groups = varied(400)
    embedding = torch.randn(400, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    values = []
    for _ in range(2):
        loss, _ = calibrated(groups, 8)(embedding, groups)
        (gradient,) = torch.autograd.grad(loss, embedding)
        values.append(float(loss.detach()))
        embedding = (embedding - 4000 * gradient).detach().requires_grad_()
    assert values[1] < values[0] - 1e-2


def test_evaluation_leaves_the_moments() -> None:
    groups = varied(100)
    loss = calibrated(groups, 8)
    loss(torch.randn(100, 8), groups)
    before = loss.gram.clone()
    loss.eval()(torch.randn(100, 8), groups)
    assert torch.equal(before, loss.gram)


def test_components_are_white_on_the_calibration_signals() -> None:
    groups = varied(600)
    loss = DescriptorLoss(4, descriptor_sizes(), components=48)
    loss.calibrate(groups)
    components = loss._standardise(loss._joined(groups)) @ loss.basis.T
    covariance = components.T @ components / len(components)
    assert torch.allclose(covariance, torch.eye(48), atol=1e-2)


def test_uncalibrated_or_too_few_signals_is_an_error() -> None:
    loss = DescriptorLoss(4, descriptor_sizes(), components=64)
    groups = Descriptors()(noise(8))
    with pytest.raises(RuntimeError, match="calibrate"):
        loss(torch.zeros(8, 4), groups)
    with pytest.raises(ValueError, match="8 signals"):
        loss.calibrate(groups)


def test_wrong_groups_are_an_error() -> None:
    loss = DescriptorLoss(4, descriptor_sizes())
    with pytest.raises(ValueError, match="descriptor groups"):
        loss.calibrate({"spectrum": torch.zeros(1, 128)})


def test_a_weighted_group_has_the_square_of_its_weight_as_power() -> None:
    groups = varied(300)
    loss = DescriptorLoss(4, descriptor_sizes(), components=8, group_weights={"amplitudes": 3.0})
    loss.calibrate(groups)
    standard = loss._standardise(loss._joined(groups)).square().mean(0)
    power, start = {}, 0
    for name, size in loss.groups.items():
        power[name] = float(standard[start : start + size].sum())
        start += size
    assert power["amplitudes"] / power["spectrum"] == pytest.approx(9, rel=0.1)
    with pytest.raises(ValueError, match="loudness"):
        DescriptorLoss(4, descriptor_sizes(), group_weights={"loudness": 1.0})


def test_a_trained_map_begins_as_the_solution_and_is_a_parameter():
    generator = torch.Generator().manual_seed(0)
    signals = torch.randn(96, 512, generator=generator, dtype=torch.complex64)
    descriptors = {"a": signals.abs()[:, :20], "b": signals.real[:, 20:30]}
    sizes = {name: value.shape[1] for name, value in descriptors.items()}
    embedding = 3 * signals.abs()[:, :12] + 5
    losses = {}
    for trained in (False, True):
        loss = DescriptorLoss(12, sizes, 6, ridge=0.1, trained=trained)
        loss.calibrate(descriptors)
        loss.observe(embedding, descriptors)
        if trained:
            loss.start_map()
        losses[trained] = loss
    torch.testing.assert_close(losses[True].read(embedding), losses[False].read(embedding), atol=1e-4, rtol=1e-4)
    scaled = embedding * torch.logspace(-1, 1, 12) - 7
    torch.testing.assert_close(losses[True].read(scaled), losses[True].read(embedding), atol=1e-2, rtol=1e-2)
    silent = torch.cat((embedding[:, :-1], torch.full((96, 1), 2.0)), 1)
    assert losses[True].read(silent).isfinite().all()
    assert not list(losses[False].parameters())
    updates = int(losses[True].updates)
    value, _ = losses[True](embedding, descriptors)
    value.backward()
    assert losses[True].map.weight.grad.abs().max() > 0
    assert int(losses[True].updates) == updates, "a trained map needs no moments"


def test_a_floor_counts_the_logarithm_of_each_error_and_an_error_of_one_still_costs_one() -> None:
    groups = varied(200)
    plain, floored = (calibrated(groups, 8, emphasis=0.0, floor=floor) for floor in (None, 0.05))
    embedding = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    target = plain.observe(embedding, groups)
    floored.observe(embedding, groups)
    squares = (plain.eval().read(embedding) - target).square()
    expected = (1 + squares / 0.05).log().mean() / math.log(21)
    assert float(floored.eval()(embedding, groups)[0]) == pytest.approx(float(expected), rel=1e-5)
    assert floored(embedding, groups)[1] == plain(embedding, groups)[1], "what is logged stays the plain error"
