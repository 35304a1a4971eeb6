import numpy as np

from planformer.signals import from_array, read


def test_bytes_are_samples(tmp_path):
    content = "naïve – 信号\n".encode() * 30
    (tmp_path / "a.txt").write_bytes(content)
    signal = read(tmp_path / "a.txt")
    assert bytes(signal.samples[0].real.astype(np.uint8)) == content
    assert np.array_equal(signal.samples, from_array(content, kind="text").samples)
    assert (signal.rate, signal.kind, signal.is_analytic) == (1.0, "text", True)
