"""What a compiled function's alarm says, before anybody looks for who made a bad number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import debugging, nn
from tapec.compiler import lowered
from tapec.ir.evaluator import evaluate_module
from tapec.ir.verifier import verify
from tapec.runtime import compile_module


def alarm(function: Callable[..., Any], *arrays: Any) -> list[int]:
    """What the alarm of a compiled function says, native and evaluated."""
    debugging.disable_check_numerics()
    compiled: Any = tapec.compile(function)
    compiled(*arrays)
    module = lowered(compiled.programs[0].module, pipeline="alarmed")
    verify(module)
    return [
        int(compile_module(module)(*arrays)[-1]),
        int(evaluate_module(module, list(arrays))[-1]),
    ]


@pytest.mark.parametrize("size", [1, 3, 16, 37, 64])
def test_every_lane_raises_the_alarm(size: int) -> None:
    def f(x: Any) -> Any:
        return tapec.where(x > 0.0, tapec.math.log(x), 1.0), x * 2.0

    assert alarm(f, np.ones(size, np.float32)) == [0, 0]
    for place in {0, size // 2, size - 1}:
        x = np.ones(size, np.float32)
        x[place] = 0
        assert alarm(f, x) == [1, 1]


@pytest.mark.parametrize("shape", [(3, 5, 7), (17, 33, 19), (1, 4, 16)])
def test_products_raise_the_alarm(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    x, y = np.ones((rows, depth), np.float32), np.ones((depth, columns), np.float32)
    assert alarm(lambda x, y: nn.relu(-(x @ y)), x, y) == [0, 0]
    x[-1, -1] = y[-1, -1] = 1e30
    assert alarm(lambda x, y: nn.relu(-(x @ y)), x, y) == [1, 1]


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (tapec.linalg.eigh, [np.diag([1.0, 2.0, 4.0]) + 0.25]),
        (lambda x: tapec.linalg.eigh(x)[1], [np.diag([1.0, 2.0])]),
        (lambda x: tapec.linalg.svd(x)[1], [np.diag([1.0, 2.0])]),
        (tapec.math.betainc, [np.linspace(0.2, 0.9, 11)] * 3),
    ],
)
def test_what_no_result_and_no_lane_uses_raises_no_alarm(
    function: Callable[..., Any], operands: list[Any]
) -> None:
    """Angles of rotations that are not wanted; lanes behind the end."""
    assert alarm(lambda *xs: function(*xs), *operands) == [0, 0]


def test_infinities_that_are_meant_raise_no_alarm() -> None:
    """Or the program would be evaluated at each call; what they stand beside does."""

    def attention(scores: Any, keep: Any) -> Any:
        return nn.softmax(tapec.where(keep, scores * 2.0, -np.inf))

    scores, keep = np.ones((3, 5), np.float32), np.tri(3, 5, dtype=bool)
    assert alarm(attention, scores, keep) == [0, 0]
    scores[2, 2] = 3e38
    assert alarm(attention, scores, keep) == [1, 1]
