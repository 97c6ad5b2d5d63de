"""Slices of compiled functions whose place is a tensor, and whose size is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import errors

X = np.arange(12, dtype=np.float32).reshape(6, 2)


def window(x: Any, i: Any) -> Any:
    return x[i : i + 2]


def batch(x: Any, i: Any) -> Any:
    return x[i * 2 : (i + 1) * 2]


def strided(x: Any, i: Any) -> Any:
    return x[i : i + 4 : 2]


def along_another_axis(x: Any, i: Any) -> Any:
    return tapec.transpose(x)[:, i + 1 : i + 3]


def with_sizes(x: Any, i: Any) -> Any:
    return tapec.slice(x, [i, 0], [2, -1])


def with_a_vector(x: Any, i: Any) -> Any:
    return tapec.slice(x, tapec.stack([i, 0]), [2, 1])


def by_strided_slice(x: Any, i: Any) -> Any:
    return tapec.strided_slice(x, [i, 0], [i + 2, 1])


def of_a_size_from_a_shape(x: Any, i: Any) -> Any:
    n = tapec.shape(x)[1]
    total = x[:2] * 0.0
    for j in tapec.range(2):
        total += x[(i + j) * n : (i + j + 1) * n]
    return total


def slope(x: Any, i: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.reduce_sum(x[i : i + 3] ** 2.0)
    return tape.gradient(y, x)


CASES = [
    (window, 4),
    (batch, 2),
    (strided, 3),
    (along_another_axis, 3),
    (with_sizes, 4),
    (with_a_vector, 4),
    (by_strided_slice, 4),
    (of_a_size_from_a_shape, 1),
    (slope, 3),
]


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize(("function", "last"), CASES)
def test_they_slide_as_far_as_the_axis_goes(
    function: Callable[..., Any], last: int, jit: bool
) -> None:
    compiled = tapec.compile(function, jit=jit)
    x = tapec.constant(X)
    for i in range(last + 1):
        want = np.asarray(function(x, i))
        np.testing.assert_array_equal(np.asarray(compiled(x, tapec.constant(i))), want)
    with pytest.raises(errors.InvalidArgumentError, match="is not in"):
        compiled(x, tapec.constant(last + 1))


@pytest.mark.parametrize("i", [-6, -4, -3])
def test_negative_bounds_count_from_the_end(i: int) -> None:
    x = tapec.constant(X)
    np.testing.assert_array_equal(
        np.asarray(tapec.compile(window)(x, tapec.constant(i))), X[i : i + 2]
    )


@pytest.mark.parametrize("i", [-7, -2, -1, 5])
def test_what_would_be_cut_off_is_refused(i: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"a slice of 2 entries.*its begin = "):
        tapec.compile(window)(tapec.constant(X), tapec.constant(i))


def test_open_sizes_are_compared_at_the_call() -> None:
    f = tapec.compile(
        window, input_signature=[tapec.TensorSpec([None, 2]), tapec.TensorSpec([], "int32")]
    )
    x, i = tapec.constant(X), tapec.constant(4)
    np.testing.assert_array_equal(np.asarray(f(x, i)), X[4:])
    with pytest.raises(errors.InvalidArgumentError, match="is not in"):
        f(x[:5], i)


def test_parts_of_a_variable_are_assigned_at_a_place_that_only_the_run_knows() -> None:
    v = tapec.Variable([0.0] * 4)

    @tapec.compile
    def put(i: Any) -> None:
        v[i : i + 2].assign([1.0, 2.0])

    put(tapec.constant(1))
    with pytest.raises(errors.InvalidArgumentError):
        put(tapec.constant(3))
    assert v.numpy().tolist() == [0.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i:],
        lambda x, i: x[:i],
        lambda x, i: x[i : i * 2],
        lambda x, i: x[i + 2 : i],
        lambda x, i: tapec.slice(x, [i, 0], [-1, 2]),
    ],
)
def test_sizes_that_only_the_run_knows_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(
        errors.NotImplementedError, match=r"(?s)how many entries.*hint: .*x\[i:i \+ 2\]"
    ):
        tapec.compile(function)(tapec.constant(X), tapec.constant(1))
