"""Sorting in compiled functions equals sorting eagerly, and NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapec
from tapec.errors import TapecError

TIES = np.array([[3.0, np.nan, 1.0, 3.0, -0.0], [0.0, -1.0, np.inf, 0.0, np.nan]])
LEAST = np.array([[7, -(2**31), 7, 2**31 - 1, 0, -1]], np.int32)


@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize(("x", "axis"), [(TIES, 0), (TIES, 1), (LEAST, -1)])
def test_compiled_order_is_the_eager_one(x: Any, axis: int, direction: str) -> None:
    def both(x: tapec.Tensor) -> tuple[tapec.Tensor, tapec.Tensor]:
        return tapec.argsort(x, axis, direction), tapec.sort(x, axis, direction)

    order, values = tapec.compile(both)(tapec.constant(x))
    eager_order, eager_values = both(tapec.constant(x))
    np.testing.assert_array_equal(order, eager_order)
    np.testing.assert_array_equal(values, eager_values)
    ascending = np.sort(x, axis)
    np.testing.assert_array_equal(
        values, ascending if "A" == direction[0] else np.flip(ascending, axis)
    )


def test_gradient_of_top_k_in_a_compiled_function() -> None:
    @tapec.compile
    def slope(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.reduce_sum(tapec.math.top_k(x, 2).values ** 3)
        return tape.gradient(y, x)

    assert slope(tapec.constant([3.0, 1.0, 2.0])).numpy().tolist() == [27.0, 0.0, 12.0]


def test_too_few_entries_for_top_k() -> None:
    with pytest.raises(TapecError, match="at least k=3 columns"):
        tapec.math.top_k([1.0, 2.0], 3)
