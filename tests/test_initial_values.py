"""Variables that a compiled function makes at its first call begin with what eager ones begin with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import value

import tapec

K = tapec.constant([1.0, 3.0])
W = tapec.Variable([5.0, 6.0])
ARRAY = np.array([7.0, 8.0], np.float32)


def turned(x: Any) -> Any:
    total = tapec.zeros([2])
    for _ in tapec.range(3):
        total = total + x
    return total


#: What of an argument, in a compiled function.
INITIAL: dict[str, Callable[[Any], Any]] = {
    "a literal": lambda x: tapec.zeros([2]),
    "zeros like a Variable": tapec.zeros_like,
    "an argument": lambda x: x,
    "computed of an argument": lambda x: x * 2.0,
    "the shape of an argument": lambda x: tapec.ones(tapec.shape(x)),
    "a constant from outside": lambda x: K + 1.0,
    "an array from outside": lambda x: tapec.constant(ARRAY) + 1.0,
    "a Variable's value": lambda x: W.read_value(),
    "computed of a Variable": lambda x: W * 2.0,
    "a loop": turned,
    "a branch": lambda x: x if x[0] > 0.0 else -x,
    "a function": lambda x: lambda: tapec.zeros([2]),
    "random numbers with a key": lambda x: tapec.random.stateless_normal([2], [1, 2]),
    "Python's": lambda x: tapec.numpy_function(lambda a: a * 3.0, [x], tapec.float32),
}


def made_at_first(initial: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that makes a Variable at its first call, adds one at each, and says what it holds."""
    made: list[tapec.Variable] = []

    def f(x: Any) -> Any:
        if not made:
            made.append(tapec.Variable(initial(x)))
        made[0].assign_add(tapec.ones_like(made[0]))
        return made[0].read_value()

    return f


@pytest.mark.parametrize("sizes", [None, {"x": ("N",)}], ids=["closed", "open"])
@pytest.mark.parametrize("name", INITIAL)
def test_initial_values(name: str, sizes: Any) -> None:
    eager = made_at_first(INITIAL[name])
    compiled = tapec.compile(made_at_first(INITIAL[name]), dims=sizes)
    for _ in range(2):
        x = tapec.constant([1.0, -2.0])
        assert value(compiled(x)).tolist() == value(eager(x)).tolist()


def in_a_branch(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: f(x) if x[0] > 0.0 else tapec.zeros_like(x)


def in_two_branches(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return in_a_branch(in_a_branch(f))


def in_a_loop(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def repeated(x: Any) -> Any:
        y = tapec.zeros_like(x)
        for _ in tapec.range(2):
            y = f(x)
        return y

    return repeated


@pytest.mark.parametrize("around", [in_a_branch, in_two_branches, in_a_loop])
@pytest.mark.parametrize("name", INITIAL)
def test_initial_values_in_branches_and_loops(name: str, around: Callable[..., Any]) -> None:
    eager = around(made_at_first(INITIAL[name]))
    compiled = tapec.compile(around(made_at_first(INITIAL[name])))
    for _ in range(2):
        x = tapec.constant([1.0, -2.0])
        assert value(compiled(x)).tolist() == value(eager(x)).tolist()


def test_an_initial_value_in_a_branch_is_what_a_variable_holds_there() -> None:
    v, made = tapec.Variable([1.0, 2.0]), list[tapec.Variable]()

    @tapec.compile
    def f(x: Any) -> Any:
        v.assign(v * 2.0)
        if x > 0.0:
            v.assign(v + 1.0)
            if not made:
                made.append(tapec.Variable(v * 10.0))
        return made[0] + 0.0

    assert value(f(tapec.constant(1.0))).tolist() == [30.0, 50.0]
    assert value(v).tolist() == [3.0, 5.0]


def test_what_a_loop_carries_is_no_initial_value() -> None:
    made: list[tapec.Variable] = []

    @tapec.compile
    def f(x: Any) -> Any:
        for _ in tapec.range(3):
            x = x * 2.0
            if not made:
                made.append(tapec.Variable(x))
        return x

    with pytest.raises(
        tapec.errors.TypeError, match="initial value of a Variable cannot be computed"
    ):
        f(tapec.constant(1.0))


def test_random_initial_values_are_drawn_once() -> None:
    def drawn(wrap: Callable[[Any], Any]) -> list[list[float]]:
        tapec.random.set_seed(1)
        made: list[tapec.Variable] = []

        @wrap
        def f() -> Any:
            for _ in range(2 - len(made)):
                made.append(tapec.Variable(tapec.random.normal([2])))
            return made[0] + 0.0, made[1] + 0.0, tapec.random.normal([2])

        return [value(part).tolist() for _ in range(2) for part in f()]

    np.testing.assert_allclose(drawn(tapec.compile), drawn(lambda f: f), rtol=1e-5)


def test_an_argument_without_elements() -> None:
    f = tapec.compile(made_at_first(lambda x: x * 2.0))
    with pytest.raises(
        tapec.errors.TypeError, match=r"(?s)argument %x has no elements.*hint: make the Variable"
    ):
        f.trace(tapec.TensorSpec([2]))


@pytest.mark.parametrize("mask", [[True, False, True], [False] * 3])
def test_a_literal_mask_chooses_entries(mask: list[bool]) -> None:
    x = tapec.constant([[1.0], [2.0], [3.0]])
    compiled = tapec.compile(lambda x: tapec.boolean_mask(x, mask))
    assert value(compiled(x)).tolist() == value(tapec.boolean_mask(x, mask)).tolist()


def test_a_program_does_not_keep_the_arrays_of_its_first_call() -> None:
    array = np.ones(3, np.float32)
    before = sys.getrefcount(array)
    compiled = tapec.compile(lambda x: x * 2.0)
    compiled(array)
    compiled(np.zeros(3, np.float32))
    assert sys.getrefcount(array) == before
