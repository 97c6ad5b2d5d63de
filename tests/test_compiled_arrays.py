"""NumPy arrays in compiled functions: inputs, wherever they come from, with what they hold when they are used."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import tapec


def test_arrays_from_outside_are_inputs_not_constants() -> None:
    table = np.arange(40, dtype=np.float32)
    f = tapec.compile(lambda x: x + table)
    x = tapec.zeros([40])
    assert f(x).numpy()[0] == 0
    table[0] = 5.0
    assert f(x).numpy()[0] == 5


def test_an_array_that_the_function_changes() -> None:
    """What the function itself writes into an array counts at the place where it is used."""

    def function(x: tapec.Tensor) -> Any:
        mask = np.zeros(3, np.float32)
        total = x * 0.0
        for i in range(3):
            mask[:] = 0
            mask[i] = i + 1
            total = total + x * mask
        return total

    x = tapec.constant([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(tapec.compile(function)(x).numpy(), function(x).numpy())


def test_arrays_with_one_element_are_inputs_too() -> None:
    one, scalar = np.array([1.0], np.float32), np.array(1.0, np.float32)
    function = tapec.compile(lambda x: x * one + scalar)
    assert function(tapec.constant([1.0])).numpy() == [2.0]
    one[0], scalar[...] = 5.0, 7.0
    assert function(tapec.constant([1.0])).numpy() == [12.0]


def test_arrays_of_other_byte_order_and_from_pickle() -> None:
    swapped = np.arange(3, dtype=">f4")
    pickled = pickle.loads(pickle.dumps(np.arange(3, dtype=np.float32)))
    for array in (swapped, pickled):
        function = tapec.compile(lambda x, array=array: x + array)
        np.testing.assert_array_equal(function(array).numpy(), [0, 2, 4])
        np.testing.assert_array_equal(function(tapec.constant(array)).numpy(), [0, 2, 4])
