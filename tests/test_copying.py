"""Copies of arguments are made by kernels that are there anyway, and never after the argument has its new value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.ir.core import Block, Module, Operation
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.repetition import Loop
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.recording import tracing
from tapec.structure import flatten
from tapec.tensor import type_of
from tapec.tracing import Trace

PIPELINE = "inline,canonicalize,cse,dce,adjoint,prune,commit,pairs,hoist,canonicalize,cse,dce,fuse"
TURNS, SHAPE = 4, (6, 40)


def data(count: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, SHAPE).astype(np.float32) for _ in range(count)]


def fused(function: Callable[..., Any], count: int) -> Module:
    """The kernels of a function of so many arrays."""
    trace = Trace("program")
    with tracing(trace):
        trace.finish(flatten(function(*[trace.input(type_of(a), None) for a in data(count)]))[0])
    module = Module([trace.function])
    run_pipeline(module, parse_pipeline(PIPELINE))
    verify(module)
    return module


def bodies(module: Module) -> list[Block]:
    """The turns of a program's loops."""
    return [op.regions[0].block for op in module.walk() if isinstance(op.defn, Loop)]


def kernels(block: Block) -> list[Operation]:
    return [op for op in block.ops if isinstance(op.defn, KernelOp)]


def copied(kernel: Operation) -> int:
    """How many of its arguments a kernel returns as they are."""
    block = kernel.regions[0].block
    return sum(value in block.args for value in block.terminator.operands)


def gradients(*states: Any) -> Any:
    """Those of a loop's last states, whose turns need on the way back what they began with."""
    with tapec.GradientTape() as tape:
        tape.watch(states)
        h, c = tapec.foldl(
            lambda s, _: (tapec.sin(s[0]) * s[1], tapec.cos(s[1]) * s[0]),
            tapec.range(TURNS),
            initializer=states,
        )
        loss = tapec.reduce_sum(h * c)
    return tape.gradient(loss, list(states))


def test_a_loop_keeps_its_states_in_the_kernel_that_makes_the_next() -> None:
    forward, _ = bodies(fused(gradients, 2))
    (kernel,) = kernels(forward)
    assert copied(kernel) == 2


def test_nothing_is_copied_after_its_memory_was_written() -> None:
    """Here the loops that could make a copy run when the state has its next value: they are not given it."""

    def cell(s: Any, _: Any) -> Any:
        h, _, _ = s
        following = tapec.nn.softmax(h)
        return following, h, tapec.sin(tapec.transpose(tapec.transpose(following) @ h))

    def program(h: Any) -> Any:
        square = h[:, :6]
        return tapec.scan(cell, tapec.range(TURNS), initializer=(square, square, square))

    (body,) = bodies(fused(program, 1))
    assert [len(k.results) for k in kernels(body) if copied(k)] == [1]


def test_two_results_that_are_one_argument_are_two_arrays() -> None:
    step = tapec.compile(lambda x: (x, x + 1, x))
    (x,) = data(1)
    same, more, again = step(tapec.constant(x))
    np.testing.assert_array_equal(same.numpy(), x)
    np.testing.assert_array_equal(more.numpy(), x + 1)
    np.testing.assert_array_equal(again.numpy(), x)
    (kernel,) = kernels(fused(lambda x: (x, x + 1, x), 1).entry.block)
    assert copied(kernel) == 2


CELLS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "the first becomes the second": (2, lambda s: (s[1], s[0] + s[1])),
    "the second becomes the first": (2, lambda s: (s[0] - s[1], s[0])),
    "two change places": (2, lambda s: (s[1], s[0])),
    "three change places": (3, lambda s: (s[1], s[2], s[0])),
    "three, one of them new": (3, lambda s: (s[2] + s[1], s[0], s[1] - s[0])),
    "rows are turned round": (2, lambda s: (tapec.reverse(s[1], [0]), s[0])),
    "rows are turned round and kept": (2, lambda s: (s[1], tapec.reverse(s[0], [0]) + s[0])),
    "columns are turned round": (3, lambda s: (tapec.reverse(s[1], [1]), s[0], s[0] + s[1])),
    "one is multiplied": (2, lambda s: (s[0] @ tapec.ones([40, 40]), s[1])),
    "one is added up": (2, lambda s: (tapec.cumsum(s[0] - s[1], axis=1), s[1])),
    "one is summed": (2, lambda s: (s[1] - tapec.reduce_sum(s[0], 1, keepdims=True), s[0])),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("stacked", [False, True])
def test_states_that_change_places(name: str, stacked: bool) -> None:
    """Integers as floats: every order of additions has the same result."""
    count, cell = CELLS[name]
    loop: Any = tapec.scan if stacked else tapec.foldl
    states = data(count)

    @tapec.compile
    def run(*states: Any) -> Any:
        return loop(lambda s, _: cell(s), tapec.range(TURNS), initializer=states)

    got = run(*map(tapec.constant, states))
    turns = []
    for _ in range(TURNS):
        states = [v.numpy() for v in cell(tuple(map(tapec.constant, states)))]
        turns.append(states)
    expected = [np.stack(each) for each in zip(*turns, strict=True)] if stacked else states
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
