"""Iterators and generators of random numbers: nobody moves them back, so no branch or loop draws from them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from both_compiled import both

import tapec
from tapec import errors


def counting() -> Iterator[float]:
    k = 0.0
    while True:
        k += 1.0
        yield k


def holding() -> Iterator[float]:
    for _ in [0, 0, 0, 0, 0]:
        yield 1.0


#: What moves on, and how it is asked.
MOVING: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "list": (lambda: iter([1.0, 2.0, 3.0, 4.0]), next),
    "dict": (lambda: iter({1.0: 0, 2.0: 0, 3.0: 0, 4.0: 0}), next),
    "reversed": (lambda: reversed([1.0, 2.0, 3.0, 4.0]), next),
    "count": (lambda: itertools.count(1.0), next),
    "cycle": (lambda: itertools.cycle([1.0, 2.0]), next),
    "zip": (lambda: zip([1.0, 1.0, 1.0, 1.0], "abcd", strict=True), lambda it: next(it)[0]),
    "enumerate": (lambda: enumerate([1.0, 1.0, 1.0, 1.0]), lambda it: next(it)[1]),
    "map": (lambda: map(float, range(9)), next),
    "generator": (counting, next),
    "generator expression": (lambda: (float(k) for k in range(9)), next),
    "NumPy's": (lambda: np.random.default_rng(0), lambda rng: float(rng.normal())),
    "NumPy's old ones": (lambda: np.random.RandomState(0), lambda rng: float(rng.normal())),
    "Python's": (lambda: random.Random(3), lambda rng: rng.random()),
}


@pytest.mark.parametrize("kind", MOVING)
def test_what_moves_on_is_drawn_from_outside(kind: str) -> None:
    make, draw = MOVING[kind]

    def one_branch(x: Any) -> Any:
        it = make()
        if x > 0.0:
            x = x + draw(it)
        return x + draw(it)

    def both_branches(x: Any) -> Any:
        it = make()
        if x > 0.0:
            y = x + draw(it)
        else:
            y = x - draw(it)
        return y

    def counted(x: Any) -> Any:
        it = make()
        for _ in tapec.range(3):
            x = x + draw(it)
        return x

    def as_long_as(x: Any) -> Any:
        it = make()
        while x < 1.0:
            x = x + 0.5 + abs(draw(it))
        return x

    def inside(x: Any) -> Any:
        it = make()
        first = draw(it)
        if x > 0.0:
            other = make()
            draw(other)
            x = x * draw(other)
        for _ in tapec.range(2):
            x = x * draw(make())
        return x * first * draw(it)

    x = tapec.constant(-1.0)
    for step in (one_branch, both_branches, counted, as_long_as):
        step(x)
        with pytest.raises(errors.TypeError, match=r"it gives one item .* of the program draws"):
            tapec.compile(step)(x)
    both(inside, x)
    both(inside, -x)


def test_a_generator_whose_items_are_alike_moves() -> None:
    def step(x: Any) -> Any:
        it = holding()
        if x > 0.0:
            x = x * next(it)
        return x * sum(it)

    with pytest.raises(errors.TypeError, match="a branch of the program draws"):
        tapec.compile(step)(tapec.constant(1.0))


numbers = itertools.count()
names: list[str] = []


def numbered(x: Any) -> Any:
    names.append(f"x{next(numbers)}")
    return x


def test_numbers_that_nobody_else_asks_for_are_notes() -> None:
    def step(x: Any) -> Any:
        if x > 0.0:
            x = numbered(x) * 2.0
        return x

    with pytest.warns(tapec.RetraceWarning, match="from the iterator numbers"):
        both(step, tapec.constant(1.0))
