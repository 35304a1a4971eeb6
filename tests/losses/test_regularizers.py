import math

import numpy as np
import pytest
import torch

from planformer.errors import ConfigError
from planformer.losses.inputs import SinkPair
from planformer.losses.regularizers import (
    AUX_GROUPS,
    collect_groups,
    guided_correlation,
    mean_token,
    pearson,
    power_distance,
    sink_rows,
    snr_distance,
)
from planformer.nn.focus import head_orthogonality
from planformer.nn.parseval import cosine_squared, jensen_shannon, missing_norm
from reference import losses as reference


def test_pearson_equals_numpy() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 4, 3, 7)
    wanted = [reference.pearson(x.flatten(), y.flatten()) for x, y in zip(a, b, strict=True)]
    assert pearson(a, b).tolist() == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    torch.testing.assert_close(pearson(a, b), pearson(b, a))
    torch.testing.assert_close(pearson(a, -3 * a + 2), -torch.ones(4))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_pearson_of_constants_is_finite(value: float) -> None:
    a = torch.full((2, 5), value, requires_grad=True)
    correlation = pearson(a, torch.randn(2, 5))
    correlation.sum().backward()
    assert correlation.tolist() == [0, 0]
    assert a.grad is not None
    assert a.grad.isfinite().all()


def test_layers_terms_equal_the_loops() -> None:
    """The terms that the focus layers compute inside themselves."""
    torch.manual_seed(1)
    attention = torch.softmax(3 * torch.randn(2, 3, 4, 5), -1)
    assert float(head_orthogonality(attention)) == pytest.approx(
        reference.head_orthogonality(attention.double().numpy()), rel=1e-4
    )
    p, q = torch.softmax(2 * torch.randn(2, 6, 5, dtype=torch.float64), -1)
    wanted = [reference.jensen_shannon(x.tolist(), y.tolist()) for x, y in zip(p, q, strict=True)]
    assert jensen_shannon(p, q).tolist() == pytest.approx(wanted, rel=1e-5)
    a, b = torch.randn(2, 6, 8)
    assert float(cosine_squared(a, b)) == pytest.approx(reference.cosine_squared(a.tolist(), b.tolist()), rel=1e-4)
    short = [max(0.0, math.sqrt(8) - float(np.linalg.norm(row))) for row in a.numpy()]
    assert float(missing_norm(a)) == pytest.approx(sum(short) / 6, rel=1e-4)


def test_perfect_layers_cost_nothing() -> None:
    assert float(jensen_shannon(torch.full((1, 4), 0.25), torch.full((1, 4), 0.25)).mean()) == pytest.approx(
        0, abs=1e-6
    )
    assert float(cosine_squared(torch.eye(4)[:2], torch.eye(4)[2:])) == 0
    assert float(missing_norm(10 * torch.ones(2, 4))) == 0
    disjoint = torch.eye(4)[None, :, None, :]  # four heads, each looks at one token of its own
    together = torch.eye(4)[:1].expand(4, 4)[None, :, None, :]
    assert head_orthogonality(disjoint) < head_orthogonality(together)


def test_groups_are_summed_and_checked() -> None:
    aux = {f"{group}/{i}": torch.tensor(float(i)) for group in AUX_GROUPS for i in (1, 2)}
    assert collect_groups(aux, AUX_GROUPS, "sum")["parseval_jsd"] == 3
    assert collect_groups(aux, AUX_GROUPS, "mean")["parseval_jsd"] == 1.5
    with pytest.raises(ConfigError, match="no known regulariser"):
        collect_groups({**aux, "typo/1": torch.tensor(1.0)}, AUX_GROUPS, "sum")
    del aux["parseval_jsd/1"], aux["parseval_jsd/2"]
    with pytest.raises(ConfigError, match="no aux term for parseval_jsd"):
        collect_groups(aux, AUX_GROUPS, "sum")
    with pytest.raises(ConfigError, match="not a scalar"):
        collect_groups({f"{group}/1": torch.ones(2) for group in AUX_GROUPS}, AUX_GROUPS, "sum")


def test_power_and_snr() -> None:
    torch.manual_seed(2)
    powers = torch.rand(4, 5)
    wanted = [reference.log_snr_error(*column, 1e-4) for column in powers.T.tolist()]
    assert snr_distance(*powers, 1e-4).tolist() == pytest.approx(wanted, rel=1e-3, abs=1e-6)
    assert power_distance(powers[0], powers[1]).tolist() == pytest.approx((powers[0] - powers[1]).abs().tolist())
    exact = snr_distance(powers[0], powers[0], powers[1], powers[1], 1e-4)
    assert float(exact.sum()) == 0


def test_snr_of_silence_is_finite() -> None:
    powers = [torch.zeros(3, requires_grad=True) for _ in range(2)]
    snr_distance(powers[0], torch.ones(3), powers[1], torch.full((3,), 1e-10), 1e-4).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in powers)


def features(channels: int, guide: torch.Tensor) -> torch.Tensor:
    """Interleaved features whose mean token is the guide, [B, W, C, 2n]."""
    pairs = guide.unflatten(1, (channels, 2))  # (B, C, 2)
    return pairs[:, None, :, None, :].expand(-1, 2, -1, 6, -1).flatten(-2)


def test_guided_correlation_reads_the_mean_token() -> None:
    guide = torch.randn(3, 8)
    torch.testing.assert_close(mean_token(features(4, guide)), guide)
    torch.testing.assert_close(guided_correlation(features(4, guide), guide), torch.ones(3))
    wide = guide.repeat_interleave(4, 1)  # a latent four times as wide is averaged to the token's width
    torch.testing.assert_close(guided_correlation(features(4, guide), wide), torch.ones(3))


def test_sink_terms_want_the_right_thing() -> None:
    torch.manual_seed(3)
    guide = torch.randn(3, 8)
    kept, noise = features(4, guide), torch.randn(3, 2, 4, 12)
    good = sink_rows([SinkPair(noise, kept, guide)], "sum")
    bad = sink_rows([SinkPair(kept, noise, guide)], "sum")
    assert float(good["target_alignment"].mean()) == pytest.approx(0, abs=1e-4)
    assert good["target_alignment"].mean() < bad["target_alignment"].mean()
    assert good["sink_latent_decorrelation"].mean() < bad["sink_latent_decorrelation"].mean()
    assert float(sink_rows([SinkPair(kept, kept, guide)], "sum")["skip_decorrelation"].mean()) == pytest.approx(1)
    twice = sink_rows([SinkPair(noise, kept, guide)] * 2, "mean")
    torch.testing.assert_close(twice["skip_decorrelation"], good["skip_decorrelation"])
    with pytest.raises(ConfigError, match="no skip sinks"):
        sink_rows([], "sum")
