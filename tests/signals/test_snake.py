import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planformer.signals import roll_back, snake_indices, unwrap

sizes = st.integers(1, 40)


@given(height=sizes, width=sizes)
@settings(max_examples=80, deadline=None)
def test_each_pass_is_a_bijection_of_the_pixels(height, width):
    path = snake_indices(height, width)
    count = height * width
    assert np.array_equal(np.sort(path[:count]), np.arange(count))
    assert np.array_equal(np.sort(path[count:]), np.arange(count))


@given(height=sizes, width=sizes)
@settings(max_examples=80, deadline=None)
def test_neighbours_on_a_pass_are_neighbours_in_the_image(height, width):
    count = height * width
    for part in np.split(snake_indices(height, width), [count]):
        row, column = np.divmod(part, width)
        assert (np.abs(np.diff(row)) + np.abs(np.diff(column)) == 1).all()


def test_the_vertical_pass_comes_first_and_runs_down_the_first_column():
    image = np.arange(6).reshape(3, 2)  # columns 0 2 4 and 1 3 5
    assert unwrap(image).tolist() == [0, 2, 4, 5, 3, 1, 0, 1, 3, 2, 4, 5]


@given(height=sizes, width=sizes, seed=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_rolling_back_gives_the_image(height, width, seed):
    images = np.random.default_rng(seed).normal(size=(2, height, width))
    assert np.allclose(roll_back(unwrap(images), height, width), images)


def test_rolling_back_averages_the_passes():
    path = unwrap(np.zeros((2, 2)))
    path[:4] = 1  # the vertical pass says 1, the horizontal one 0
    assert np.array_equal(roll_back(path, 2, 2), np.full((2, 2), 0.5))


def test_a_path_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="12 points"):
        roll_back(np.zeros(10), 2, 3)
