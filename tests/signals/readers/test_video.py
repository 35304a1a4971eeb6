import numpy as np
import pytest

from planformer.signals import prepare, prepare_images, read
from reference.signal_files import write_video

CODECS = [("a.mp4", "mpeg4", "yuv420p", 3), ("a.avi", "mjpeg", "yuvj420p", 3), ("a.mkv", "ffv1", "gray", 1),
          ("a.gif", "gif", "rgb8", 3), ("a.webm", "libvpx", "yuv420p", 3)]  # fmt: skip


@pytest.mark.parametrize(("name", "codec", "pixel_format", "channels"), CODECS)
def test_one_segment_a_frame(name, codec, pixel_format, channels, tmp_path):
    signal = read(write_video(tmp_path / name, codec, pixel_format))
    assert signal.samples.shape == (channels, 6 * 5120)
    assert signal.provenance["frames"] == 6
    assert signal.duration == pytest.approx(0.6)
    assert prepare(signal).shape == (channels, 6, 5120)


def test_a_frame_is_prepared_as_an_image(tmp_path):
    path = write_video(tmp_path / "a.mkv", "ffv1", "gray")
    expected = np.zeros((6, 24, 32), np.uint8)
    for index in range(6):
        expected[index, :, index * 4 : index * 4 + 6] = 220
    assert np.allclose(prepare(read(path)), prepare_images(expected)[:, :, 0].transpose(1, 0, 2), atol=0.02)


def test_the_first_frame_alone(tmp_path):
    path = write_video(tmp_path / "a.mp4")
    whole, first = read(path), read(path, first_frame=True)
    assert first.provenance["frames"] == 1
    assert np.array_equal(first.samples, whole.samples[:, :5120])


def test_large_frames_are_shrunk_first(tmp_path, monkeypatch):
    from planformer.signals.readers import video

    path = write_video(tmp_path / "a.mkv", "ffv1", "gray", size=(64, 48))
    whole = prepare(read(path))
    monkeypatch.setattr(video, "FRAME_PIXELS", 768)
    small = prepare(read(path))
    assert small.shape == whole.shape
    assert np.abs(np.vdot(small, whole)) / np.vdot(whole, whole).real > 0.5  # still the same picture
