"""A budget of memory is kept, by computing again as little as need be, and gradients stay the same to the bit."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from test_budgets import penalty
from test_plan import network

import tapec
from tapec import errors
from tapec.compiler import lowered
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Operation, Value, clone_module
from tapec.ir.dims import typical
from tapec.ir.evaluator import evaluate_module
from tapec.ir.types import F32, TensorType
from tapec.ir.verifier import verify
from tapec.passes import dce
from tapec.passes.loops.reversal import actions, advances
from tapec.passes.memory.cut import least_kept
from tapec.passes.memory.footprint import footprint
from tapec.passes.memory.recomputation import (
    Parts,
    is_cheap,
    is_repeatable,
    repeat_cheap,
    repeat_steps,
    steps_of,
)
from tapec.passes.observers import random_inputs
from tapec.passes.pipeline import parse_pipeline, run_pipeline

READY = "adjoint,prune,canonicalize,cse,dce"


# ---- chains


def fewest(steps: int, slots: int) -> int:
    """The fewest steps forwards, found by going through everything that can be done."""
    start = (0, frozenset({0}), steps)
    known, queue = {start: 0}, [(0, 0, start)]
    while True:
        spent, _, here = heapq.heappop(queue)
        now, kept, left = here
        if left == 0:
            return spent
        following = [(0, (k, kept, left)) for k in kept]
        following += [(0, (now, kept - {k}, left)) for k in kept if k]
        if now == left - 1:
            following.append((0, (now, kept, left - 1)))
        else:
            following.append((1, (now + 1, kept, left)))
        if len(kept) <= slots:
            following.append((0, (now, kept | {now}, left)))
        for cost, there in following:
            if spent + cost < known.get(there, spent + cost + 1):
                known[there] = spent + cost
                heapq.heappush(queue, (spent + cost, len(known), there))


@pytest.mark.parametrize("slots", range(6))
def test_chains_run_no_step_more_than_need_be(slots: int) -> None:
    for steps in range(1, (15, 15, 13, 10, 9, 9)[slots]):
        assert advances(steps, slots) == fewest(steps, slots)


@pytest.mark.parametrize(("steps", "slots"), [(1, 0), (7, 0), (14, 5), (14, 2), (40, 3), (64, 9)])
def test_actions_have_what_they_need(steps: int, slots: int) -> None:
    kept, now, back, run = {0}, 0, [], 0
    for action in actions(steps, slots):
        if action.kind == "advance":
            assert action.first in kept
            now, run = action.last, run + action.last - action.first
        elif action.kind == "keep":
            assert action.first == now
            kept.add(now)
        elif action.kind == "forget":
            kept.remove(action.first)
        else:
            assert action.last - 1 in kept | {now}
            back.append(action.last)
        assert len(kept) <= slots + 1
    assert back == list(range(steps, 0, -1))
    assert run == advances(steps, slots)


# ---- cuts


def drawn(rng: np.random.Generator) -> tuple[list[Value], list[Value], set[Operation]]:
    """Values of a small random program, those that are needed, and operations that may not run again."""
    function = Function("f", [TensorType(F32, (4,))], ["x"])
    b = Builder(function.block)
    values: list[Value] = [function.args[0]]
    for _ in range(7):
        x, y = (values[rng.integers(len(values))] for _ in range(2))
        size = x.tensor.size
        value = b.exp(x) if x.type != y.type else b.add(x, y)
        if rng.random() < 0.5 and isinstance(size, int):
            wide = TensorType(F32, (int(rng.integers(1, 9)),))
            total = b.sum(value, axes=tuple(range(value.tensor.rank)))
            value = b.broadcast(total, shape=wide.shape, axes=())
            values.append(total)
        values.append(value)
    made = values[1:]
    needed = [v for v in made if rng.random() < 0.4] or made[-1:]
    ops = [v.op for v in made if v.op is not None]
    fixed = {op for op in ops if rng.random() < 0.3}
    return made, needed, fixed


def suffices(kept: set[Value], needed: list[Value], fixed: set[Operation]) -> bool:
    """Whether what is needed can be computed from what is kept."""
    stack = list(needed)
    while stack:
        value = stack.pop()
        if value in kept or value.op is None:
            continue
        if value.op in fixed:
            return False
        stack += value.op.operands
    return True


@pytest.mark.parametrize("seed", range(20))
def test_cuts_keep_the_fewest_bytes(seed: int) -> None:
    made, needed, fixed = drawn(np.random.default_rng(seed))
    found = least_kept(needed, lambda op: op not in fixed)
    assert suffices(found, needed, fixed)

    def size(kept: Any) -> int:
        return sum(v.tensor.bytes for v in kept)

    best = min(
        size(kept)
        for count in range(len(made) + 1)
        for kept in combinations(dict.fromkeys(made), count)
        if suffices(set(kept), needed, fixed)
    )
    assert size(found) == best


# ---- programs


@pytest.mark.parametrize("depth", [3, 8])
@pytest.mark.parametrize("slots", [-1, 0, 1, 2, 5])
def test_programs_compute_the_same(depth: int, slots: int) -> None:
    """Tensor by tensor and to the bit; -1 stands for cheap operations."""
    module = network(depth)
    run_pipeline(module, parse_pipeline(READY))
    arrays = random_inputs(module.entry)
    wanted = evaluate_module(module, arrays)
    before = footprint(module.entry)
    parts = Parts(module.entry, before)
    if slots < 0:
        repeat_cheap(parts, is_cheap)
    else:
        repeat_steps(parts, steps_of(parts), slots)
    dce.run(module)
    verify(module)
    for one, other in zip(wanted, evaluate_module(module, arrays), strict=True):
        assert one.tobytes() == other.tobytes()
    if depth == 8 and slots in (0, 1, 2):
        assert footprint(module.entry).arena < before.arena


def test_marks_outlive_what_simplifies() -> None:
    """Neither merged nor unmarked by the passes that come before in the pipeline."""
    module = network(8)
    run_pipeline(module, parse_pipeline(READY))
    parts = Parts(module.entry, footprint(module.entry))
    repeat_steps(parts, steps_of(parts), 2)

    def marked(found: Module) -> int:
        return sum("recompute" in op.attrs for op in found.walk())

    before = marked(module)
    simplified = clone_module(module)
    run_pipeline(simplified, parse_pipeline("canonicalize,cse,dce"))
    assert marked(simplified) == before > 0


def test_effects_and_regions_do_not_run_again() -> None:
    function = Function("f", [TensorType(F32, (4,))])
    b = Builder(function.block)
    b.emit("check_numerics", function.args[0], message="bad")
    assert not is_repeatable(function.block.ops[0])


# ---- users' functions

Step = Callable[[Any], Any]


def deep(budget: float | None, depth: int = 8) -> tuple[Any, list[Any]]:
    """A train step of a deep network, and its weights."""
    rng = np.random.default_rng(0)
    weights = [
        tapec.Variable((0.3 * rng.normal(size=(16, 16))).astype(np.float32)) for _ in range(depth)
    ]

    @tapec.compile(memory_budget=budget)
    def step(x):  # type: ignore[no-untyped-def]
        with tapec.GradientTape() as tape:
            h = x
            for w in weights:
                h = tapec.tanh(h @ w)
            loss = tapec.reduce_mean(h**2)
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.1 * g)
        return loss

    return step, weights


ROWS = np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32)


def outcome(budget: float | None) -> tuple[Any, list[bytes]]:
    """The arena of the step, and all that two calls make."""
    step, weights = deep(budget)
    losses = [step(ROWS).numpy().tobytes() for _ in range(2)]
    return step.memory().arena, [*losses, *(w.numpy().tobytes() for w in weights)]


@pytest.mark.parametrize("budget", [0.7, 24_000])
def test_steps_keep_to_their_budget(budget: float) -> None:
    plain, wanted = outcome(None)
    arena, found = outcome(budget)
    assert arena <= (budget if isinstance(budget, int) else budget * plain)
    assert found == wanted


def test_enough_changes_nothing() -> None:
    plain, _ = outcome(None)
    step, _ = deep(plain)
    step(ROWS)
    assert not any("recompute" in op.attrs for op in lowered(step.ir(), "plan").walk())


def test_the_least_budget_is_told_and_can_be_met() -> None:
    step, weights = deep(1000)
    before = [w.numpy() for w in weights]
    with pytest.raises(
        errors.ResourceExhaustedError, match="memory_budget of 1,000 bytes"
    ) as caught:
        step(ROWS)
    text = str(caught.value)
    assert "h = tapec.tanh(h @ w)" in text
    assert all(np.array_equal(w, a) for w, a in zip(weights, before, strict=True))
    least = re.search(r"memory_budget=(\d+) can be met", text)
    assert least is not None
    arena, found = outcome(int(least[1]))
    assert arena == int(least[1])
    assert found == outcome(None)[1]


def test_ways_to_save_are_taken_one_after_the_other() -> None:
    """Where none alone is enough: here each leaves at least 87 %."""
    rng = np.random.default_rng(0)
    kernels = [(0.3 * rng.normal(size=(16, 16))).astype(np.float32) for _ in range(4)]
    plain, wanted = penalty(None, kernels)
    arena, found = penalty(0.82, kernels)
    assert arena <= 0.82 * plain
    assert found == wanted


@pytest.mark.parametrize("size", ["N", "N<=64"])
def test_budgets_of_open_sizes(size: str) -> None:
    """Bytes are compared with what sizes may be at most; without a bound, only a part makes sense."""
    weights = [tapec.Variable(tapec.eye(16)) for _ in range(8)]

    def compiled(budget: float | None) -> Any:
        @tapec.compile(dims={"x": (size, 16)}, memory_budget=budget)
        def gradients(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                h = x
                for w in weights:
                    h = tapec.tanh(h @ w)
                loss = tapec.reduce_sum(h**2)
            return tape.gradient(loss, weights)

        return gradients

    wanted = [g.numpy().tobytes() for g in compiled(None)(ROWS)]
    assert [g.numpy().tobytes() for g in compiled(0.7)(ROWS)] == wanted
    if size == "N":
        with pytest.raises(errors.ResourceExhaustedError, match="sizes that only a call tells"):
            compiled(30_000)(ROWS)
    else:
        tight = compiled(30_000)
        assert [g.numpy().tobytes() for g in tight(ROWS)] == wanted
        assert tight.memory().arena <= 30_000


@pytest.mark.parametrize("size", ["N", "N<=64"])
def test_loops_of_open_length_give_up_rows(size: str) -> None:
    """What they keep so that a weight's gradient is one product; their states stay."""
    weight = tapec.Variable(0.3 * tapec.eye(16))

    def compiled(budget: float | None) -> Any:
        @tapec.compile(dims={"x": (size, 16)}, memory_budget=budget)
        def gradient(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                last = tapec.foldl(
                    lambda h, r: tapec.tanh(tapec.linalg.matvec(weight, h) + r),
                    x,
                    tapec.zeros([16]),
                )
                loss = tapec.reduce_sum(last**2)
            return tape.gradient(loss, weight)

        return gradient

    plain, tight = compiled(None), compiled(0.6)
    np.testing.assert_allclose(plain(ROWS), tight(ROWS), rtol=1e-5, atol=1e-7)
    assert typical(tight.memory(ROWS).arena) <= 0.6 * typical(plain.memory(ROWS).arena)


def test_the_least_part_of_open_sizes_can_be_met() -> None:
    """Bytes would be refused there, so the error tells a part."""

    def compiled(budget: float) -> Any:
        @tapec.compile(dims={"x": ("N", 16)}, memory_budget=budget)
        def loss(x):  # type: ignore[no-untyped-def]
            h = tapec.tanh(x)
            return tapec.reduce_sum(h @ tapec.transpose(h) + tapec.reduce_max(h))

        return loss

    with pytest.raises(errors.ResourceExhaustedError, match="can be met") as caught:
        compiled(0.01)(ROWS)
    least = re.search(r"memory_budget=([0-9.]+) can be met", str(caught.value))
    assert least is not None
    assert 0.01 < float(least[1]) <= 1
    compiled(float(least[1]))(ROWS)


@pytest.mark.parametrize(
    "budget", [-1, 0.0, 1.5, math.nan, math.inf, True, np.True_, "1 MB", "50%"], ids=repr
)
def test_budgets_are_bytes_or_parts(budget: Any) -> None:
    with pytest.raises(errors.ValueError, match="memory_budget is bytes, or a part"):
        tapec.compile(lambda x: x, memory_budget=budget)


def test_numpy_numbers_are_budgets() -> None:
    few: Any = np.int64(1000)
    part: Any = np.float32(0.75)
    with pytest.raises(errors.ResourceExhaustedError, match="budget of 1,000 bytes"):
        deep(few)[0](ROWS)
    assert outcome(part) == outcome(0.75)


def test_dropout_has_the_same_mask() -> None:
    """What draws random numbers draws the same ones when it runs again."""

    def results(budget: float | None) -> tuple[Any, list[bytes]]:
        tapec.random.set_seed(3)
        rng = np.random.default_rng(0)
        weights = [
            tapec.Variable((0.3 * rng.normal(size=(16, 16))).astype(np.float32)) for _ in range(8)
        ]

        @tapec.compile(memory_budget=budget)
        def step(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                h = x
                for w in weights:
                    h = tapec.nn.dropout(tapec.nn.gelu(h @ w), 0.3)
                loss = tapec.reduce_sum(h**2)
            return tape.gradient(loss, weights)

        found = [g.numpy().tobytes() for _ in range(2) for g in step(ROWS)]
        return step.memory().arena, found

    plain, wanted = results(None)
    arena, found = results(0.6)
    assert arena <= 0.6 * plain
    assert found == wanted


# ---- what the user says


def test_what_is_to_be_kept_is_not_computed_again() -> None:
    """The states of half of the layers; with a budget that all others could meet as well."""

    def marked(keep: Callable[[Any], Any]) -> tuple[list[bytes], int]:
        rng = np.random.default_rng(0)
        weights = [
            tapec.Variable((0.3 * rng.normal(size=(16, 16))).astype(np.float32)) for _ in range(8)
        ]

        @tapec.compile(memory_budget=0.8)
        def step(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                h = x
                for i, w in enumerate(weights):
                    h = tapec.tanh(h @ w)
                    h = keep(h) if i % 2 else h
                loss = tapec.reduce_mean(h**2)
            return tape.gradient(loss, weights)

        found = [g.numpy().tobytes() for g in step(ROWS)]
        program = lowered(step.ir(), "rematerialize")
        again = [op for op in program.walk() if "recompute" in op.attrs]
        assert not any("keep" in op.attrs for op in again)
        return found, sum("keep" in op.attrs for op in program.walk())

    plain, none = marked(lambda h: h)
    kept, some = marked(tapec.experimental.keep)
    assert kept == plain
    assert (none, some) == (0, 4)


def test_keeping_is_nothing_eagerly() -> None:
    with tapec.GradientTape() as tape:
        x = tapec.constant([1.0, 2.0])
        tape.watch(x)
        y = tapec.experimental.keep(x) * 3.0
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 3.0]


def test_recompute_grad_keeps_nothing_in_compiled_functions() -> None:
    """Blocks of four layers: of each one only what it begins with."""

    def results(wrap: Callable[[Any], Any]) -> tuple[Any, list[bytes]]:
        rng = np.random.default_rng(0)
        weights = [
            tapec.Variable((0.3 * rng.normal(size=(16, 16))).astype(np.float32)) for _ in range(16)
        ]

        def block(first: int) -> Any:
            def layers(h: Any) -> Any:
                for w in weights[first : first + 4]:
                    h = tapec.tanh(h @ w)
                return h

            return wrap(layers)

        @tapec.compile
        def step(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                h = x
                for first in range(0, 16, 4):
                    h = block(first)(h)
                loss = tapec.reduce_mean(h**2)
            return tape.gradient(loss, weights)

        found = [g.numpy().tobytes() for g in step(ROWS)]
        return step.memory().arena, found

    plain, wanted = results(lambda f: f)
    arena, found = results(tapec.recompute_grad)
    assert found == wanted
    assert arena < 0.65 * plain
