"""Places of elements in compiled functions: single ones, of results whose shape depends on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from keras_installed import keras

import tapec

ops = keras.ops


def test_single_places_are_compiled() -> None:
    x = tapec.constant([[0.0, 0.0, 3.0], [0.0, 4.0, np.nan]])
    wanted = [int(axis[n]) for n in range(3) for axis in ops.nonzero(x)]
    found = tapec.compile(lambda x: [axis[n] for n in range(3) for axis in ops.nonzero(x)])(x)
    assert [int(place) for place in found] == wanted == [0, 2, 1, 1, 1, 2]
    with pytest.raises(tapec.errors.InvalidArgumentError, match="no element 3 other than zero"):
        tapec.compile(lambda x: ops.nonzero(x)[0][3])(x)


@pytest.mark.parametrize(
    "use",
    [
        lambda places: places,
        lambda places: places[-1],
        lambda places: places + 1,
        lambda places: places == 0,
        lambda places: ops.shape(places),
        lambda places: f"{places}",
        list,
        len,
    ],
)
def test_all_places_together_are_refused_by_name(use: Callable[[Any], Any]) -> None:
    with pytest.raises(NotImplementedError, match="nonzero cannot be compiled"):
        tapec.compile(lambda x: use(ops.nonzero(x)[0]), autograph=False)(tapec.ones([2]))


def test_images_are_equalized_in_a_compiled_step() -> None:
    """The layer asks for the first count that is not zero."""
    images = np.random.default_rng(0).integers(0, 99, (2, 6, 6, 3)).astype(np.float32)
    layer = keras.layers.Equalization()
    eager = np.asarray(layer(images, training=True))
    found = tapec.compile(lambda x: layer(x, training=True))(images).numpy()
    np.testing.assert_array_equal(found, eager)
    assert eager.max() == 255
