"""Loops back have few states at a time, and turns run again as seldom as that allows: counted, turn by turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.ir.core import Module, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops.elementary import Tanh
from tapec.ir.ops.repetition import Loop
from tapec.ir.verifier import verify
from tapec.passes import PIPELINES
from tapec.passes.loops.reversal import advances, schedule
from tapec.passes.memory.footprint import footprint
from tapec.passes.observers import random_inputs
from tapec.passes.pipeline import parse_pipeline, run_pipeline

READY = PIPELINES["default"].split(", revolve")[0]
WIDTH = 8


@pytest.mark.parametrize("rows", [2, 3, 4, 7, 16])
def test_schedules_run_no_step_more_than_need_be(rows: int) -> None:
    """Gone through with a stack of so many rows; that `advances` is the least, test_rematerialize searches for."""
    for steps in range(1, 60):
        found = schedule(steps, rows)
        stack: list[int | None] = [None] * rows
        stack[: len(found.kept)] = found.kept
        back, run = steps, steps - 1
        for stretch in found.stretches:
            for move in stretch.advances:
                assert stack[move.row] == move.first
                stack[move.row + 1] = move.first + move.steps
                run += move.steps
            assert stack[stretch.row] == stretch.first
            states = range(stretch.first, stretch.first + stretch.steps)
            if stretch.runs:
                stack[stretch.row : stretch.row + stretch.steps] = states
                run += stretch.steps - 1
            assert stack[stretch.row : stretch.row + stretch.steps] == list(states)
            assert len(stack) == rows
            assert states.stop == back
            back = stretch.first
        assert back == 0
        assert run == found.forwards == advances(steps, rows - 2)


# ---- programs


def recurrence(x: Any, w: Any, start: Any) -> Any:
    """Only the last state is read."""
    return tapec.foldl(lambda s, r: tapec.tanh(w * s + r), x, start)


def reversed_rows(x: Any, w: Any, start: Any) -> Any:
    """Rows come in from the last one on, and go out."""

    def step(state: Any, row: Any) -> Any:
        following = tapec.tanh(w * state[0] + row)
        return following, following * row

    states = tapec.scan(step, x, (start, start), reverse=True)
    return states[0][0] + tapec.reduce_sum(states[1][1:] * states[1][:-1], axis=0)


def several_states(x: Any, w: Any, start: Any) -> Any:
    """Of other types, too, and one that no state depends on."""

    def step(state: Any, row: Any) -> Any:
        a, n, total = state
        a = tapec.tanh(w * a + row / tapec.cast(n, tapec.float32))
        return a, n + 1, total + a * row

    first, _, total = tapec.foldl(step, x, (start, tapec.constant(1), tapec.zeros_like(start)))
    return first * total


def without_rows(x: Any, w: Any, start: Any) -> Any:
    """Turns that are only counted."""
    body = lambda i, s: (i + 1, tapec.tanh(w * s + x[0]))  # noqa: E731  a line tells more here
    loop = tapec.while_loop(lambda i, s: i < len(x), body, (tapec.constant(0), start))
    return loop[1]


def program(f: Callable[..., Any], turns: int, dtype: Any = np.float32) -> Module:
    """The gradients of a loop, as traced."""
    w = tapec.Variable(np.linspace(-1, 1, WIDTH).astype(dtype))

    @tapec.compile
    def gradients(x, start):  # type: ignore[no-untyped-def]
        with tapec.GradientTape() as tape:
            tape.watch((x, start))
            loss = tapec.reduce_sum(f(x, w, start) ** 2)
        return tape.gradient(loss, [w, x, start])

    shapes = [tapec.TensorSpec([turns, WIDTH], dtype), tapec.TensorSpec([WIDTH], dtype)]
    gradients.get_concrete_function(*shapes)
    return clone_module(gradients.ir())


def run(module: Module, rows: int | None) -> tuple[Module, list[bytes], int]:
    """The module as it comes to `rematerialize`, what it makes, and how many states `tanh` was asked for."""
    module = clone_module(module)
    for op in module.walk():
        if rows is not None and isinstance(op.defn, Loop):
            op.attrs["states"] = rows
    module.entry.attrs["row_bytes"] = 0
    run_pipeline(module, parse_pipeline(f"{READY}, revolve"))
    verify(module)
    arrays = random_inputs(module.entry)
    count = 0
    evaluate = Tanh.evaluate

    def counted(self: Tanh, *args: Any, **attrs: Any) -> Any:
        nonlocal count
        count += 1
        return evaluate(self, *args, **attrs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tanh, "evaluate", counted)
        found = evaluate_module(module, arrays)
    return module, [v.tobytes() for v in found], count


def with_masks(x: Any, w: Any, start: Any) -> Any:
    """Random numbers are the same when they are drawn again."""
    tapec.random.set_seed(3)
    return tapec.foldl(lambda s, r: tapec.nn.dropout(tapec.tanh(w * s + r), 0.3), x, start)


def with_checks(x: Any, w: Any, start: Any) -> Any:
    """A loop that counts its turns goes through all of them, whatever fails."""
    finite = tapec.debugging.assert_all_finite
    return tapec.foldl(lambda s, r: finite(tapec.tanh(w * s + r), "bad"), x, start)


PROGRAMS = [recurrence, reversed_rows, several_states, without_rows, with_masks, with_checks]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize(("turns", "rows"), [(3, 2), (11, 2), (29, 4), (29, 20)])
def test_loops_run_as_few_turns_as_the_formula_says(f: Any, turns: int, rows: int) -> None:
    """Each once on the way there, and once where its gradient is taken; the rest are the fewest that there can be."""
    module = program(f, turns)
    _, wanted, once = run(module, None)
    assert once == 2 * turns
    _, found, count = run(module, rows)
    assert found == wanted
    assert count == turns + 1 + advances(turns, rows - 2)


def test_many_turns_keep_few_states() -> None:
    module = program(recurrence, 1000)
    plain, wanted, _ = run(module, None)
    few, found, count = run(module, 40)
    assert found == wanted
    assert count == 1001 + advances(1000, 38) == 3_140
    assert footprint(few.entry).arena < 0.1 * footprint(plain.entry).arena
    assert schedule(10_000, 300).forwards == advances(10_000, 298) == 19_699


def loops_in_loops(x: Any, w: Any, start: Any) -> Any:
    """Both bear few states."""

    def outer(state: Any, row: Any) -> Any:
        return tapec.foldl(lambda s, r: tapec.tanh(w * s + r * row), x[:7], state)

    return tapec.foldl(outer, x, start)


def test_loops_in_loops_have_few_states_each() -> None:
    module = program(loops_in_loops, 12)
    plain, wanted, _ = run(module, None)
    few, found, _ = run(module, 3)
    assert found == wanted
    inner = [op for op in few.walk() if isinstance(op.defn, Loop)]
    assert len(inner) > 2 * sum(isinstance(op.defn, Loop) for op in plain.walk())


def test_what_is_to_be_kept_does_not_run_again() -> None:
    def kept(x: Any, w: Any, start: Any) -> Any:
        return tapec.foldl(lambda s, r: tapec.experimental.keep(tapec.tanh(w * s + r)), x, start)

    module = program(kept, 20)
    _, wanted, once = run(module, None)
    _, found, count = run(module, 4)
    assert (found, count) == (wanted, once)
