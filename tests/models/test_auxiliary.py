import torch

from planformer.config import PlanFormerConfig
from planformer.losses.inputs import DomainPair
from planformer.losses.regularizers import AUX_GROUPS
from planformer.losses.total import (
    NoiseInputs,
    SeparationInputs,
    SeparationObjective,
    SingleSourceInputs,
    SingleSourceObjective,
    merge_aux,
)
from planformer.models.auxiliary import SeparationNetworks, SymmetryNetworks
from planformer.models.encoder import Encoder

BATCH = 3


def narrow() -> Encoder:
    return Encoder(PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4))


def idle(*modules: torch.nn.Module) -> list[str]:
    """Parameters without a finite, non-zero gradient; the narrow squeeze layers have one ReLU, which may be dead."""
    return [
        name
        for module in modules
        for name, p in module.named_parameters()
        if p.requires_grad and (p.grad is None or not p.grad.isfinite().all() or not p.grad.any())
        if ".attention." not in name or p.grad is None
    ]


def test_parameter_counts() -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in SymmetryNetworks().parameters()) == 2 * (480_771 + 2_234_368) + 10_245


def test_full_single_source_step_trains_everything() -> None:
    """Both branches in one pass of the real encoder, as the totals' module documents it."""
    torch.manual_seed(0)
    encoder, networks = narrow(), SymmetryNetworks(32, 64, num_heads=4)
    rows = torch.randn(2 * BATCH, 10240)
    out = encoder(rows, blindspot=torch.arange(2 * BATCH) >= BATCH)
    tokens = DomainPair(out.time_tokens[:BATCH], out.frequency_tokens[:BATCH])
    quiet = DomainPair(out.time_latent[:BATCH], out.frequency_latent[:BATCH])
    moved = DomainPair(out.time_latent[BATCH:], out.frequency_latent[BATCH:])
    code, labels = torch.rand(BATCH, 5), torch.tensor([0, 0, 1])
    symmetry, aux = networks(tokens, quiet, moved, code, labels, pool=encoder.pool)
    noise = NoiseInputs(out.noise_power[BATCH:], torch.rand(BATCH))
    aux = merge_aux(encoder=out.aux, latent=aux)
    assert {key.split("/")[0] for key in aux} == set(AUX_GROUPS)
    loss = SingleSourceObjective()(SingleSourceInputs(symmetry, noise, aux), diagnose=True)
    loss.total.backward()
    assert not idle(encoder, networks)


def test_separation_step_trains_the_separation_networks() -> None:
    torch.manual_seed(0)
    encoder, networks, separation = narrow(), SymmetryNetworks(32, 64, num_heads=4), SeparationNetworks(32, num_heads=4)
    out = encoder(torch.randn(3 * BATCH, 10240), blindspot=torch.arange(3 * BATCH) >= 2 * BATCH)
    with torch.no_grad():
        wanted = encoder(torch.randn(2 * BATCH, 10240))
    assert out.focused is not None
    assert wanted.focused is not None
    separated, aux = separation(DomainPair(*(x[2 * BATCH :] for x in out.focused)))
    sources, targets = [], []
    for s, part in enumerate(separated):
        rows = slice(s * BATCH, (s + 1) * BATCH)
        latent = DomainPair(*encoder.pool(*encoder.transformer_fusion(part.time, part.frequency)))
        tokens = DomainPair(out.time_tokens[rows], out.frequency_tokens[rows])
        quiet = DomainPair(out.time_latent[rows], out.frequency_latent[rows])
        code, labels = torch.rand(BATCH, 5), torch.arange(BATCH)
        sources.append(networks(tokens, quiet, latent, code, labels, pool=encoder.pool)[0])
        targets.append(DomainPair(*(x[rows] for x in wanted.focused)))
    noise = NoiseInputs(out.noise_power[2 * BATCH :], torch.rand(BATCH))
    inputs = SeparationInputs(
        tuple(sources), separated, tuple(targets), noise, merge_aux(encoder=out.aux, separation=aux)
    )
    SeparationObjective()(inputs).total.backward()
    assert not idle(encoder, networks, separation)


def test_differences_are_to_the_clean_branch() -> None:
    """If nothing moved, both predictions see the same zero differences."""
    torch.manual_seed(0)
    networks = SymmetryNetworks(16, 8, num_heads=4, dropout_prob=0.0)
    latent = DomainPair(torch.randn(4, 16), torch.randn(4, 16))
    tokens = DomainPair(torch.randn(4, 6, 16), torch.randn(4, 3, 16))
    still = networks(
        tokens, latent, latent, torch.rand(4, 5), torch.arange(4), pool=lambda t, f: (latent.time, latent.frequency)
    )
    torch.testing.assert_close(still[0].predicted_input, still[0].predicted_latent)
    torch.testing.assert_close(still[0].projected_augmented.time, still[0].projected_latent.time)
