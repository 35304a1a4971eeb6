import pytest
import torch

from planformer.losses.config import FocalConfig
from planformer.losses.focal import focal_mean
from planformer.losses.inputs import DomainPair, SinkPair
from planformer.losses.separation import complementarity_rows, token_rows
from reference import losses as reference

FOCAL = FocalConfig()


def tokens(seed: int, *, grad: bool = False) -> DomainPair:
    torch.manual_seed(seed)
    return DomainPair(torch.randn(3, 5, 4, requires_grad=grad), torch.randn(3, 2, 4, requires_grad=grad))


def test_token_terms_equal_the_loops() -> None:
    separated, targets = (tokens(0), tokens(1)), (tokens(2), tokens(3))
    rows = token_rows(separated, targets, FOCAL, detach=True)
    assert rows["token_a_time"].shape == (3, 5)
    for name, x, y in (
        ("token_a_time", separated[0].time, targets[0].time),
        ("token_b_frequency", separated[1].frequency, targets[1].frequency),
    ):
        wanted = reference.focal_huber(x.flatten(0, 1).tolist(), y.flatten(0, 1).tolist())
        assert float(focal_mean(rows[name], FOCAL)) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("detach", [True, False])
def test_targets_can_be_fixed(detach: bool) -> None:
    target = tokens(2, grad=True)
    rows = token_rows((tokens(0, grad=True), tokens(1)), (target, tokens(3)), FOCAL, detach=detach)
    rows["token_a_time"].sum().backward()
    assert (target.time.grad is None) == detach


def sink(seed: int) -> SinkPair:
    torch.manual_seed(seed)
    return SinkPair(torch.randn(2, 1, 3, 8), torch.randn(2, 1, 3, 8), torch.randn(2, 6))


def test_complementarity_equals_the_loops_and_vanishes_for_a_true_split() -> None:
    a, b = sink(0), sink(1)
    rows = complementarity_rows(([a], [b]), FOCAL)
    wanted = reference.focal_huber(a.sink.flatten(0, 2).tolist(), b.kept.flatten(0, 2).tolist())
    assert float(focal_mean(rows["sink_a_0"], FOCAL)) == pytest.approx(wanted, rel=1e-5)
    split = SinkPair(sink=a.kept, kept=a.sink, guide=a.guide)
    assert all(float(row.sum()) == 0 for row in complementarity_rows(([a], [split]), FOCAL).values())


def test_symmetric_in_the_sources() -> None:
    a, b = sink(0), sink(1)
    forward, backward = (complementarity_rows(pair, FOCAL) for pair in (([a], [b]), ([b], [a])))
    torch.testing.assert_close(forward["sink_a_0"], backward["sink_b_0"])
    with pytest.raises(ValueError, match="skip sinks"):
        complementarity_rows(([a], [b, b]), FOCAL)
