"""Indices that only the run knows, in loops and branches of compiled functions; arrays that grow there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import errors

X = np.arange(5, dtype=np.float32)


def summed(x: Any, places: Any) -> Any:
    total: Any = 0.0
    for i in places:
        total += x[i]
    return total


def mapped(x: Any, places: Any) -> Any:
    return tapec.map_fn(lambda i: x[i], places, fn_output_signature=tapec.float32)


def chosen(x: Any, places: Any) -> Any:
    return tapec.cond(x[0] < 1.0, lambda: tapec.reduce_sum(tapec.gather(x, places)), lambda: x[0])


def scattered(x: Any, places: Any) -> Any:
    for i in places:
        x = tapec.tensor_scatter_nd_update(x, [[i]], [7.0])
    return x


def sloped(x: Any, places: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = summed(x * x, places)
    return tape.gradient(y, x)


def written(x: Any, places: Any) -> Any:
    array = tapec.TensorArray(tapec.float32, size=5)
    for i in places:
        array = array.write(i, x[0] + 1.0)
    return array.stack()


def written_to_longer(x: Any, places: Any) -> Any:
    array = tapec.TensorArray(tapec.float32, size=5, dynamic_size=True)
    for i in places:
        array = array.write(i, x[0] + 1.0)
    return array.stack()


def read(x: Any, places: Any) -> Any:
    array = tapec.TensorArray(tapec.float32, size=tapec.shape(x)[0])
    array = array.unstack(x)
    total: Any = 0.0
    for i in places:
        total += array.read(i)
    return total


def searched(x: Any, places: Any) -> Any:
    i = places[0]
    while x[i] < x[places[1]]:
        i += 1
    return i


def vectorized(x: Any, places: Any) -> Any:
    return tapec.vectorized_map(lambda i: x[i] * 2.0, places)


def with_own_gradient(x: Any, places: Any) -> Any:
    @tapec.custom_gradient
    def twice(y: Any) -> Any:
        return y * 2.0, lambda upstream: upstream * tapec.reduce_sum(tapec.gather(y, places))

    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = twice(x)
    return tape.gradient(y, x)


def for_each_row(x: Any, places: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.gather(x, places) ** 2.0 * x[places[1]]
    return tape.jacobian(y, x)


def at_pairs(x: Any, places: Any) -> Any:
    return tapec.gather_nd(tapec.reshape(x, [5, 1]), tapec.stack([places, [0, 0]], 1))


@pytest.mark.parametrize("dynamic", ["auto", True])
@pytest.mark.parametrize("wrong", [5, -9])
@pytest.mark.parametrize(
    "function",
    [
        summed,
        mapped,
        chosen,
        scattered,
        sloped,
        written,
        written_to_longer,
        read,
        searched,
        vectorized,
        with_own_gradient,
        for_each_row,
        at_pairs,
    ],
)
def test_indices_are_checked(function: Callable[..., Any], wrong: int, dynamic: Any) -> None:
    compiled = tapec.compile(function, dynamic=dynamic)
    x = tapec.constant(X)
    fine = tapec.constant([0, 4])
    np.testing.assert_array_equal(np.asarray(compiled(x, fine)), np.asarray(function(x, fine)))
    with pytest.raises(errors.InvalidArgumentError, match=r"is not in \[0, 5\)|behind the end"):
        compiled(x, tapec.constant([1, wrong]))


def guarded(x: Any, i: Any) -> Any:
    """Finds the place of a number, if it is one; of numbers that are in no place, nothing may look for them."""
    place = -1
    if tapec.logical_and(x[0] <= i, i <= x[-1]):
        place = 0
        while x[place] < i:
            place += 1
    return place


def with_inner_loops(x: Any, i: Any) -> Any:
    total = 0.0
    for row in x:
        if row < i:
            for k in tapec.range(tapec.cast(i, tapec.int32)):
                total += x[k]
    return total


def with_arrays(x: Any, i: Any) -> Any:
    array, k = tapec.TensorArray(tapec.float32, size=5, element_shape=[]), 0
    while tapec.cast(k, tapec.float32) < i:
        array = array.write(k, x[k] + 1.0)
        k += 1
    return array.stack()


def with_finite_numbers(x: Any, i: Any) -> Any:
    return tapec.debugging.check_numerics(1.0 / i, "") if i != 0.0 else x[0]


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize(
    ("function", "fine", "wrong"),
    [
        (guarded, [-3.0, 0.0, 2.0, 4.0, 9.0], None),
        (with_inner_loops, [-9.0, 0.0, 2.0, 5.0], 6.0),
        (with_arrays, [-2.0, 0.0, 3.0, 5.0], 5.5),
        (with_finite_numbers, [0.0, 2.0], 1e-42),
    ],
)
def test_mapped_rows_check_only_what_each_of_them_does(
    function: Callable[..., Any], fine: list[float], wrong: float | None, jit: bool
) -> None:
    def rows(x: Any, places: Any) -> Any:
        return tapec.vectorized_map(lambda i: function(x, i), places)

    compiled = tapec.compile(rows, jit=jit)
    x, places = tapec.constant(X), tapec.constant(fine)
    want = [np.asarray(function(x, i)) for i in places]
    np.testing.assert_array_equal(np.asarray(compiled(x, places)), want)
    np.testing.assert_array_equal(np.asarray(rows(x, places)), want)
    if wrong is not None:
        bad = tapec.constant([fine[-1], wrong])
        for call in (compiled, rows):
            with pytest.raises(errors.InvalidArgumentError, match=r"is not in \[0, 5\)|Inf"):
                call(x, bad)


def test_a_failed_check_in_a_loop_changes_no_variable() -> None:
    v = tapec.Variable(0.0)

    @tapec.compile
    def f(x: Any, places: Any) -> None:
        for i in places:
            v.assign_add(x[i])

    f(tapec.constant(X), tapec.constant([1, 4]))
    with pytest.raises(errors.InvalidArgumentError):
        f(tapec.constant(X), tapec.constant([1, 5]))
    assert float(v) == 5.0


def growing() -> Any:
    return tapec.TensorArray(tapec.float32, size=0, dynamic_size=True)


def to_a_count(x: Any, n: Any) -> Any:
    array, i = growing(), 0
    while i < n:
        array = array.write(i, x[0])
        i += 1
    return array.stack()


def along_a_range(x: Any, n: Any) -> Any:
    array = growing()
    for i in tapec.range(n):
        array = array.write(i, x[0])
    return array.stack()


def until_a_break(x: Any, n: Any) -> Any:
    array = growing()
    for i in tapec.range(5):
        array = array.write(i, x[i])
        if i > n:
            break
    return array.stack()


def at_its_end(x: Any, n: Any) -> Any:
    array = growing()
    for row in x:
        if row < 1.0:
            continue
        array = array.write(array.size(), row)
    return array.stack()


def in_one_branch(x: Any, n: Any) -> Any:
    array = growing()
    if n > 2:
        array = array.write(0, x[0])
    return array.stack()


def in_one_function(x: Any, n: Any) -> Any:
    array = growing().write(0, x[0])
    return tapec.cond(n > 2, lambda: array.write(1, x[1]), lambda: array).stack()


def in_some_turns(x: Any, n: Any) -> Any:
    array = growing()
    for i in tapec.range(5):
        if x[i] < 3.0:
            array = array.write(i, x[i])
    return array.stack()


def perhaps_never(x: Any, n: Any) -> Any:
    array = growing()
    for _ in tapec.range(n):
        for i in tapec.range(5):
            array = array.write(i, x[i])
    return array.stack()


def taken_apart(x: Any, n: Any) -> Any:
    first = tapec.TensorArray(tapec.float32, size=2, dynamic_size=True)
    return tapec.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.unstack(x)), (0, first))[
        1
    ].stack()


def in_an_inner_loop(x: Any, n: Any) -> Any:
    array = growing()
    for row in x:
        for _ in tapec.range(n):
            array = array.write(array.size(), row)
    return array.stack()


@pytest.mark.parametrize(
    "function",
    [
        to_a_count,
        along_a_range,
        until_a_break,
        at_its_end,
        in_one_branch,
        in_one_function,
        in_some_turns,
        perhaps_never,
        taken_apart,
        in_an_inner_loop,
    ],
)
def test_growth_that_only_the_run_knows_is_refused(function: Callable[..., Any]) -> None:
    grows = "a TensorArray that grows|how long a TensorArray gets must be known"
    with pytest.raises(errors.TypeError, match=rf"(?s)({grows}).*hint: give it"):
        tapec.compile(function)(tapec.constant(X), tapec.constant(3))


def by_while_loop(x: Any) -> Any:
    def turn(i: Any, array: Any) -> Any:
        return i + 1, array.write(i, x[i] * 2.0)

    return tapec.while_loop(lambda i, _: i < 5, turn, (0, growing()))[1].stack()


def at_most(x: Any) -> Any:
    def turn(i: Any, array: Any) -> Any:
        return i + 1, array.write(i, x[i])

    return tapec.while_loop(lambda *_: True, turn, (0, growing()), maximum_iterations=4)[1].stack()


def to_a_size(x: Any) -> Any:
    array, i, n = growing(), tapec.constant(0), tapec.shape(x)[0]
    while i < n:
        array = array.write(i, x[i] + 1.0)
        i += 1
    return array.stack()


def downwards(x: Any) -> Any:
    array, i = growing(), tapec.constant(4)
    while i >= 0:
        array = array.write(4 - i, x[i])
        i -= 2
    return array.stack()


def in_pairs(x: Any) -> Any:
    array = growing()
    for i in tapec.range(3):
        array = array.write(2 * i, x[i])
        array = array.write(2 * i + 1, -x[i])
    return array.stack()


def counted_beside_rows(x: Any) -> Any:
    array, k = growing(), 0
    for row in x:
        array = array.write(k, row * 2.0)
        k += 1
    return array.stack()


def in_two_loops(x: Any) -> Any:
    array = growing()
    for i in tapec.range(2):
        for j in tapec.range(3):
            array = array.write(3 * i + j, x[i] * x[j])
    return array.stack()


def at_the_end(x: Any) -> Any:
    array = growing().write(0, x[1])
    for row in x:
        array = array.write(array.size(), row * 2.0)
    return array.stack()


def until_it_is_long(x: Any) -> Any:
    array = growing()
    while array.size() < 4:
        array = array.write(array.size(), x[array.size()] * 3.0)
    return array.stack()


def asked_for_its_size(x: Any) -> Any:
    array, total = growing(), 0.0
    for i in tapec.range(5):
        array = array.write(i, x[i])
        total += x[i] * tapec.cast(array.size(), tapec.float32)
    return array.stack() * total


def two_arrays(x: Any) -> Any:
    one, other = growing(), tapec.TensorArray(tapec.float32, size=2, dynamic_size=True)
    other = other.write(0, x[0]).write(1, x[1])
    for i in tapec.range(2, 5):
        one = one.write(one.size(), x[i] + tapec.cast(other.size(), tapec.float32))
        other = other.write(i, x[i] + tapec.cast(one.size(), tapec.float32))
    return tapec.concat([one.stack(), other.stack()], 0)


@pytest.mark.parametrize("dynamic", ["auto", True])
@pytest.mark.parametrize(
    "function",
    [at_the_end, until_it_is_long, asked_for_its_size, two_arrays],
)
def test_arrays_know_their_size_in_loops(function: Callable[..., Any], dynamic: Any) -> None:
    same_values_and_slopes(function, dynamic)


@pytest.mark.parametrize("dynamic", ["auto", True])
@pytest.mark.parametrize(
    "function",
    [by_while_loop, at_most, to_a_size, downwards, in_pairs, counted_beside_rows, in_two_loops],
)
def test_arrays_grow_as_far_as_counters_go(function: Callable[..., Any], dynamic: Any) -> None:
    same_values_and_slopes(function, dynamic)


def same_values_and_slopes(function: Callable[..., Any], dynamic: Any) -> None:
    def run(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x)

    x = tapec.constant(X)
    for got, want in zip(tapec.compile(run, dynamic=dynamic)(x), run(x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_loops_with_a_known_number_of_turns_have_no_condition() -> None:
    def turns(x: Any, end: Any) -> Any:
        return tapec.while_loop(lambda i, _: 2 * i < end, lambda i, y: (i + 1, y * x), (0, x))[1]

    x = tapec.constant(2.0)
    counted = tapec.compile(lambda x: turns(x, 7))
    assert float(counted(x)) == 32.0
    (loop,) = [op for op in counted.ir().entry.block.ops if op.name == "loop"]
    assert (loop.attrs["length"], len(loop.regions)) == (4, 1)
    assert float(tapec.compile(turns)(x, tapec.constant(7))) == 32.0
    assert float(tapec.compile(lambda x: turns(x, -1))(x)) == 2.0


def test_an_array_of_the_greatest_size_counts_beside_it() -> None:
    @tapec.compile
    def positive(x: Any) -> Any:
        array, count = tapec.TensorArray(tapec.float32, size=5), 0
        for row in x:
            if row > 1.0:
                array = array.write(count, row)
                count += 1
        return array.stack(), count

    rows, count = positive(tapec.constant(X))
    assert np.asarray(rows).tolist() == [2.0, 3.0, 4.0, 0.0, 0.0]
    assert int(count) == 3


def test_behind_the_loop_in_which_it_grows_an_array_knows_its_size() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        array = growing()
        for row in x:
            for i in tapec.range(3):
                array = array.write(i, row + x[i])
        return array.stack(), array.size()

    rows, size = f(tapec.constant(X))
    assert np.asarray(rows).tolist() == [4.0, 5.0, 6.0]
    assert int(size) == 3


@pytest.mark.parametrize("name", ["sum", "mean", "sqrt_n", "max", "min", "prod"])
def test_segments_that_are_not_there_are_refused(name: str) -> None:
    function = getattr(tapec.math, f"unsorted_segment_{name}")
    step = tapec.compile(lambda x, ids: function(x, ids, 3))
    kept = tapec.constant([0, -1, 2, 2, 0])
    np.testing.assert_allclose(step(X, kept), function(X, kept, 3), rtol=1e-6)
    with pytest.raises(errors.InvalidArgumentError, match=r"is not in \[0"):
        step(X, tapec.constant([0, 1, 2, 3, 0]))


def test_without_segments_every_entry_is_left_out() -> None:
    step = tapec.compile(lambda x, ids: tapec.math.unsorted_segment_sum(x, ids, 0))
    assert step(X, -tapec.ones([5], tapec.int32)).shape == (0,)
    with pytest.raises(errors.InvalidArgumentError, match="there are no segments"):
        step(X, tapec.zeros([5], tapec.int32))
