"""The evaluation sets share no radio (modulation), channel, symbol or day with training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planformer.data.heldout import evaluation_sets, write_evaluation
from planformer.errors import InputError


def test_sets_have_whole_recordings_on_either_side(tmp_path: Path) -> None:
    done = list(write_evaluation(tmp_path, sequences=2, recordings=3))
    assert len(done) == 8 * 3 + 4 * 3 * 3
    sets = evaluation_sets(tmp_path)
    assert sets["modulation"].samples.shape == (48, 5120)
    assert sets["modulation"].classes == sorted(["BPSK", "QPSK", "8PSK", "CPFSK", "GFSK", "PAM4", "16QAM", "64QAM"])
    assert sets["fingerprint"].samples.shape == (72, 5120)
    for part in sets.values():
        assert part.samples.dtype == np.complex64
        assert not set(part.groups[part.test]) & set(part.groups[~part.test])
        assert set(part.labels[part.test]) == set(part.labels[~part.test]) == set(range(len(part.classes)))
    tested = sets["fingerprint"].test
    protocols = np.array(sets["fingerprint"].protocols)
    assert set(protocols[tested]) == {"WiFi", "4G", "5G"}


def test_missing_set_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="planformer simulate eval"):
        evaluation_sets(tmp_path)


def test_more_recordings_are_planned_as_they_are_written(tmp_path: Path) -> None:
    """Their number decides the fixed test set, too: the last two fifths of every class."""
    from planformer.data.heldout import planned_evaluation

    count, samples = planned_evaluation(recordings=5)
    assert (count, samples) == (8 * 5 + 12 * 5, 100 * 20 * 5120)
    assert len(list(write_evaluation(tmp_path, sequences=1, recordings=5))) == count
    for part in evaluation_sets(tmp_path).values():
        assert float(part.test.mean()) == pytest.approx(0.4)
