"""Long loops keep to a budget: they are cut into loops of loops, and gradients stay the same to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec


def scanned(budget: float | None, turns: int) -> tuple[Any, list[bytes]]:
    """A long recurrence with a parameter, rows and a last state."""
    rng = np.random.default_rng(0)
    rate = tapec.Variable(rng.normal(size=32).astype(np.float32))
    start = tapec.Variable(rng.normal(size=32).astype(np.float32))
    rows = tapec.constant(rng.normal(size=turns).astype(np.float32))

    @tapec.compile(memory_budget=budget)
    def gradients(x):  # type: ignore[no-untyped-def]
        with tapec.GradientTape() as tape:
            tape.watch(x)
            last = tapec.foldl(lambda s, r: s + 0.01 * tapec.tanh(rate * s + r), x, start)
            loss = tapec.reduce_sum(last**2)
        return tape.gradient(loss, [rate, start, x])

    found = [g.numpy().tobytes() for g in gradients(rows)]
    return gradients.memory().arena, found


@pytest.mark.parametrize(("turns", "budget"), [(10_000, 64 * 1024), (1003, 20_000), (17, 1_800)])
def test_long_scans_keep_to_their_budget(turns: int, budget: int) -> None:
    """Whose states would take more; gradients are the same to the bit."""
    plain, wanted = scanned(None, turns)
    assert plain > turns * 32 * 4
    arena, found = scanned(budget, turns)
    assert arena <= budget
    assert found == wanted


def test_scans_are_cut_again_where_need_be() -> None:
    twice, wanted = scanned(60_000, 4096)
    again, found = scanned(twice - 1, 4096)
    assert again < twice
    assert found == wanted


def test_rows_that_loops_make_and_take_stay_in_order() -> None:
    def results(budget: float | None, reverse: bool) -> tuple[Any, list[bytes]]:
        rows = tapec.constant(np.linspace(-1, 1, 70, dtype=np.float32))

        @tapec.compile(memory_budget=budget)
        def f(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                tape.watch(x)
                states = tapec.scan(
                    lambda s, r: tapec.sin(s * r) + s,
                    x,
                    initializer=tapec.ones([32]),
                    reverse=reverse,
                )
                loss = tapec.reduce_sum(states[::7] ** 2)
            return states[3], tape.gradient(loss, x)

        found = [v.numpy().tobytes() for v in f(rows)]
        return f.memory().arena, found

    for reverse in (False, True):
        plain, wanted = results(None, reverse)
        arena, found = results(0.95, reverse)
        assert arena < plain
        assert found == wanted


def used_behind(w: Any, x: Any) -> Any:
    """The weight is read behind the loop as well."""
    return w * tapec.foldl(lambda s, r: s + 0.01 * tapec.tanh(w * s + r), x, tapec.ones([32]))


def loops_in_a_row(w: Any, x: Any) -> Any:
    """Two loops that add to one gradient."""
    step = lambda s, r: s + 0.01 * tapec.tanh(w * s + r)  # noqa: E731  a line tells more here
    return tapec.foldl(step, x, tapec.foldl(step, x, tapec.ones([32])))


def loops_in_loops(w: Any, x: Any) -> Any:
    """The user's own loop of loops, whose inner sums are sums of their own."""

    def outer(state: Any, row: Any) -> Any:
        return w * tapec.foldl(lambda s, r: s + 0.1 * tapec.sin(w * s * r + row), x[:3], state)

    return tapec.foldl(outer, x, tapec.ones([32]))


def complex_states(w: Any, x: Any) -> Any:
    """Sums of complex numbers are sums of pairs."""
    z = tapec.complex(w, w)

    def step(state: Any, row: Any) -> Any:
        return state + 0.01 * tapec.tanh(z * state + tapec.cast(row, tapec.complex64))

    return tapec.abs(z * tapec.foldl(step, x, tapec.ones([32], tapec.complex64)))


@pytest.mark.parametrize("program", [used_behind, loops_in_a_row, loops_in_loops, complex_states])
def test_sums_are_added_up_as_without_a_budget(program: Callable[[Any, Any], Any]) -> None:
    """Parts of a loop that was cut continue one sum; what else adds to it comes in its own place."""
    rng = np.random.default_rng(0)
    weight = tapec.Variable(rng.normal(size=32).astype(np.float32))
    rows = rng.normal(size=53).astype(np.float32)

    def results(budget: float | None) -> tuple[Any, list[bytes]]:
        @tapec.compile(memory_budget=budget)
        def gradients(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                tape.watch(x)
                loss = tapec.reduce_sum(program(weight, x))
            return tape.gradient(loss, [weight, x])

        found = [g.numpy().tobytes() for g in gradients(rows)]
        return gradients.memory().arena, found

    plain, wanted = results(None)
    arena, found = results(0.9)
    assert arena <= 0.9 * plain
    assert found == wanted
