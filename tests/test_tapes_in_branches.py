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
