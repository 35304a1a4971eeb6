"""Records survive kills and full disks as whole lines."""

import json

from planformer.training.metrics import MetricsLog, read_metrics


def test_lines_are_json_even_for_numbers_that_json_does_not_have(tmp_path):
    log = MetricsLog(tmp_path / "m.jsonl")
    log.write("step", 1, {"loss": float("nan"), "rate": 0.1 + 0.2})
    log.close()
    (record,) = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert record == {"kind": "step", "step": 1, "loss": "nan", "rate": 0.1 + 0.2}


def test_cut_keeps_earlier_steps_and_drops_half_a_line(tmp_path):
    path = tmp_path / "m.jsonl"
    log = MetricsLog(path)
    for step in range(5):
        log.write("step", step, {"loss": 1.0 * step})
    log.close()
    with path.open("a") as stream:
        stream.write('{"kind": "step", "st')
    log.cut_after(2)
    assert [record["step"] for record in read_metrics(path)] == [0, 1, 2]
    log.cut_after(-1)
    assert not list(read_metrics(path))


def test_a_full_disk_costs_records_not_the_run(tmp_path, monkeypatch):
    log = MetricsLog(tmp_path / "m.jsonl")
    log.write("step", 1, {})

    class Full:
        def write(self, text):
            raise OSError(28, "No space left on device")

        def close(self):
            raise OSError(28, "No space left on device")

    log._file = Full()
    log.write("step", 2, {})
    assert log.lost == 1
    log.write("step", 3, {})
    log.close()
    assert [record["step"] for record in read_metrics(tmp_path / "m.jsonl")] == [1, 3]


def test_tensorboard_gets_the_same_numbers(tmp_path):
    log = MetricsLog(tmp_path / "m.jsonl", tensorboard=tmp_path / "board")
    log.write("step", 1, {"loss": 2.0, "name": "x"})
    log.close()
    assert list((tmp_path / "board").iterdir())
