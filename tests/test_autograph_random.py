"""Random functions with control flow: compiled, they give the values and gradients that they give eagerly.

As a script, ``python tests/test_autograph_random.py COUNT SEED``, it runs other programs, with derivatives up to the
third, and says how many differed.
"""

from __future__ import annotations

import collections
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from random_control import State, function_of, programs

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


@tapec.custom_gradient
def clipped(a: Any) -> Any:
    """Twice the value, with half the gradient where it is large, and three times elsewhere."""

    def gradient(upstream: Any) -> Any:
        if tapec.abs(a) > 0.2017:
            return upstream * 0.5 * a
        return upstream * 3.0

    return a * 2.0, gradient


def direction(a: Any, b: Any) -> Any:
    """How a function of both changes with the first."""
    with tapec.autodiff.ForwardAccumulator(a, tapec.ones_like(a)) as accumulator:
        result = tapec.sin(a * b) + helper(a, b)
    return accumulator.jvp(result)


def slope(a: Any, b: Any) -> Any:
    """The derivative of a loop by its start."""
    with tapec.GradientTape() as tape:
        tape.watch(a)
        s = a
        for _ in tapec.range(2):
            s = tapec.tanh(s * 1.1 + b)
    return tape.gradient(s, a)


def functions(state: State) -> dict[str, Any]:
    """What programs call, by name."""

    def stepped(a: Any, b: Any) -> Any:
        if a > b:
            state.w.assign(state.w * 0.9 + b * 0.05)
        return tapec.tanh(tapec.reduce_sum(state.w) * a)

    def counted(a: Any) -> Any:
        state.c.assign_add(1)
        total = a
        while total < 0.7931:
            total = total + 0.2 + tapec.cast(state.c, total.dtype) * 0.01
        return total * a

    return {
        "helper": helper,
        "searched": searched,
        "clipped": clipped,
        "direction": direction,
        "slope": slope,
        "again": tapec.recompute_grad(helper),
        "stepped": tapec.compile(stepped),
        "counted": tapec.compile(counted),
    }


X, Y = tapec.constant(0.71, tapec.float64), tapec.constant(-0.43, tapec.float64)
Z = tapec.constant([0.37, -0.81, 0.59, 0.13], tapec.float64)


@dataclass(frozen=True)
class Way:
    """How a program is asked: what its flag is, how many derivatives are taken of it, and how else than native."""

    flag: bool
    order: int = 1
    others: tuple[str, ...] = ("jit=False", "inside of a tape")


def sloped(program: Callable[..., Any], way: Way, state: State) -> Callable[..., Any]:
    """What a program returns, with the gradients by its inputs and Variables, the last of several orders."""

    def derived(order: int, x: Any, y: Any, z: Any, n: Any) -> Any:
        if order == 0:
            return program(x, y, z, n, way.flag)
        sources = [x, y, z, state.v, state.w]
        with tapec.GradientTape() as tape:
            tape.watch([x, y, z])
            value, *rest = derived(order - 1, x, y, z, n)
            for g in rest[1:]:
                value = value + tapec.reduce_sum(tapec.sin(g * 0.7))
        return value, rest[0], *tape.gradient(value, sources, unconnected_gradients="zero")

    def run(x: Any, y: Any, z: Any, n: Any) -> Any:
        return derived(way.order, x, y, z, n)

    return run


def outcome(run: Callable[..., Any], state: State, n: int) -> list[Any]:
    """What it gives, and the Variables afterwards."""
    state.start()
    found = [*run(X, Y, Z[: n + 1], tapec.constant(n)), state.v, state.w, state.c]
    return [np.asarray(t) for t in found]


@pytest.fixture(autouse=True)
def _poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that native code is done with is no number."""
    monkeypatch.setenv("TAPEC_POISON", "1")


def compiled(program: Callable[..., Any], way: Way, state: State) -> dict[str, Callable[..., Any]]:
    """The ways to run a program, as native code of any size first; the gradients are a part, or around it."""
    eager = sloped(program, way, state)
    found: dict[str, Callable[..., Any]] = {"native": tapec.compile(eager, dims={"z": ("N",)})}
    for other in way.others:
        if other == "jit=False":
            found[other] = tapec.compile(eager, jit=False)
        elif other == "memory budget":
            found[other] = tapec.compile(eager, memory_budget=0.9)
        else:
            found[other] = sloped(tapec.compile(program), way, state)
    return found


def check(source: str, way: Way) -> None:
    """Compiled inside of a tape and with it, as native code and as NumPy evaluates the program.

    Raises:
        AssertionError: What it gives is not what it gives eagerly; the text has the program.
    """
    state = State.new()
    program = function_of(source, **vars(state), **functions(state))
    eager = sloped(program, way, state)
    wants = {n: outcome(eager, state, n) for n in (2, 0)}
    for name, run in compiled(program, way, state).items():
        for n, want in wants.items():
            try:
                found = outcome(run, state, n)
            except tapec.errors.ResourceExhaustedError:
                if name != "memory budget":  # which not all programs can be brought below
                    raise
                continue
            text = f"{source}{way}, {name}, n = {n}"
            for a, b in zip(found, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=text)


@st.composite
def higher(draw: Any) -> tuple[str, Way]:
    """Programs and how to ask them, with derivatives up to the third; of programs that nest twice, the first."""
    order = draw(st.sampled_from([1, 1, 2, 2, 3]))
    others = ["jit=False", "memory budget", "inside of a tape", "nothing"]
    other = draw(st.sampled_from(others))
    way = Way(draw(st.booleans()), order, (other,) if other != "nothing" else ())
    return draw(programs(2 if order == 1 else 1)), way


@settings(
    max_examples=settings().max_examples // 14,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.sampled_from([1, 1, 2]).flatmap(programs), st.builds(Way, st.booleans()))
def test_compiled_is_eager(source: str, way: Way) -> None:
    """`--hypothesis-profile=search` looks further, up to the first that differs."""
    check(source, way)


#: What a search found: two operations of the loop's count, in a kernel for each of which only one is named.
_ONE_NAMED = """
def program(x, y, z, n, flag):
    a, b, k = x * 0.9, y - 0.1, 0
    u, d = tapec.stack([x, y, a, b, x * y]), {'h': x * 0.3}
    m, q = tapec.constant([1, 4, -2, 3, 0]), a > 0.2171
    ta = tapec.TensorArray(tapec.float64, size=4, clear_after_read=False, element_shape=[])
    with tapec.GradientTape(persistent=False) as tape_2:
        for k in tapec.range(n):
            y = tapec.tanh(a * 1.3 + y)
        else:
            ta = ta.write(k % 4, tapec.tanh(tapec.gather(u, [k % 5, 0])[0] * b))
        with tapec.GradientTape(persistent=False) as tape_1:
            tape_1.watch([x, a, b])
    rest = tapec.reduce_sum(u) * 0.2 + tapec.reduce_sum(ta.stack()) * 0.3 + d['h'] * 0.7
    return a - b * 0.5 + v * 0.1 + rest * tapec.where(q, x, y), k
"""


def test_operations_are_put_in_an_order_in_which_they_can_run() -> None:
    check(_ONE_NAMED, Way(True, 1, ("memory budget",)))


def sweep(count: int, first: int) -> int:
    """Run ``count`` programs that are drawn from a seed, print each that differs, and how many did.

    Returns:
        How many differed, or raised.
    """
    ran: set[tuple[str, Way]] = set()
    different = 0

    @seed(first)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(higher())
    def each(program: tuple[str, Way]) -> None:
        nonlocal different
        if program in ran:
            return
        ran.add(program)
        source, way = program
        try:
            check(source, way)
        except Exception as error:  # the next ones are run all the same
            different += 1
            print(f"\n{source}{way}: {type(error).__name__}: {error}", flush=True)

    try:
        each()
    finally:  # of one that is interrupted, too
        orders = dict(sorted(collections.Counter(way.order for _, way in ran).items()))
        print(f"{len(ran)} programs ran, by order {orders}; {different} differed", flush=True)
    return different


if __name__ == "__main__":  # python tests/test_autograph_random.py COUNT SEED
    os.environ["TAPEC_POISON"] = "1"
    sys.exit(sweep(int(sys.argv[1]), int(sys.argv[2])) > 0)
