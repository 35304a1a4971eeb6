import numpy as np
import pytest
from PIL import Image

from planformer.errors import InputError
from planformer.signals import from_array
from planformer.signals.plot import plot_signal
from reference.signal_files import complex_noise, noise

SIGNALS = {
    "audio": from_array(noise(9000), rate=8000, kind="audio"),
    "iq": from_array(complex_noise(5000), rate=2e7, kind="iq"),
    "seismic": from_array(noise(9000).reshape(3, -1), rate=100, kind="seismic"),
    "image": from_array(np.random.default_rng(0).integers(0, 255, (30, 40, 3), np.uint8), kind="image"),
    "grey": from_array(np.random.default_rng(0).integers(0, 255, (3, 200), np.uint8), kind="image"),
    "video": from_array(np.random.default_rng(0).integers(0, 255, (3, 8, 8), np.uint8), rate=5, kind="video"),
    "text": from_array("some text " * 50, kind="text"),
    "two samples": from_array([0.0, 1.0]),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_every_kind_can_be_drawn(name, tmp_path):
    path = plot_signal(SIGNALS[name], tmp_path / "a.png", title="a [b] $c")
    with Image.open(path) as picture:
        colours = len(np.unique(np.asarray(picture.convert("L"))))
    assert colours > 20  # something is drawn


def test_nothing_is_left_behind_where_one_cannot_write(tmp_path):
    with pytest.raises(InputError):
        plot_signal(SIGNALS["text"], tmp_path / "missing" / "a.png", title="a")
    assert list(tmp_path.iterdir()) == []
