import pickle

import h5py
import numpy as np
import pytest

from planformer.errors import InputError
from planformer.signals import prepare, prepare_images, read
from reference.signal_files import complex_noise, noise

X = noise(900).astype(np.float32).reshape(3, 300)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.int64, ">i4", bool]
)
def test_every_number_type(dtype, tmp_path):
    x = X > 0 if dtype is bool else (20 * np.abs(X)).astype(dtype)
    np.save(tmp_path / "a.npy", x)
    assert np.array_equal(read(tmp_path / "a.npy").samples.real, x.astype(np.float32))


def test_complex_arrays_stay(tmp_path):
    z = complex_noise(200).astype(np.complex128)
    np.save(tmp_path / "a.npy", z)
    signal = read(tmp_path / "a.npy", rate=10)
    assert np.array_equal(signal.samples[0], z.astype(np.complex64))
    assert (signal.is_analytic, signal.rate) == (False, 10)


def test_the_longer_axis_is_time(tmp_path):
    np.save(tmp_path / "a.npy", X.T)
    signal = read(tmp_path / "a.npy")
    assert np.array_equal(signal.samples.real, X)
    assert signal.provenance["transposed"]


def test_fortran_order_and_a_kind(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(X))
    signal = read(tmp_path / "a.npy", kind="seismic", rate=100)
    assert (signal.kind, signal.duration) == ("seismic", 3)
    assert np.array_equal(signal.samples.real, X)


def test_pickles_are_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("the pickle was loaded",))

    np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([Trap()], dtype=object))
    (tmp_path / "b.npy").write_bytes(pickle.dumps([1, 2]))
    for name in ("a.npy", "a.npz", "b.npy"):
        with pytest.raises(InputError):
            read(tmp_path / name)


def test_npz_needs_a_key_only_when_there_is_a_choice(tmp_path):
    np.savez(tmp_path / "one.npz", x=X)
    assert np.array_equal(read(tmp_path / "one.npz").samples.real, X)
    np.savez(tmp_path / "two.npz", x=X, y=-X)
    with pytest.raises(InputError, match=r"--key.*x, y"):
        read(tmp_path / "two.npz")
    with pytest.raises(InputError, match="no array 'z'"):
        read(tmp_path / "two.npz", key="z")
    assert np.array_equal(read(tmp_path / "two.npz", key="y").samples.real, -X)


def test_an_archive_states_its_rate(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, rate=100.0)
    assert read(tmp_path / "a.npz", key="x").rate == 100
    assert read(tmp_path / "a.npz", key="x", rate=50).rate == 50


def test_hdf5_with_and_without_a_key(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/x"] = X
        file["deep/x"].attrs["sampling_rate"] = 40.0
        file["names"] = np.array([b"a", b"b"])
    with pytest.raises(InputError, match="deep/x"):
        read(tmp_path / "a.h5")
    signal = read(tmp_path / "a.h5", key="/deep/x")
    assert signal.rate == 40
    assert np.array_equal(signal.samples.real, X)
    with pytest.raises(InputError, match="not numbers"):
        read(tmp_path / "a.h5", key="names")


@pytest.mark.parametrize(
    ("delimiter", "header"), [(",", "a,b,c\n"), (";", "a;b;c\n"), ("\t", ""), (" ", ""), (",", "# x\n")]
)
def test_csv_columns_are_channels(delimiter, header, tmp_path):
    header = header.replace(",", delimiter)
    rows = "\n".join(delimiter.join(f"{v:.8g}" for v in row) for row in X.T)
    (tmp_path / "a.csv").write_text(header + rows + "\n")
    signal = read(tmp_path / "a.csv")
    assert np.allclose(signal.samples.real, X, rtol=1e-6)
    if header.startswith("a"):
        assert np.allclose(read(tmp_path / "a.csv", key="b").samples.real, X[1:2], rtol=1e-6)


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,x\n", "a,b\n", "# nothing\n", "1,2\n3\n", "a,b\n1,\n2,\n"])
def test_what_is_no_table_of_numbers(text, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3, 4), (5000, 6000)])
def test_shapes_that_are_no_signal(shape, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(shape, np.uint8))
    with pytest.raises(InputError):
        read(tmp_path / "a.npy")


def test_pictures_in_arrays(tmp_path):
    clip = np.random.default_rng(0).integers(0, 255, (4, 9, 7, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", clip)
    np.save(tmp_path / "b.npy", clip[0])
    video = prepare(read(tmp_path / "a.npy", kind="video"))
    image = prepare(read(tmp_path / "b.npy", kind="image"))
    assert np.allclose(video, np.moveaxis(prepare_images(clip)[:, :, 0], 0, 1), atol=1e-5)
    assert np.allclose(image, prepare_images(clip[:1])[0], atol=1e-5)
