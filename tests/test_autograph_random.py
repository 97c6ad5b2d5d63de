"""Random functions with control flow: compiled, they give the values and gradients that they give eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from random_control import function_of, programs

import tapec


def helper(a: Any, b: Any) -> Any:
    if a > b:
        return tapec.tanh(a - b)
    return a * 0.5


def outcome(program: Callable[..., Any], flag: bool, n: int) -> list[float]:
    """What a program returns and assigns, and its gradients by two inputs and the Variable."""
    tapec.random.set_seed(5)
    x, y = tapec.constant(0.71, tapec.float64), tapec.constant(-0.43, tapec.float64)
    v = tapec.Variable(0.3, dtype=tapec.float64)
    with tapec.GradientTape() as tape:
        tape.watch([x, y])
        value, count = program(x, y, tapec.constant(n), flag, v, helper)
    gradients = tape.gradient(value, [x, y, v], unconnected_gradients="zero")
    return [float(t) for t in (value, count, v, *gradients)]


@settings(max_examples=settings().max_examples // 8)
@given(programs())
def test_compiled_is_eager(source: str) -> None:
    program = function_of(source)
    compiled = tapec.compile(
        program, jit=False
    )  # the meaning of what was traced; native code has tests of its own
    for flag, n in ((True, 2), (False, 0)):
        np.testing.assert_allclose(
            outcome(compiled, flag, n),
            outcome(program, flag, n),
            rtol=1e-9,
            atol=1e-9,
            err_msg=source,
        )
