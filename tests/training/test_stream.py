"""Batches are functions of (seed, step, shard)."""

import numpy as np
import pytest
import torch

from planformer.data.scenes import NAMED, NAMES
from planformer.errors import ConfigError
from planformer.iq import deinterleave
from planformer.training.sources import MemorySet
from planformer.training.stream import BatchStream, mix_seed
from training.conftest import tiny_recipe, tone_set

SEPARATION = ["separation.share=0.5", "networks.decoder=compact"]


def equal(a, b) -> bool:
    names = ("clean", "noisy", "target", "code", "noise_power", "snr_db", "labels")
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in names)


def test_batch_is_a_function_of_seed_and_step(data):
    first, second = BatchStream(data, tiny_recipe()), BatchStream(data, tiny_recipe())
    second.batch(3)
    assert equal(first.batch(7), second.batch(7))
    assert not equal(first.batch(7), first.batch(8))
    assert not equal(first.batch(7), BatchStream(data, tiny_recipe("seed=1")).batch(7))


def test_prefetch_gives_the_same_batches(data):
    stream = BatchStream(data, tiny_recipe())
    for step, (batch, waited) in enumerate(stream.prefetch(4, 9), start=4):
        assert batch.step == step and waited >= 0
        assert equal(batch, stream.batch(step))


def test_prefetch_can_be_left_early_and_hands_on_errors(data):
    for _ in BatchStream(data, tiny_recipe()).prefetch(0, 1000):
        break

    class Broken(MemorySet):
        def sequences(self, indices):
            raise OSError("the disk went away")

    broken = Broken(data.sequences(np.arange(len(data))), data.labels)
    with pytest.raises(OSError, match="disk went away"):
        list(BatchStream(broken, tiny_recipe()).prefetch(0, 3))


def test_one_process_with_two_shards_is_two_processes(data):
    ranks = [BatchStream(data, tiny_recipe(), rank=r, world=2).batch(5) for r in range(2)]
    whole = BatchStream(data, tiny_recipe("data.shards=2")).batch(5)
    for name in ("clean", "noisy", "code", "labels"):
        assert torch.equal(torch.cat([getattr(r, name) for r in ranks]), getattr(whole, name))


def test_protocols_of_one_emitter_may_be_balanced_like_emitters():
    """One emitter with seven protocols among three others: a quarter of all by emitters, seven tenths by protocols."""
    tones = tone_set(per_emitter=28, emitters=4)
    protocols = np.where(tones.labels == 0, np.arange(len(tones)) % 7, 9).astype(str).tolist()
    data = MemorySet(tones.sequences(np.arange(len(tones))), tones.labels, protocols=protocols)
    for balance, share in (("emitter", 0.25), ("protocol", 0.7)):
        recipe = tiny_recipe(f"data.balance={balance}", "data.emitters_per_batch=4")
        labels = torch.cat([BatchStream(data, recipe).batch(step).labels for step in range(100)])
        assert float((labels == 0).float().mean()) == pytest.approx(share, abs=0.02)
    assert MemorySet.copy_of(data).protocols == protocols


def test_batches_are_balanced_and_of_unit_power(data):
    batch = BatchStream(data, tiny_recipe()).batch(0)
    assert torch.bincount(batch.labels)[batch.labels.unique()].tolist() == [2, 2, 2, 2]
    for x in (batch.clean, batch.noisy, batch.target):
        assert torch.allclose(deinterleave(x).abs().square().mean(-1), torch.ones(8), atol=1e-3)


def test_curriculum_reaches_the_batches(data):
    stream = BatchStream(data, tiny_recipe("curriculum.snr_upper=10"))
    easy, hard = stream.batch(0).snr_db, stream.batch(2).snr_db  # milestones 0 and 1
    assert easy.min() > 9.9 and hard.min() < 9.0


def test_separation_batches_alternate_and_mix_different_emitters():
    stream = BatchStream(tone_set(), tiny_recipe(*SEPARATION))
    assert [stream.kind(step) for step in range(4)] == ["single", "separation"] * 2
    batch = stream.batch(1)
    assert batch.mixture is not None and batch.labels_b is not None
    assert (batch.labels != batch.labels_b).float().mean() > 0.7
    assert stream.batch(0).mixture is None


def test_share_of_a_quarter_is_every_fourth():
    stream = BatchStream(tone_set(), tiny_recipe("separation.share=0.25", "networks.decoder=compact"))
    assert sum(stream.kind(step) == "separation" for step in range(400)) == 100


def test_diversify_is_off_by_default_and_changes_the_clean_signal(data):
    plain = BatchStream(data, tiny_recipe()).batch(0)
    varied = BatchStream(data, tiny_recipe("diversify.gate_prob=1.0")).batch(0)
    assert not torch.equal(plain.clean, varied.clean)


def test_seeds_do_not_collide():
    seeds = {mix_seed(a, b, c) for a in range(10) for b in range(10) for c in range(10)}
    assert len(seeds) == 1000


def test_what_is_as_recorded_is_known(data):
    assert BatchStream(data, tiny_recipe()).batch(0).plain.all()
    stream = BatchStream(data, tiny_recipe("diversify.stretch_prob=1", "diversify.plain_prob=0.5"))
    reference = BatchStream(data, tiny_recipe())
    seen = []
    for step in range(8):
        batch, recorded = stream.batch(step), reference.batch(step)
        same = (batch.clean == recorded.clean).all(-1)
        assert torch.equal(batch.plain, same)
        seen += batch.plain.tolist()
    assert set(seen) == {True, False}


def test_collections_may_be_balanced():
    tones = tone_set(per_emitter=28, emitters=4)
    collections = np.where(tones.labels == 0, "one", "three").tolist()  # a quarter of the sequences
    data = MemorySet(tones.sequences(np.arange(len(tones))), tones.labels, collections=collections)
    for balance, share in (("emitter", 0.25), ("collection", 0.5)):
        stream = BatchStream(data, tiny_recipe(f"data.balance={balance}"))
        labels = torch.cat([stream.batch(step).labels for step in range(14)])
        assert (labels == 0).float().mean() == pytest.approx(share, abs=0.03)


def test_neighbours_of_one_kind_come_from_one_recording():
    tones = tone_set(per_emitter=12, emitters=4)
    samples = tones.sequences(np.arange(len(tones)))
    recordings = np.arange(len(tones)) // 3  # four recordings of three sequences an emitter
    data = MemorySet(samples, tones.labels, recordings=recordings)
    used = []

    class Watched(MemorySet):
        def sequences(self, indices):
            used.append(np.asarray(indices))
            return super().sequences(indices)

    watched = Watched(samples, tones.labels, recordings=recordings)
    plain = ("diversify.kind=2", "diversify.plain_prob=1")
    batch = BatchStream(watched, tiny_recipe(*plain)).batch(4)
    pairs = used[0].reshape(-1, 2)
    assert (recordings[pairs[:, 0]] == recordings[pairs[:, 1]]).all() and (pairs[:, 0] != pairs[:, 1]).all()
    assert batch.kinds.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]
    assert batch.plain.all(), "a channel of its own is no step of diversification"
    again = BatchStream(data, tiny_recipe(*plain)).batch(4)
    assert equal(batch, again)
    ranks = [BatchStream(data, tiny_recipe("diversify.kind=2"), rank=r, world=2).batch(5) for r in range(2)]
    whole = BatchStream(data, tiny_recipe("diversify.kind=2", "data.shards=2")).batch(5)
    assert torch.equal(torch.cat([r.clean for r in ranks]), whole.clean)
    assert torch.cat([r.kinds for r in ranks]).tolist() == whole.kinds.tolist()
    assert len(whole.kinds.unique()) == 8


def test_a_batch_says_which_scene_every_sequence_is_of():
    tones = tone_set()
    for name in NAMES:
        alone = [f"scenes.{other}={int(other == name)}" for other in NAMES]
        batch = BatchStream(tones, tiny_recipe("scenes.size=4", *alone)).batch(0)
        assert batch.scenes.tolist() == [NAMES.index(name)] * len(batch.clean)
    assert set(BatchStream(tones, tiny_recipe()).batch(0).scenes.tolist()) == {-1}


def test_scenes_are_batches_of_relatives_and_the_same_however_many_processes():
    tones = tone_set(per_emitter=12, emitters=4)
    changes = ("scenes.size=4", "scenes.recorded=1", "scenes.general=0", "scenes.voice=0", "scenes.letters=1")
    stream = BatchStream(tones, tiny_recipe(*changes, "scenes.tone=0", "scenes.picture=1"))
    batches = [stream.batch(step) for step in range(20)]
    for batch in batches:
        assert batch.plain.view(2, 4).all(1).tolist() == batch.plain.view(2, 4).any(1).tolist(), "whole scenes"
    assert 0 < sum(int(batch.plain.sum()) for batch in batches) < 160
    labels = torch.stack([batch.labels for batch in batches]).view(-1, 4)
    alone = [len(set(row.tolist())) == 1 for row in labels]
    assert 0 < sum(alone) < 20, "a few scenes are of one emitter, most are not"
    ranks = [BatchStream(tones, tiny_recipe(*changes), rank=r, world=2).batch(5) for r in range(2)]
    whole = BatchStream(tones, tiny_recipe(*changes, "data.shards=2")).batch(5)
    assert torch.equal(torch.cat([r.clean for r in ranks]), whole.clean)
    assert torch.equal(torch.cat([r.plain for r in ranks]), whole.plain)


def test_what_is_described_may_lack_the_noise_of_the_receiver():
    tones = tone_set(per_emitter=12, emitters=4)
    changes = ("scenes.size=4", "scenes.recorded=1", "scenes.general=0", "scenes.voice=0", "scenes.letters=1")
    changes += ("scenes.tone=0", "scenes.picture=0")
    plain_stream = BatchStream(tones, tiny_recipe(*changes))
    stream = BatchStream(tones, tiny_recipe(*changes, "scenes.noise_free=true"))
    noise = []
    for step in range(12):
        batch, same = stream.batch(step), plain_stream.batch(step)
        assert same.described is None and torch.equal(batch.clean, same.clean), "what the encoder sees is unchanged"
        assert torch.equal(batch.described[~batch.plain], batch.clean[~batch.plain])
        power = batch.described.square().sum(1) / (batch.described.shape[1] / 2)
        torch.testing.assert_close(power, torch.ones_like(power))
        # A tone in noise: the strongest bin of the spectrum holds nearly all of what is described.
        for row, heard in zip(batch.described[batch.plain], batch.clean[batch.plain], strict=True):
            shares = [torch.fft.fft(torch.view_as_complex(x.view(-1, 2))).abs().square() for x in (row, heard)]
            described, received = (float(share.max() / share.sum()) for share in shares)
            noise.append(described - received)
    assert min(noise) > -1e-5 and max(noise) > 0.1 and min(noise) < 1e-5, "some scenes are as recorded"
    ranks = [BatchStream(tones, tiny_recipe(*changes, "scenes.noise_free=true"), rank=r, world=2) for r in range(2)]
    whole = BatchStream(tones, tiny_recipe(*changes, "scenes.noise_free=true", "data.shards=2")).batch(5)
    assert torch.equal(torch.cat([r.batch(5).described for r in ranks]), whole.described)
    with pytest.raises(ConfigError, match="noise_free and"):
        tiny_recipe("scenes.size=4", "scenes.noise_free=true", "scenes.classes=true")


def test_named_scenes_are_as_recorded_in_equal_parts_and_the_same_however_many_processes():
    tones = tone_set(per_emitter=12, emitters=4)
    tones.collections = ["left"] * 24 + ["right"] * 24
    named = ("extra.emitters_weight=1", "scenes.size=4", "scenes.named=1")
    stream = BatchStream(tones, tiny_recipe(*named, "scenes.named_from={right: 1}"))
    batches = [stream.batch(step) for step in range(6)]
    for batch in batches:
        assert (batch.scenes[:4] != NAMED).all() and (batch.scenes[4:] == NAMED).all()
        assert batch.plain[4:].all()
        assert sorted(batch.labels[4:].tolist()) == [2, 2, 3, 3], "both emitters of the collection, equally often"
        for row in deinterleave(batch.clean[4:]):
            unit = tones.sequences(np.arange(48))
            unit = unit / np.sqrt(np.square(np.abs(unit)).mean(1, keepdims=True))
            assert np.abs(unit - row.numpy()).max(1).min() < 1e-5, "a sequence as it was recorded"
    both = BatchStream(tones, tiny_recipe(*named))
    found = [tuple(sorted(set(both.batch(step).labels[4:].tolist()))) for step in range(20)]
    assert set(found) == {(0, 1), (2, 3)}, "every collection, and never two in one scene"
    ranks = [BatchStream(tones, tiny_recipe(*named), rank=r, world=2).batch(5) for r in range(2)]
    whole = BatchStream(tones, tiny_recipe(*named, "data.shards=2")).batch(5)
    assert torch.equal(torch.cat([r.clean for r in ranks]), whole.clean)
    assert torch.equal(torch.cat([r.scenes for r in ranks]), whole.scenes)


def test_scenes_as_recorded_may_begin_in_some_collections():
    tones = tone_set(per_emitter=12, emitters=4)
    tones.collections = ["left"] * 24 + ["right"] * 24
    alone = [f"scenes.{name}={int(name == 'recorded')}" for name in NAMES]
    changes = (*alone, "scenes.size=4", "scenes.related=[0, 1, 1]")  # relatives of the same collection
    found = {}
    for share in ("{right: 1}", "{left: 1, right: 1}"):
        stream = BatchStream(tones, tiny_recipe(*changes, f"scenes.recorded_from={share}"))
        labels = torch.cat([stream.batch(step).labels for step in range(12)])
        found[share] = float((labels >= 2).float().mean())
    assert found["{right: 1}"] == 1
    assert 0.2 < found["{left: 1, right: 1}"] < 0.8
    whole = BatchStream(tones, tiny_recipe(*changes, "scenes.recorded_from={right: 1}", "data.shards=2")).batch(5)
    ranks = [
        BatchStream(tones, tiny_recipe(*changes, "scenes.recorded_from={right: 1}"), rank=r, world=2) for r in range(2)
    ]
    assert torch.equal(torch.cat([r.batch(5).clean for r in ranks]), whole.clean)
    with pytest.raises(ConfigError, match=r"recorded_from: no recording of up \(there are: left, right\)"):
        BatchStream(tones, tiny_recipe(*changes, "scenes.recorded_from={up: 1}"))
    with pytest.raises(ConfigError, match="recorded_from: shares"):
        tiny_recipe(*changes, "scenes.recorded_from={left: -1, right: 2}")


def test_batches_without_named_scenes_are_what_they_were(data):
    """Naming adds scenes behind the others: what the others show is drawn as before."""
    data.collections = ["one"] * len(data)
    plain = BatchStream(data, tiny_recipe("scenes.size=4", "data.batch_size=4"))
    more = ("data.batch_size=8", "scenes.named=1", "extra.emitters_weight=1")
    named = BatchStream(data, tiny_recipe("scenes.size=4", *more))
    scenes = [(plain.batch(step).scenes, named.batch(step).scenes[:4]) for step in range(12)]
    assert all(torch.equal(before, now) for before, now in scenes)
    assert len({int(before[0]) for before, _ in scenes}) > 2, "scenes of several kinds"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("scenes.named=1",), "extra.emitters_weight"),
        (("scenes.named=2", "extra.emitters_weight=1"), "leaves no other scene"),
        (("scenes.named=1", "extra.emitters_weight=1", "scenes.classes=true"), "scenes.classes"),
        (("scenes.named=1", "extra.emitters_weight=1", "scenes.named_from={a: 0}"), "above 0"),
        (("scenes.named=1", "extra.emitters_weight=1", "scenes.named_from={a: -1}"), "above 0"),
        (("scenes.named=1", "extra.emitters_weight=1", "scenes.named_from={nowhere: 1}"), "no recording of nowhere"),
    ],
)
def test_named_scenes_that_cannot_be_are_refused(data, changes, message):
    with pytest.raises(ConfigError, match=message):
        BatchStream(data, tiny_recipe("scenes.size=4", *changes))


def test_a_single_emitter_is_nobody_to_tell_apart():
    alone = tone_set(emitters=1)
    with pytest.raises(ConfigError, match="nobody to tell apart"):
        BatchStream(alone, tiny_recipe("scenes.size=4", "scenes.named=1", "extra.emitters_weight=1"))


def test_members_of_a_scene_have_classes_and_the_same_however_many_processes():
    tones = tone_set(per_emitter=12, emitters=4)
    changes = ("scenes.size=4", "scenes.classes=true")
    stream = BatchStream(tones, tiny_recipe(*changes))
    batches = [stream.batch(step) for step in range(20)]
    for batch in batches:
        assert batch.kinds.tolist() == [0, 0, 2, 2, 4, 4, 6, 6], "two classes of two in each of two scenes"
        recorded = batch.labels[batch.plain].view(-1, 2)
        assert torch.equal(recorded[:, 0], recorded[:, 1]), "a class as recorded is of one emitter"
    assert sum(int(batch.plain.sum()) for batch in batches) > 0
    ranks = [BatchStream(tones, tiny_recipe(*changes), rank=r, world=2).batch(5) for r in range(2)]
    whole = BatchStream(tones, tiny_recipe(*changes, "data.shards=2")).batch(5)
    assert torch.equal(torch.cat([r.clean for r in ranks]), whole.clean)
    assert torch.equal(torch.cat([r.kinds for r in ranks]), whole.kinds)


def test_nothing_is_augmented_where_nothing_reads_it():
    quiet = ("networks.symmetry=false", "extra.descriptors_weight=1", "extra.descriptors_branch=clean")
    tones = tone_set()
    batch = BatchStream(tones, tiny_recipe(*quiet)).batch(3)
    read = BatchStream(tones, tiny_recipe(*quiet[:2])).batch(3)
    assert torch.equal(batch.noisy, batch.clean) and not batch.noise_power.any()
    assert torch.equal(read.clean, batch.clean) and not torch.equal(read.noisy, read.clean)
