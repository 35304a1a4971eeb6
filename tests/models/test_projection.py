import pytest
import torch

from planformer.models.projection import ProjectionHead


def test_parameter_count() -> None:
    assert sum(p.numel() for p in ProjectionHead().parameters()) == 2_234_368


def test_layers_in_the_papers_order() -> None:
    """Against the table written as a plain sequence, with one batch of statistics."""
    torch.manual_seed(0)
    head = ProjectionHead(6, 10, dropout_prob=0.0, statistics="shared")
    plain = torch.nn.Sequential(
        torch.nn.Linear(6, 10), torch.nn.BatchNorm1d(10), torch.nn.GELU(),
        torch.nn.Linear(10, 10), torch.nn.BatchNorm1d(10), torch.nn.GELU(),
        torch.nn.Linear(10, 10, bias=False),
    )  # fmt: skip
    for i, layer in ((0, head.linear_1), (3, head.linear_2), (6, head.linear_3)):
        plain[i].load_state_dict(layer.state_dict())
    x = torch.randn(8, 6)
    joined = torch.cat(head(x[:5], x[5:]))
    torch.testing.assert_close(joined, plain(x))


def test_separate_statistics_keep_the_kinds_apart() -> None:
    torch.manual_seed(0)
    embeddings, differences = torch.randn(8, 6), torch.randn(8, 6)
    for statistics, independent in (("separate", True), ("shared", False)):
        head = ProjectionHead(6, 10, dropout_prob=0.0, statistics=statistics)
        first, _ = head(embeddings, differences)
        second, _ = head(embeddings, 100 * differences)
        assert torch.allclose(first, second) == independent


def test_evaluation_uses_each_kinds_running_statistics() -> None:
    torch.manual_seed(0)
    head = ProjectionHead(4, 8, dropout_prob=0.0)
    for _ in range(200):
        head(torch.randn(64, 4), 5 + torch.randn(64, 4))
    head.eval()
    assert not torch.allclose(head.norm_1.running_mean[0], head.norm_1.running_mean[1], atol=0.1)
    x, y = torch.randn(64, 4), 5 + torch.randn(64, 4)
    evaluated = head(x, y)
    head.train()
    for a, b in zip(evaluated, head(x, y), strict=True):
        assert torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1] > 0.95


def test_dropout_only_in_training() -> None:
    head = ProjectionHead(4, 64)
    x = torch.randn(16, 4)
    assert not torch.equal(head(x, x)[0], head(x, x)[0])
    head.eval()
    assert torch.equal(head(x, x)[0], head(x, x)[0])


def test_every_parameter_gets_gradient() -> None:
    head = ProjectionHead(4, 8)
    sum(out.square().sum() for out in head(torch.randn(6, 4), torch.randn(6, 4))).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())


def test_one_row_can_not_be_normalised() -> None:
    with pytest.raises(ValueError, match="more than 1 value"):
        ProjectionHead(4, 8)(torch.randn(1, 4), torch.randn(1, 4))
