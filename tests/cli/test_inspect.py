import json
import subprocess
import sys

import numpy as np
import pytest

from planformer.cli.main import main
from reference.signal_files import VALID, make_file, write_metadata, write_sigmf_pair, write_sound


def run(capsys, *arguments):
    """Exit code, standard output, standard error of the command line, in this process."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


@pytest.mark.parametrize("name", VALID)
def test_every_kind(name, tmp_path, capsys):
    path = make_file(name, tmp_path)
    code, out, err = run(capsys, "inspect", path, "--rate", "1e6", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["file"] == str(path)
    assert found["samples"] > 1
    assert found["power"] > 0


def test_the_table_says_what_matters(tmp_path, capsys):
    path = write_sound(tmp_path / "two channels.wav", 0.1 * np.random.default_rng(0).normal(size=(16_000, 2)), 16_000)
    code, out, _ = run(capsys, "inspect", path)
    assert code == 0
    for words in ("audio", "16 kHz", "16,000", "1 s", "dynamic range", "power", "2 channels"):
        assert words in out


def test_channels_kind_and_key_reach_the_reader(tmp_path, capsys):
    sound = write_sound(tmp_path / "a.wav", 0.1 * np.random.default_rng(0).normal(size=(900, 2)))
    assert json.loads(run(capsys, "inspect", sound, "--channels", "each", "--json")[1])["channels"] == 2
    assert json.loads(run(capsys, "inspect", sound, "--kind", "text", "--json")[1])["kind"] == "text"
    np.savez(tmp_path / "a.npz", x=np.arange(9.0), y=np.arange(7.0))
    assert json.loads(run(capsys, "inspect", tmp_path / "a.npz", "--key", "y", "--json")[1])["samples"] == 7
    video = make_file("mp4", tmp_path)
    assert json.loads(run(capsys, "inspect", video, "--first-frame", "--json")[1])["samples"] == 5120
    raw = tmp_path / "a.bin"
    np.random.default_rng(0).integers(-99, 99, 100, dtype=np.int16).tofile(raw)
    found = json.loads(run(capsys, "inspect", raw, "--datatype", "ci16_le", "--rate", "5", "--json")[1])
    assert (found["kind"], found["samples"]) == ("iq", 50)


@pytest.mark.parametrize("name", ["wav", "sigmf", "png", "text"])
def test_plots(name, tmp_path, capsys):
    code, _, _ = run(capsys, "inspect", make_file(name, tmp_path), "--plot", tmp_path / "look.png")
    assert code == 0
    assert (tmp_path / "look.png").stat().st_size > 10_000


def test_several_files_several_plots_and_one_bad_one(tmp_path, capsys):
    files = [make_file("wav", tmp_path), tmp_path / "missing.wav", make_file("text", tmp_path)]
    files[2] = files[2].rename(tmp_path / "b.txt")
    code, out, err = run(capsys, "inspect", *files, "--plot", tmp_path / "p.png", "--json")
    assert code == 2
    assert len(out.splitlines()) == 2
    assert err.count("\n") == 1
    assert "missing.wav" in err
    assert {path.name for path in tmp_path.glob("p*.png")} == {"p-a.png", "p-b.png"}


def bad_files(folder):
    """Name -> a file of the list of bad inputs, and options."""
    write_sound(folder / "silent.wav", np.zeros(900))
    write_sound(folder / "none.wav", np.zeros(0))
    cut = write_sound(folder / "cut.wav")
    cut.write_bytes(cut.read_bytes()[:-500])
    (folder / "empty.png").touch()
    (folder / "magic.flac").write_text("not a sound at all")
    odd = write_sigmf_pair(folder / "odd")
    odd.with_suffix(".sigmf-data").write_bytes(bytes(range(9)))
    write_metadata(write_sigmf_pair(folder / "type"), "cq99")
    write_sigmf_pair(folder / "alone").with_suffix(".sigmf-data").unlink()
    np.array([1, np.nan, 2], np.complex64).tofile(folder / "nan.cf32")
    return {
        "missing": ["nothing here ü.wav"], "silent": ["silent.wav"], "none": ["none.wav"], "cut": ["cut.wav"],
        "empty": ["empty.png"], "magic": ["magic.flac"], "odd": ["odd.sigmf-meta"], "type": ["type.sigmf-meta"],
        "alone": ["alone.sigmf-meta"], "nan": ["nan.cf32", "--rate", "5"], "rate": ["nan.cf32", "--rate", "0"],
        "directory": ["."],
    }  # fmt: skip


CASES = ["missing", "silent", "none", "cut", "empty", "magic", "odd", "type", "alone", "nan", "rate", "directory"]


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_code_two(case, tmp_path, capsys):
    file, *options = bad_files(tmp_path)[case]
    before = {path.name for path in tmp_path.iterdir()}
    code, out, err = run(capsys, "inspect", tmp_path / file, *options, "--plot", tmp_path / "plot.png")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert str(tmp_path / file) in err
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("plot", ["look.txt", "missing/look.png"])
def test_a_picture_that_cannot_be_written(plot, tmp_path, capsys):
    code, _, err = run(capsys, "inspect", make_file("wav", tmp_path), "--plot", tmp_path / plot)
    assert (code, err.count("\n")) == (2, 1)


def test_from_the_shell_without_torch(tmp_path):
    path = make_file("wav", tmp_path)
    code = "import sys; from planformer.cli.main import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "audio" in done.stdout
