import os

import pytest

from planformer.errors import InputError
from planformer.signals.replacing import replacing


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
        assert (temporary.parent, temporary.suffix) == (target.parent, ".txt")
    assert target.read_text() == "new"
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_failure_leaves_everything_as_it_was(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(KeyError), replacing(target) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_folders_cannot_be_replaced_and_must_exist(tmp_path):
    with pytest.raises(InputError, match="directory"), replacing(tmp_path):
        pass
    with pytest.raises(InputError, match="cannot write"), replacing(tmp_path / "no" / "a"):
        pass
