"""Pairs of one kind share what the kind is, and differ in channel, noise and content."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer.data.diversify import DiversifyConfig, diversify, repeat, scramble
from planformer.data.kinds import MAX_DELAY, NOISE_DB, alike, companions, first_of, vary

N = 5120


def noise(batch: int = 16, seed: int = 1) -> torch.Tensor:
    return torch.randn(batch, N, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_first_of_each_kind_decides() -> None:
    assert first_of(7, 3).tolist() == [0, 0, 0, 3, 3, 3, 6]
    assert first_of(3, 1).tolist() == [0, 1, 2]


def test_alike_keeps_the_spread_and_correlates_within_a_kind() -> None:
    values = torch.randn(4000, 3, generator=generator(1))
    found = alike(values, first_of(4000, 2), 0.4, generator(2))
    assert found.std() == pytest.approx(1.0, abs=0.03)
    pairs = found.reshape(-1, 2, 3)
    assert (pairs[:, 0] * pairs[:, 1]).mean() == pytest.approx(1 - 0.4**2, abs=0.04)


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    size=st.integers(2, 4),
    groups=st.integers(1, 4),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_companions_are_other_sequences_of_the_same_recording(
    lengths: list[int], size: int, groups: int, seed: int
) -> None:
    recordings = np.repeat(np.arange(len(lengths)), lengths)
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(recordings), size * groups)
    found = companions(chosen, recordings, size, rng)
    for start in range(0, len(chosen), size):
        leader = chosen[start]
        assert found[start] == leader
        for other in found[start + 1 : start + size]:
            assert recordings[other] == recordings[leader]
            assert other != leader or lengths[recordings[leader]] == 1


def test_varied_sequences_keep_power_and_silence() -> None:
    x = noise(64)
    x[:, 3000:] = 0
    out = vary(x, generator())
    assert (out[:, 3000:] == 0).all()
    changed = ~(out == x).all(-1)
    assert 0.45 < changed.float().mean() < 0.85  # half have a channel, three in ten noise
    power = out.abs().square().sum(-1) / 3000
    assert torch.allclose(power[changed], torch.ones(()), atol=1e-3)


def test_a_tone_stays_where_it_is_and_noise_has_its_power() -> None:
    bin_number = 640
    tone = torch.exp(2j * torch.pi * bin_number * torch.arange(N) / N).to(torch.complex64).repeat(256, 1)
    out = vary(tone, generator())
    spectrum = torch.fft.fft(out, norm="ortho").abs().square()
    assert (spectrum.argmax(-1) == bin_number).all()
    assert len(torch.fft.fft(out)[:, bin_number].angle().mul(100).round().unique()) > 64  # turned by any angle
    beside = (spectrum.sum(-1) - spectrum[:, bin_number]) / (N - 1)
    level_db = -10 * torch.log10((beside / (1 - beside))[beside > 1e-6])
    assert 0.2 < len(level_db) / len(tone) < 0.4
    assert level_db.min() > NOISE_DB[0] - 0.5 and level_db.max() < NOISE_DB[1] + 0.5


def test_a_channel_is_one_path_and_short_echoes() -> None:
    pulse = torch.zeros(128, N, dtype=torch.complex64)
    pulse += 1e-9  # not silence
    pulse[:, 2000] = N**0.5
    out = vary(pulse, generator()).abs()
    strong = out > 0.2 * out.amax(-1, keepdim=True)
    first, last = strong.float().argmax(-1), N - 1 - strong.flip(-1).float().argmax(-1)
    assert first.min() >= 1998 and last.max() <= 2000 + MAX_DELAY + 2


def test_a_repeated_stretch_has_lines_at_multiples_of_its_rate() -> None:
    out = repeat(noise(2), torch.tensor([64.0, 128.0]), torch.tensor([0, 0]))
    power = torch.fft.fft(out).abs().square()
    for row, period in zip(power, (64, 128), strict=True):
        lines = row[:: N // period].sum() / row.sum()
        assert lines > 0.999
    assert torch.allclose(out[0, :64], noise(2)[0, :64])  # its own period: as it is
    assert torch.allclose(out[1, :128:2], noise(2)[0, :64], atol=1e-4)  # twice as long: half as fast


def test_a_scrambled_sequence_has_the_same_samples_and_a_flat_spectrum() -> None:
    slow = torch.nn.functional.interpolate(noise(1).real[:, None, :80], size=N, mode="linear")[:, 0].to(torch.complex64)
    out = scramble(slow, generator())
    assert torch.equal(out.real.sort().values, slow.real.sort().values)
    low = torch.fft.fft(out - out.mean()).abs().square()[0, :128].sum() / (out - out.mean()).abs().square().sum() / N
    assert low == pytest.approx(128 / N, rel=0.5)


def test_members_of_a_kind_share_the_steps_and_resemble_each_other() -> None:
    """Resonances of one kind: log spectra correlate within a pair, and not across pairs."""
    config = DiversifyConfig.off().model_copy(update={"resonance_prob": 1.0, "kind": 2})
    out = torch.fft.fft(diversify(noise(64), generator(), config)).abs().square()
    bands = out.reshape(64, 40, -1).mean(-1).log()
    bands = (bands - bands.mean(1, keepdim=True)) / bands.std(1, keepdim=True)
    within = (bands[::2] * bands[1::2]).mean(1)
    across = (bands[::2] * bands[1::2].roll(1, 0)).mean(1)
    assert within.median() > 0.6 and within.mean() > across.mean() + 0.5


def test_scanned_fields_of_a_kind_resemble_each_other() -> None:
    config = DiversifyConfig.off().model_copy(update={"raster_prob": 1.0, "kind": 2})
    alone = config.model_copy(update={"kind": 1, "family": 2})  # the same lines and detail, other fields

    def likeness(used: DiversifyConfig) -> float:
        out = diversify(noise(64), generator(), used).real
        return float(torch.stack([torch.corrcoef(pair)[0, 1] for pair in out.reshape(-1, 2, N)]).mean())

    assert likeness(config) > 0.2 + abs(likeness(alone))


def test_sequences_of_no_kind_are_what_they_were() -> None:
    first = diversify(noise(8), generator(), DiversifyConfig(plain_prob=0.1, raster_prob=0.2, uneven_levels=True))
    more = DiversifyConfig(plain_prob=0.1, raster_prob=0.2, uneven_levels=True, kind=1, repeat_prob=0, scramble_prob=0)
    assert torch.equal(first, diversify(noise(8), generator(), more))
