"""Gradients of a tape that are taken in a branch or loop of a compiled function, once on each way through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from both_compiled import both

import tapec
from tapec import errors


def either(x: Any, v: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * x
    if v > 3.0:
        g = tape.gradient(y, x)
    else:
        g = tape.gradient(z, x)
    return g


def recording_on(x: Any, v: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * x
        if v > 3.0:
            return y, tape.gradient(y, x)
        if v > 2.0:
            return z, tape.gradient(z, x)
    return y, tape.gradient([y, z], x)


def inner_of_two(x: Any, v: Any) -> Any:
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x * x * x
            g = tape.gradient(y, x) if v > 3.0 else x
        u = g * g
    return outer.gradient(u, x), g


def loop(x: Any, v: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        g = x
        for _ in tapec.range(1):
            g = tape.gradient(y, x) * v
        z = y * 2.0
    return g, z


def returning_early(x: Any, v: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        if v > 3.0:
            return y, x
        if v > 2.0:
            return -y, x
        z = y * x
    return z, tape.gradient([y], x)


@pytest.mark.parametrize("step", [either, recording_on, inner_of_two, loop, returning_early])
@pytest.mark.parametrize("v", [1.0, 2.5, 5.0])
def test_each_way_takes_its_gradients(step: Callable[..., Any], v: float) -> None:
    both(step, tapec.constant([1.0, 2.0]), tapec.constant(v))


def test_one_way_takes_them_once() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        g = x
        if x > 0.0:
            g = tape.gradient(y, x)
            g += tape.gradient(y, x)
        return g

    with pytest.raises(errors.RuntimeError, match="taken at line"):
        f(tapec.constant(1.0))


def stopped(tape: Any, x: Any) -> Any:
    with tape.stop_recording():
        return x * x


def begun_again(tape: Any, x: Any) -> Any:
    tape.reset()
    return x


def watched(tape: Any, x: Any) -> Any:
    tape.watch(x)
    return x


@pytest.mark.parametrize(
    ("change", "hint"),
    [(stopped, "stop_gradient"), (begun_again, "one of its own"), (watched, "watch it in front")],
)
@pytest.mark.parametrize("where", ["if", "while", "for", "map_fn", "compiled"])
def test_what_a_tape_knows_is_not_changed_on_one_way(
    change: Callable[[Any, Any], Any], hint: str, where: str
) -> None:
    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            a = x * 2.0
            if where == "if":
                if x > 0.0:
                    a = change(tape, a * 1.0)
            elif where == "while":
                while a < 5.0:
                    a = change(tape, a * 1.5)
            elif where == "for":
                for _ in tapec.range(3):
                    a = change(tape, a * 1.5)
            elif where == "map_fn":
                a = tapec.map_fn(lambda b: change(tape, b * 1.0), tapec.stack([a, a]))[0]
            else:
                tapec.compile(lambda b: change(tape, b))(a * 1.0)
            y = a * x
        return tape.gradient(y, x)

    if where == "compiled":  # is a part of the outer program, if there is one
        tapec.compile(step)(tapec.constant(2.0))
    else:
        with pytest.raises(errors.NotImplementedError, match="inside of what the tape") as caught:
            tapec.compile(step)(tapec.constant(2.0))
        assert hint in str(caught.value.hint)
        assert caught.value.location is not None
    if where in ("if", "while", "for"):
        step(tapec.constant(2.0))  # does it eagerly
    elif where == "compiled":
        with pytest.raises(errors.NotImplementedError, match="inside of what the tape"):
            step(tapec.constant(2.0))


def test_a_tape_is_not_entered_again_on_one_way() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        if x > 0.0:
            with tape:
                y = y * x
        return tape.gradient(y, x)

    with pytest.raises(errors.NotImplementedError, match="__enter__"):
        f(tapec.constant(1.0))


@pytest.mark.parametrize("v", [1.0, 5.0])
def test_tapes_inside_change_what_they_know(v: float) -> None:
    def step(x: Any, v: Any) -> Any:
        g = x * 1.0
        if v > 3.0:
            with tapec.GradientTape() as tape:
                tape.watch(x)
                y = x * x
                with tape.stop_recording():
                    z = y * x
                y = y * z
            g = tape.gradient(y, x)
        with tapec.GradientTape() as around:
            around.watch(x)
            for _ in tapec.range(2):
                around.watch(x)  # is watched already
                g = g * x
        return g, around.gradient(g, x)

    both(step, tapec.constant([1.0, 2.0]), tapec.constant(v))
