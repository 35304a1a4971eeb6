"""The embedding as a rotation of the descriptors: what is perfect, what is nothing, and what does not count."""

from __future__ import annotations

import math

import pytest
import torch

from planformer.losses.likeness import VARIANCE_FLOOR, WHOLE, Likeness

GROUPS = {"a": 5, "b": 3}
SIZE = 4


def made(
    rows: int = 64, *, names: float = 0.5, seed: int = 0
) -> tuple[Likeness, dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    descriptors = {name: torch.randn(rows, size, generator=generator) for name, size in GROUPS.items()}
    emitters = torch.randint(0, 3, (rows,), generator=generator)
    recorded = torch.rand(rows, generator=generator) < 0.5
    loss = Likeness(8, GROUPS, {"a": 2.0, "b": 1.0}, names=names, classes=3)
    embedding = torch.randn(rows, 8, generator=generator)
    loss.calibrate(embedding, descriptors, emitters, recorded)
    return loss, descriptors, emitters, recorded


def perfect(loss: Likeness, *rest: torch.Tensor | dict[str, torch.Tensor]) -> torch.Tensor:
    target = loss.target(*rest)  # type: ignore[arg-type]
    return target * loss.embedding_scale + loss.embedding_mean


def test_the_target_itself_costs_nothing_and_a_constant_costs_one() -> None:
    loss, *rest = made()
    value, details = loss(perfect(loss, *rest), *rest, SIZE)
    assert float(value) == pytest.approx(0, abs=1e-6)
    value, details = loss(loss.embedding_mean.expand(64, -1), *rest, SIZE)
    assert float(value) == pytest.approx(1, abs=0.02)
    assert float(details["likeness/whole"]) == pytest.approx(1, abs=1e-5)


def test_an_offset_that_a_whole_scene_shares_counts_only_over_the_batch() -> None:
    loss, *rest = made()
    offsets = torch.randn(16, 8, generator=torch.Generator().manual_seed(1)).repeat_interleave(SIZE, 0)
    value, details = loss(perfect(loss, *rest) + offsets * loss.embedding_scale, *rest, SIZE)
    assert float(details["likeness/within"]) == pytest.approx(0, abs=1e-6)
    whole = float(details["likeness/whole"])
    assert whole > 0.5
    assert float(value) == pytest.approx(WHOLE / (1 + WHOLE) * math.log1p(whole / 0.05) / math.log1p(20), rel=1e-4)


def test_errors_count_relative_to_what_a_scene_differs_by() -> None:
    """The same error is worse where the signals of a scene differ by less (slow reference, scene by scene)."""
    loss, descriptors, emitters, recorded = made(names=0.0)
    descriptors = {k: torch.cat((v[:4] * 0.1, v[4:8])).repeat(8, 1) for k, v in descriptors.items()}
    error = 0.1 * torch.randn(64, 8, generator=torch.Generator().manual_seed(2))
    target = loss.target(descriptors, emitters, recorded)
    embedding = (target + error) * loss.embedding_scale + loss.embedding_mean
    expected = []
    for start in range(0, 64, SIZE):
        e, t = error[start : start + SIZE], target[start : start + SIZE]
        spread = sum(float((t[:, k] - t[:, k].mean()).square().mean()) for k in range(8)) / 8
        wrong = sum(float((e[:, k] - e[:, k].mean()).square().mean()) for k in range(8)) / 8
        expected.append(wrong / (spread + VARIANCE_FLOOR))
    _, details = loss(embedding, descriptors, emitters, recorded, SIZE)
    assert float(details["likeness/within"]) == pytest.approx(sum(expected) / len(expected), rel=1e-3)
    assert sum(expected[::2]) > 5 * sum(expected[1::2])


def test_the_target_keeps_the_products_of_the_description() -> None:
    """Turned but not stretched: with as many components as descriptors, angles and ratios of lengths stay."""
    loss, *rest = made(names=0.0)
    target = loss.target(*rest)
    rows = loss.describe(*rest) - loss.centre
    scale = float(target.square().sum() / rows.square().sum())
    assert torch.allclose(target @ target.T, scale * rows @ rows.T, atol=1e-3)
    shares = rows.var(0, correction=0)
    assert float(shares[:5].sum() / shares[5:8].sum()) == pytest.approx(2.0, rel=0.05)


def test_the_rotation_is_the_nearest_to_the_embedding_as_it_was() -> None:
    """An embedding that is a rotation of the components already is its own target."""
    loss, *rest = made(names=0.0)
    rows = loss.describe(*rest) - loss.centre
    again = Likeness(8, GROUPS, {"a": 2.0, "b": 1.0}, names=0.0, classes=3)
    components = rows @ loss.basis
    embedding = components / components.std(0)  # of equal scale, as the loss standardises anyway
    again.calibrate(embedding, *rest)
    random = Likeness(8, GROUPS, {"a": 2.0, "b": 1.0}, names=0.0, classes=3)
    random.calibrate(torch.randn(64, 8, generator=torch.Generator().manual_seed(4)), *rest)
    near, far = (float(part(embedding, *rest, SIZE)[1]["likeness/whole"]) for part in (again, random))
    assert near < 0.3 < far


def test_names_separate_emitters_only_where_signals_are_as_recorded() -> None:
    loss, descriptors, emitters, recorded = made(names=4.0)
    named = loss.describe(descriptors, emitters, recorded)[:, 8:]
    assert torch.equal(named.sum(1), 2.0 * recorded.float())
    assert torch.equal(named[recorded].argmax(1), emitters[recorded])


def test_gradient_reaches_the_embedding() -> None:
    loss, *rest = made()
    embedding = torch.randn(64, 8, generator=torch.Generator().manual_seed(5), requires_grad=True)
    value, _ = loss(embedding, *rest, SIZE)
    value.backward()
    assert embedding.grad is not None and bool((embedding.grad.abs().sum(1) > 0).all())


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="c: not among"):
        Likeness(8, GROUPS, {"c": 1.0})
    fresh = Likeness(8, GROUPS)
    descriptors = {name: torch.randn(6, size) for name, size in GROUPS.items()}
    none = torch.zeros(6, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="calibrate"):
        fresh.target(descriptors, none, none)
    with pytest.raises(ValueError, match="6 signals can't show 8"):
        fresh.calibrate(torch.randn(6, 8), descriptors, none, none)
    with pytest.raises(ValueError, match="are not the configured"):
        fresh.describe({"a": descriptors["a"]}, none, none)


def stretched(kinds: torch.Tensor) -> tuple[Likeness, dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    _, descriptors, emitters, recorded = made()
    loss = Likeness(8, GROUPS, {"a": 2.0, "b": 1.0}, classes=3, stretches=[{}, {"b": 9.0}])
    embedding = torch.randn(64, 8, generator=torch.Generator().manual_seed(5))
    loss.calibrate(embedding, descriptors, emitters, recorded, kinds)
    return loss, descriptors, emitters, recorded


def test_a_stretched_group_differs_more_within_its_kind_and_the_kind_stays_where_it_was() -> None:
    """Nine times the power is three times the deviation from the mean of that kind, in that group alone."""
    kinds = torch.arange(64) // SIZE % 2
    loss, *rest = stretched(kinds)
    plain = Likeness(8, GROUPS, {"a": 2.0, "b": 1.0}, classes=3)
    plain.calibrate(torch.randn(64, 8), *rest)  # type: ignore[arg-type]
    before, after = plain.describe(*rest), loss.describe(*rest, kinds)  # type: ignore[arg-type]
    torch.testing.assert_close(after[kinds == 0], before[kinds == 0])
    columns = slice(GROUPS["a"], GROUPS["a"] + GROUPS["b"])
    for part in (before, after):
        part -= part[kinds == 1].mean(0)
    torch.testing.assert_close(after[kinds == 1][:, columns], 3 * before[kinds == 1][:, columns], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(after[kinds == 1][:, : GROUPS["a"]], before[kinds == 1][:, : GROUPS["a"]])


def test_the_stretched_target_costs_nothing_and_is_stored_with_a_checkpoint() -> None:
    kinds = torch.arange(64) // SIZE % 2
    loss, *rest = stretched(kinds)
    perfect_rows = loss.target(*rest, kinds) * loss.embedding_scale + loss.embedding_mean  # type: ignore[arg-type]
    assert float(loss(perfect_rows, *rest, SIZE, kinds)[0]) == pytest.approx(0, abs=1e-6)
    again = Likeness(8, GROUPS, {"a": 2.0, "b": 1.0}, classes=3, stretches=[{}, {"b": 9.0}])
    again.load_state_dict(loss.state_dict())
    torch.testing.assert_close(again.target(*rest, kinds), loss.target(*rest, kinds))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="need the kind"):
        loss.target(*rest)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="colour: not among"):
        Likeness(8, GROUPS, stretches=[{"colour": 2.0}])


def test_without_stretches_nothing_is_stored_for_them() -> None:
    """Checkpoints from before they existed still fit."""
    assert not any("kind" in name or "stretch" in name for name in made()[0].state_dict())
