"""Checks of values, shapes and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapec
from tapec import debugging, errors
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
    for f in (lambda x: x, lambda x: tapec.complex(tapec.math.real(x), 0.0)):
        with pytest.raises(TypeError, match="is complex"):
            check_gradients(f, [tapec.constant(1j)])
    with pytest.raises(TypeError, match="the result is complex"):
        check_gradients(lambda x: tapec.complex(x, x), [tapec.constant(1.0)])


def test_assertions() -> None:
    tapec.debugging.assert_shapes([(tapec.ones([2, 3]), "ab"), (tapec.ones([3]), "b")])
    with pytest.raises(errors.ValueError, match=r"dimension 0 must have size 3\. Received size 4"):
        tapec.debugging.assert_shapes([(tapec.ones([2, 3]), "ab"), (tapec.ones([4]), "b")])
    with pytest.raises(InvalidArgumentError, match=r"x < y did not hold.*\[\[1\]\]"):
        tapec.debugging.assert_less([1, 3], [2, 3])


def test_assertions_about_kinds() -> None:
    one, vector = tapec.constant(1.0), tapec.constant([1.0])
    debugging.assert_integer(tapec.constant([1]))
    debugging.assert_scalar(one)
    debugging.assert_rank_in(vector, [0, 1])
    debugging.assert_rank_at_least(vector, 1)
    debugging.assert_type(one, "float32")
    debugging.assert_proper_iterable([1])
    debugging.assert_none_equal([1, 2], [2, 1])
    assert debugging.assert_same_float_dtype() == tapec.float32
    assert debugging.assert_same_float_dtype([one, None], tapec.float32) == tapec.float32
    numeric = [one, tapec.constant(1j), tapec.constant(True), 1.0, tapec.Variable(1)]
    assert [*map(debugging.is_numeric_tensor, numeric)] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("check", "kind", "words"),
    [
        (lambda: debugging.assert_integer(tapec.constant(1.0)), errors.TypeError, "integer"),
        (lambda: debugging.assert_scalar([1.0]), errors.ValueError, "must have rank 0"),
        (lambda: debugging.assert_rank_in(1.0, [1, 2]), errors.ValueError, r"rank in \[1, 2\]"),
        (lambda: debugging.assert_rank_at_least(1.0, 1), errors.ValueError, "rank at least 1"),
        (lambda: debugging.assert_type(1.0, tapec.float64), errors.TypeError, "must be of type"),
        (lambda: debugging.assert_proper_iterable("a"), errors.TypeError, "proper"),
        (lambda: debugging.assert_proper_iterable(3), errors.TypeError, "proper"),
        (lambda: debugging.assert_none_equal([1, 2], [2, 2]), InvalidArgumentError, "x != y"),
        (
            lambda: debugging.assert_same_float_dtype([tapec.constant(1)]),
            errors.ValueError,
            "Expected floating point type",
        ),
        (
            lambda: debugging.assert_same_float_dtype([tapec.constant(1.0)], tapec.float64),
            errors.ValueError,
            "must have one dtype",
        ),
    ],
)
def test_assertions_raise(check: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        check()


def test_placements_are_remembered() -> None:
    assert not tapec.debugging.get_log_device_placement()
    tapec.debugging.set_log_device_placement(True)
    assert tapec.debugging.get_log_device_placement()
    tapec.debugging.set_log_device_placement(False)
    assert not tapec.debugging.get_log_device_placement()


def test_a_wrong_gradient_says_what_to_do() -> None:
    @tapec.custom_gradient
    def doubled(x: Any) -> Any:
        return 2.0 * x, lambda upstream: 3.0 * upstream

    with pytest.raises(tapec.errors.InvalidArgumentError, match="hint: if f has a custom_gradient"):
        tapec.debugging.check_gradients(doubled, [tapec.constant(1.0)])
