"""Checks of values, shapes and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tapec
from tapec import errors
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError


def test_check_numerics_says_where() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"loss : Tensor had -Inf and NaN values: 2 of 3"
    ):
        tapec.debugging.check_numerics([1.0, np.nan, -np.inf], "loss")


def test_check_gradients_finds_a_wrong_one() -> None:
    def wrong(x: tapec.Tensor) -> tapec.Tensor:
        return x * tapec.stop_gradient(x)

    with pytest.raises(InvalidArgumentError, match=r"d f\[1\] / d x\[1\]"):
        check_gradients(wrong, [tapec.constant([0.0, 2.0])])
    assert check_gradients(lambda x: x**3, [tapec.constant(2.0)]) < 0.1


def test_assertions() -> None:
    tapec.debugging.assert_shapes([(tapec.ones([2, 3]), "ab"), (tapec.ones([3]), "b")])
    with pytest.raises(errors.ValueError, match=r"dimension 0 must have size 3\. Received size 4"):
        tapec.debugging.assert_shapes([(tapec.ones([2, 3]), "ab"), (tapec.ones([4]), "b")])
    with pytest.raises(InvalidArgumentError, match=r"x < y did not hold.*\[\[1\]\]"):
        tapec.debugging.assert_less([1, 3], [2, 3])
