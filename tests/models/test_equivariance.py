import pytest
import torch

from planformer.models.equivariance import LatentEquivariantTransformer, PredictionHead


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_parameter_counts(domain: str) -> None:
    network = LatentEquivariantTransformer(domain=domain)
    assert sum(p.numel() for p in network.parameters()) == 480_771
    assert sum(p.numel() for p in PredictionHead().parameters()) == 10_245


def test_code_moves_every_token() -> None:
    torch.manual_seed(0)
    network = LatentEquivariantTransformer(16, domain="time", num_heads=4).eval()
    tokens = torch.randn(3, 7, 16)
    first, _ = network(tokens, torch.zeros(3, 5))
    second, _ = network(tokens, torch.ones(3, 5))
    assert first.shape == tokens.shape
    assert ((first - second).abs().amax(-1) > 1e-5).all()


def test_tokens_inform_each_other() -> None:
    """The transformation is coordinated: one token's content changes how another one moves."""
    network = LatentEquivariantTransformer(16, domain="frequency", num_heads=4).eval()
    tokens, code = torch.randn(1, 7, 16), torch.rand(1, 5)
    changed = tokens.clone()
    changed[0, 6] += 1
    assert not torch.allclose(network(tokens, code)[0][0, 0], network(changed, code)[0][0, 0])


def test_domains_differ() -> None:
    torch.manual_seed(0)
    time, frequency = (LatentEquivariantTransformer(16, domain=d, num_heads=4).eval() for d in ("time", "frequency"))
    frequency.load_state_dict(time.state_dict())
    tokens, code = torch.randn(2, 7, 16), torch.rand(2, 5)
    assert not torch.allclose(time(tokens, code)[0], frequency(tokens, code)[0])


def test_every_parameter_gets_gradient_and_aux_is_scalar() -> None:
    network = LatentEquivariantTransformer(16, domain="time", num_heads=4)
    tokens, aux = network(torch.randn(4, 7, 16), torch.rand(4, 5))
    (tokens.square().sum() + sum(aux.values())).backward()
    missing = [n for n, p in network.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not missing
    assert {key.split("/")[0] for key in aux} == {"orthogonality", "parseval_jsd", "focus_diversity", "focus_norm"}
    assert all(value.ndim == 0 for value in aux.values())


def test_prediction_is_a_code() -> None:
    out = PredictionHead(8)(100 * torch.randn(5, 8), torch.randn(5, 8))
    assert out.shape == (5, 5)
    assert ((out >= 0) & (out <= 1)).all()
