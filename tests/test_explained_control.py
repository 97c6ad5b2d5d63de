"""Explanations of what happens in branches, loops and calls: eager, compiled, and compiled under an eager tape."""

from __future__ import annotations

from typing import Any

import pytest

import tapec
from tapec.explanations.explanation import Explanation

A, B = tapec.Variable(2.0, name="a"), tapec.Variable(1.5, name="b")
ONE = tapec.constant(1.0)


def explained(loss: Any, sources: Any, way: str) -> list[Explanation]:
    """Why gradients of a function of one number are None; it agrees with which are."""
    told: list[Any] = []
    inner = tapec.compile(loss) if way == "call" else loss

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            y = inner(x)
        told[:] = tape.explain(y, sources)
        missing = [g is None for g in tape.gradient(y, sources)]
        assert missing == [e.cause != "connected" for e in told]
        return y

    (tapec.compile(step) if way == "step" else step)(ONE)
    return told


def test_a_branch_eagerly() -> None:
    def loss(x: Any) -> Any:
        return tapec.cond(x > 0.0, lambda: tapec.round(A) * x, lambda: B * x)

    first, second = explained(loss, [A, B], "eager")
    assert first.cause == "no derivative"
    assert "cut by round" in first.message
    assert second.cause == "not read"


@pytest.mark.parametrize("way", ["step", "call"])
def test_both_branches_compiled(way: str) -> None:
    def loss(x: Any) -> Any:
        return tapec.cond(
            x > 0.0,
            lambda: tapec.round(A) * x,  # first
            lambda: tapec.stop_gradient(A) * B,  # second
        )

    first, second = explained(loss, [A, B], way)
    assert [first.cause, *(e.cause for e in first.further)] == ["no derivative", "stop_gradient"]
    lines = [e.location.text if e.location else "" for e in (first, *first.further)]
    assert [line.split("# ")[1] for line in lines] == ["first", "second"]
    assert second.cause == "connected"


@pytest.mark.parametrize("way", ["eager", "step", "call"])
def test_inside_of_a_loop(way: str) -> None:
    def loss(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, y * 0.5 + tapec.floor(A)

        return tapec.while_loop(lambda i, y: i < 3, body, [tapec.constant(0), B * x])[1]

    first, second = explained(loss, [A, B], way)
    assert first.cause == "no derivative"
    assert first.location is not None
    assert first.location.text == "return i + 1, y * 0.5 + tapec.floor(A)"
    assert not first.further
    assert second.cause == "connected"


@pytest.mark.parametrize("way", ["step", "call"])
def test_from_one_carried_value_to_another(way: str) -> None:
    """It takes two turns from A to the result, and the second of them cuts."""

    def loss(x: Any) -> Any:
        def body(i: Any, y: Any, z: Any) -> Any:
            return i + 1, A * x, tapec.stop_gradient(y) + z

        first = [tapec.constant(0), x, B * x]
        return tapec.while_loop(lambda i, y, z: i < 3, body, first)[2]

    first, second = explained(loss, [A, B], way)
    assert first.cause == "stop_gradient"
    assert second.cause == "connected"


@pytest.mark.parametrize("way", ["step", "call"])
def test_what_only_decides_how_often_a_loop_turns(way: str) -> None:
    def loss(x: Any) -> Any:
        return tapec.while_loop(
            lambda y: y < A, lambda y: (y * 1.5 + B,), [x], maximum_iterations=9
        )[0]

    first, second = explained(loss, [A, B], way)
    assert first.cause == "no derivative"
    assert "cut by less" in first.message
    assert second.cause == "connected"


def test_ways_through_values_come_before_ways_through_conditions() -> None:
    def loss(x: Any) -> Any:
        return tapec.cond(A * x > 0.0, lambda: tapec.sign(B), lambda: tapec.round(A))

    first, _ = explained(loss, [A, B], "step")
    assert "cut by round" in first.message
    assert not first.further


def test_a_call_of_a_call() -> None:
    @tapec.compile
    def inner(x: Any) -> Any:
        return tapec.cond(x > 0.0, lambda: tapec.round(x), lambda: tapec.floor(x))

    def outer(x: Any) -> Any:
        return inner(A * x) + B

    first, _ = explained(outer, [A, B], "call")
    assert [first.cause, *(e.cause for e in first.further)] == ["no derivative"] * 2
    assert "inside of outer" in first.message


def test_a_variable_assigned_in_a_call() -> None:
    def loss(x: Any) -> Any:
        B.assign(A * x)
        return B * 3.0

    for way in ("eager", "step", "call"):
        B.assign(1.5)
        first, second = explained(loss, [A, B], way)
        assert first.cause == "assign", way
        assert "gradients do not flow through assign" in first.message
        assert second.cause == "connected"


def test_rows_of_a_map() -> None:
    def loss(x: Any) -> Any:
        rows = tapec.stack([x, x * 2.0])
        return tapec.reduce_sum(tapec.map_fn(lambda row: tapec.round(row * A) + B, rows))

    for way in ("eager", "step", "call"):
        first, second = explained(loss, [A, B], way)
        assert "cut by round" in first.message
        assert second.cause == "connected"


@pytest.mark.parametrize(
    "write",
    [
        lambda v, x: v[0].assign(x),
        lambda v, x: v.scatter_nd_add([[1]], [x]),
        lambda v, x: v.scatter_update(tapec.IndexedSlices([x], [0])),
        lambda v, x: v.assign_add([x, x]),
    ],
)
@pytest.mark.parametrize("way", ["eager", "step", "call"])
def test_a_part_of_a_variable_is_assigned(write: Any, way: str) -> None:
    """Also in a call, where what was written may count as read later."""
    v = tapec.Variable([1.0, 2.0])

    def loss(x: Any) -> Any:
        write(v, A * x)
        return tapec.reduce_sum(v * 3.0)

    first, second = explained(loss, [A, v], way)
    assert first.cause == "assign"
    assert second.cause == "connected"


@pytest.mark.parametrize("way", ["eager", "step"])
def test_a_variable_assigned_in_a_branch(way: str) -> None:
    def loss(x: Any) -> Any:
        tapec.cond(x > 0.0, lambda: B.assign(A * x) * 1.0, lambda: B * 1.0)
        return B * 3.0

    first, second = explained(loss, [A, B], way)
    B.assign(1.5)
    assert first.cause == "assign"
    assert second.cause == "connected"


@pytest.mark.parametrize("way", ["eager", "step", "call"])
def test_the_grad_function_that_returned_none_is_the_line_to_change(way: str) -> None:
    """Not the call of what it belongs to."""

    @tapec.custom_gradient
    def square(x: Any) -> Any:
        def returns_none(upstream: Any) -> Any:  # to be changed
            return None

        return x * x, returns_none

    (why,) = explained(lambda x: square(A * x) * 2.0, [A], way)
    assert why.cause == "custom gradient"
    assert why.change is not None
    assert "# to be changed" in why.change.text
    assert why.location != why.change
    assert "to be changed" in str(why)
