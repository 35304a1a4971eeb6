"""A run says what code it ran, with git and without."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import planformer
from planformer.training import run_folder
from planformer.training.run_folder import describe_run, source_commit
from training.conftest import tiny_recipe


def no_git(*args, **kwargs):
    raise FileNotFoundError("git")


class Installed:
    def __init__(self, text):
        self.text = text

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.text


def test_a_run_always_says_what_ran():
    commit = describe_run(tiny_recipe(), {}, 1)["commit"]
    assert re.fullmatch(r"[0-9a-f]{40}(\+edited)?|release \S+", commit)


def test_without_git_the_release_is_named(monkeypatch):
    monkeypatch.setattr(subprocess, "run", no_git)
    for text in (None, "", "{", "[]", json.dumps({"url": "file:///x", "dir_info": {"editable": True}})):
        monkeypatch.setattr(run_folder, "distribution", lambda name, text=text: Installed(text))
        assert source_commit() == f"release {planformer.__version__}"


def test_a_package_installed_from_a_commit_names_it(monkeypatch):
    monkeypatch.setattr(subprocess, "run", no_git)
    record = json.dumps({"url": "https://example.org/x", "vcs_info": {"vcs": "git", "commit_id": "ab" * 20}})
    monkeypatch.setattr(run_folder, "distribution", lambda name: Installed(record))
    assert source_commit() == "ab" * 20


def test_a_copy_inside_another_work_tree_is_not_that_trees_commit(tmp_path):
    """An unpacked archive or an environment below somebody's project."""
    package = tmp_path / "planformer"
    source = Path(planformer.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("weights", "__pycache__"))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    code = "from planformer.training.run_folder import source_commit; print(source_commit())"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert result.stdout.strip() == f"release {planformer.__version__}", result.stderr
