"""Programs whose operations are on top of each other by the hundred: no pass may recurse as deep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec

#: Operations on top of each other: a kernel of single numbers may have 480.
DEPTH = 400


def chain(x: Any) -> Any:
    """Single numbers, elementwise."""
    for n in range(DEPTH):
        x = tapec.sin(x) + float(n % 3)
    return x


def gradient_of_chain(x: Any) -> Any:
    """A chain, and what goes back through it."""
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = chain(x)
    return tape.gradient(y, x)


def loops(x: Any) -> Any:
    """Sums of one number each, which is what it was, in a loop each."""
    for _ in range(DEPTH // 4):
        x = tapec.reduce_sum(tapec.reshape(tapec.sin(x), [1, 1]))
    return x


def movements(x: Any) -> Any:
    """Elements from elsewhere, and arithmetic in between."""
    x = tapec.fill([4], x)
    for n in range(DEPTH // 2):
        x = tapec.reshape(x * 0.5 + 1.0, [2, 2] if n % 2 == 0 else [4])
    return tapec.reverse(x, [0])


def behind_a_product(x: Any) -> Any:
    """Single numbers that the epilogue of a product reads."""
    product = tapec.fill([2, 3], x) @ tapec.fill([3, 2], x)
    for n in range(DEPTH // 4):
        x = x * 0.5 + float(n % 3)
    return tapec.nn.relu(product + x)


@pytest.mark.parametrize("program", [chain, gradient_of_chain, loops, movements, behind_a_product])
def test_deep(program: Callable[[Any], Any]) -> None:
    x = tapec.constant(0.3)
    np.testing.assert_allclose(tapec.compile(program)(x), program(x), rtol=1e-4)


def test_many_arguments() -> None:
    numbers = [float(n) for n in range(DEPTH)]
    assert tapec.compile(lambda *x: sum(x))(*map(tapec.constant, numbers)) == sum(numbers)


def test_from_deep_inside() -> None:
    """The caller may have a deep stack already."""

    def call(levels: int) -> Any:
        return call(levels - 1) if levels else tapec.compile(chain)(tapec.constant(0.3))

    np.testing.assert_allclose(call(300), chain(tapec.constant(0.3)), rtol=1e-4)
