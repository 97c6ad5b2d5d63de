"""Random functions with control flow: compiled, they give the values and gradients that they give eagerly.

As a script, ``python tests/test_autograph_random.py COUNT SEED``, it runs other programs, and says how many differed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from random_control import function_of, programs

import tapec


def helper(a: Any, b: Any) -> Any:
    if a > b:
        return tapec.tanh(a - b)
    return a * 0.5


def searched(u: Any, a: Any) -> Any:
    """The first entry that is greater, halved as long as it is large; 0.1 without one."""
    place, found = 0, tapec.constant(0.1, tapec.float64)
    for e in u:
        if e > a + 0.0123:
            found = e
            break
        place += 1
    while found > 0.4111:
        found = found * 0.5 if place % 2 == 0 else found * 0.25
    return found


X, Y = tapec.constant(0.71, tapec.float64), tapec.constant(-0.43, tapec.float64)


def sloped(program: Callable[..., Any], flag: bool, v: tapec.Variable) -> Callable[..., Any]:
    """What a program returns, with the gradients by two inputs and the Variable."""

    def run(x: Any, y: Any, n: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch([x, y])
            value, count = program(x, y, n, flag, v, helper, searched)
        return value, count, *tape.gradient(value, [x, y, v], unconnected_gradients="zero")

    return run


def outcome(run: Callable[..., Any], v: tapec.Variable, n: int) -> list[float]:
    """What it gives, and the Variable afterwards."""
    tapec.random.set_seed(5)
    v.assign(0.3)
    return [float(t) for t in (*run(X, Y, tapec.constant(n)), v)]


@pytest.fixture(autouse=True)
def _poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that native code is done with is no number."""
    monkeypatch.setenv("TAPEC_POISON", "1")


def check(source: str, flag: bool) -> None:
    """Compiled inside of a tape and with it, as native code and as NumPy evaluates the program.

    Raises:
        AssertionError: What it gives is not what it gives eagerly; the text has the program.
    """
    program = function_of(source)
    v = tapec.Variable(0.3, dtype=tapec.float64)
    eager = sloped(program, flag, v)
    wants = {n: outcome(eager, v, n) for n in (2, 0)}
    for run in (
        sloped(tapec.compile(program), flag, v),
        tapec.compile(eager),
        tapec.compile(eager, jit=False),
    ):
        for n, want in wants.items():
            np.testing.assert_allclose(
                outcome(run, v, n), want, rtol=1e-9, atol=1e-9, err_msg=source
            )


@settings(
    max_examples=settings().max_examples // 12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(programs(), st.booleans())
def test_compiled_is_eager(source: str, flag: bool) -> None:
    """`--hypothesis-profile=search` looks further, up to the first that differs."""
    check(source, flag)


def sweep(count: int, first: int) -> int:
    """Run ``count`` programs that are drawn from a seed, print each that differs, and how many did.

    Returns:
        How many differed, or raised.
    """
    ran: set[tuple[str, bool]] = set()
    different = 0

    @seed(first)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(), st.booleans())
    def each(source: str, flag: bool) -> None:
        nonlocal different
        if (source, flag) in ran:
            return
        ran.add((source, flag))
        try:
            check(source, flag)
        except Exception as error:  # the next ones are run all the same
            different += 1
            print(f"\n{source}flag = {flag}: {type(error).__name__}: {error}", flush=True)

    try:
        each()
    finally:  # of one that is interrupted, too
        print(f"{len(ran)} programs ran, {different} differed", flush=True)
    return different


if __name__ == "__main__":  # python tests/test_autograph_random.py COUNT SEED
    os.environ["TAPEC_POISON"] = "1"
    sys.exit(sweep(int(sys.argv[1]), int(sys.argv[2])) > 0)
