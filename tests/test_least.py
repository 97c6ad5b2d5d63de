"""The least budget that an error names can be met, and no program keeps below the bound beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from random_plans import program

import tapec
from tapec import errors
from tapec.ir.core import Function, Value
from tapec.ir.types import F32, TensorType
from tapec.passes.memory.cut import least_between
from tapec.passes.memory.footprint import footprint
from tapec.passes.memory.least import least_bytes
from tapec.passes.pipeline import parse_pipeline, run_pipeline

READY = "inline,canonicalize,cse,dce,adjoint,prune,commit,pairs,hoist,canonicalize,cse,dce"
ROWS = np.random.default_rng(0).normal(size=(24, 16)).astype(np.float32)


@pytest.mark.parametrize("seed", range(20))
def test_no_plan_takes_less(seed: int) -> None:
    """Random programs, with loops, branches, and results in the place of arguments."""
    module = program(seed)
    run_pipeline(module, parse_pipeline(READY))
    assert least_bytes(module.entry).bytes <= footprint(module.entry).arena


def reached(values: list[int], ways: list[list[int]], without: set[int]) -> bool:
    """Whether a way leads to an end: from values without any after them."""
    stack, seen = [v for v in values if v not in without], set[int]()
    while stack:
        value = stack.pop()
        if not ways[value]:
            return True
        seen.add(value)
        stack += [v for v in ways[value] if v not in without | seen]
    return False


@pytest.mark.parametrize("seed", range(20))
def test_cuts_are_the_least(seed: int) -> None:
    """Of all sets of eight values, some of which cost nothing."""
    rng = np.random.default_rng(seed)
    values = Function("f", [TensorType(F32, (4,))] * 8).args
    number = {value: i for i, value in enumerate(values)}
    ways = [[j for j in range(i + 1, 8) if rng.random() < 0.4] for i in range(8)]
    bytes = [int(n) for n in rng.integers(0, 6, 8)]
    first = [i for i in range(8) if rng.random() < 0.4]

    def following(value: Value) -> list[Value] | None:
        return [values[i] for i in ways[number[value]]] or None

    found = least_between([values[i] for i in first], following, lambda v: bytes[number[v]])
    sets = (set(some) for count in range(9) for some in combinations(range(8), count))
    assert found == min(
        sum(bytes[i] for i in some) for some in sets if not reached(first, ways, some)
    )


# ---- budgets


def layers(weights: list[Any], x: Any) -> Any:
    """One after the other."""
    for w in weights:
        x = tapec.tanh(x @ w)
    return tapec.reduce_mean(x**2)


def residual(weights: list[Any], x: Any) -> Any:
    """States of several values, and sums of rows."""
    for w in weights:
        x = x + tapec.nn.softmax(x @ w) * tapec.reduce_max(x)
    return tapec.reduce_mean(x)


def recurrent(weights: list[Any], x: Any) -> Any:
    """A loop behind layers."""
    h = tapec.tanh(x @ weights[0])
    last = tapec.foldl(
        lambda s, r: tapec.tanh(tapec.linalg.matvec(weights[1], s) + r), h, tapec.ones([16])
    )
    return tapec.reduce_sum(last**2)


def step(f: Callable[..., Any], budget: float | None, train: bool) -> tuple[Any, list[bytes]]:
    """The arena of a function or of its train step, and what it makes."""
    rng = np.random.default_rng(1)
    weights = [tapec.Variable(0.3 * rng.normal(size=(16, 16)).astype("f4")) for _ in range(3)]

    @tapec.compile(memory_budget=budget)
    def run(x):  # type: ignore[no-untyped-def]
        with tapec.GradientTape() as tape:
            loss = f(weights, x)
        if train:
            for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
                if g is not None:
                    w.assign_sub(0.1 * g)
        return loss

    made = run(ROWS).numpy().tobytes()
    return run.memory().arena, [made, *(w.numpy().tobytes() for w in weights)]


@pytest.mark.parametrize("depth", [4, 7])
def test_of_layers_the_least_is_proven(depth: int) -> None:
    """Going back through one, its gradient, what the next gradient needs, and that gradient are in memory."""
    rng = np.random.default_rng(1)
    kernels = [0.3 * rng.normal(size=(16, 16)).astype("f4") for _ in range(depth)]

    def trained(budget: int | None) -> list[bytes]:
        weights = [tapec.Variable(kernel) for kernel in kernels]

        @tapec.compile(memory_budget=budget)
        def run(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                loss = layers(weights, x)
            for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
                w.assign_sub(0.1 * g)

        run(ROWS)
        return [w.numpy().tobytes() for w in weights]

    least = 3 * ROWS.nbytes
    proven = f"memory_budget={least} can be met, which is proven to be the least"
    with pytest.raises(errors.ResourceExhaustedError, match=proven):
        trained(least - 1)
    assert trained(least) == trained(None)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("f", [layers, residual, recurrent])
def test_what_an_error_names_can_be_met(f: Callable[..., Any], train: bool) -> None:
    """To the byte; one byte less is refused with the same number, and less than the bound is never taken."""
    with pytest.raises(errors.ResourceExhaustedError) as caught:
        step(f, 1, train)
    least = int(re.findall(r"memory_budget=(\d+) can be met", str(caught.value))[0])
    below = re.findall(r"none below ([\d,]+) can, for .*test_least.py:\d+", str(caught.value))
    bound = int(below[0].replace(",", "")) if below else least
    assert bound <= least
    assert below or "which is proven to be the least" in str(caught.value)
    found = step(f, least, train)
    assert bound <= found[0] <= least
    assert step(f, None, train)[0] >= least
    with pytest.raises(errors.ResourceExhaustedError, match=f"memory_budget={least} can be met"):
        step(f, least - 1, train)


def test_what_is_proven_is_said() -> None:
    """Between two products, what goes from one to the other has to be somewhere."""

    @tapec.compile(memory_budget=1000)
    def two(x, a, b):  # type: ignore[no-untyped-def]
        return (x @ a) @ b

    square = np.ones((16, 16), np.float32)
    proven = "memory_budget=1536 can be met, which is proven to be the least"
    with pytest.raises(errors.ResourceExhaustedError, match=proven):
        two(ROWS, square, square)


def test_what_inner_loops_write_over_counts_once() -> None:
    """States that a loop runs again fill one stack, loop after loop: no bound counts it for each."""

    @tapec.compile(memory_budget=1000)
    def gradient(x):  # type: ignore[no-untyped-def]
        with tapec.GradientTape() as tape:
            tape.watch(x)
            last = tapec.foldl(lambda c, _: tapec.tanh(c @ x), tapec.zeros([20]), x)
            loss = tapec.reduce_sum(last)
        return tape.gradient(loss, x)

    with pytest.raises(errors.ResourceExhaustedError) as caught:
        gradient(np.ones((16, 16), np.float32))
    least, below = re.findall(r"=(\d+) can be met, and none below ([\d,]+)", str(caught.value))[0]
    assert int(below.replace(",", "")) <= int(least)
