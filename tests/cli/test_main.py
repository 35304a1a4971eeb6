"""The group of verbs: quick help, one-line errors, exit codes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from planformer.cli import main as cli


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "planformer", *args], capture_output=True, text=True, check=False)


def test_help_lists_verbs_without_importing_torch() -> None:
    code = (
        "import sys\nfrom planformer.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n"
        "    assert stop.code == 0 and 'torch' not in sys.modules and 'typer' not in sys.modules\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for verb in cli.available_verbs():
        assert verb in result.stdout


def test_help_is_quick() -> None:
    best = min(_seconds("--help") for _ in range(3))
    assert best < 1.0


def _seconds(*args: str) -> float:
    start = time.perf_counter()
    run(*args)
    return time.perf_counter() - start


def test_unknown_verb_is_one_line_with_a_suggestion() -> None:
    result = run("embd")
    assert result.returncode == 2
    assert result.stderr.strip().count("\n") == 0
    assert "did you mean 'embed'" in result.stderr


def test_unknown_option_is_exit_code_2() -> None:
    result = run("info", "--no-such-option")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_own_error_becomes_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        @staticmethod
        def app(**_: object) -> None:
            raise cli.PlanFormerError("a.wav: bad\nheader")

    monkeypatch.setattr(cli.importlib, "import_module", lambda _: Broken)
    with pytest.raises(SystemExit) as stop:
        cli.main(["info"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: a.wav: bad header\n"


@pytest.mark.parametrize("verb", cli.available_verbs())
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    result = run(verb, "--help")
    assert result.returncode == 0, result.stderr
    assert "planformer " in result.stdout
