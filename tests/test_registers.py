"""Loops of a few numbers are one kernel that carries them in registers, and compute the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loop_programs import check, until_large

import tapec
from tapec.ir.core import Module, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops import loop
from tapec.ir.parser import parse_module
from tapec.ir.verifier import verify
from tapec.passes import PIPELINES
from tapec.passes.loops import registers
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

TURNS = 5


def carried(module: Module) -> list[int]:
    """How many values the loops of kernels carry that were loops of the entry."""
    kernels = [f for name, f in module.functions.items() if name.startswith("turns")]
    return [len(op.results) for f in kernels for op in f.walk() if isinstance(op.defn, loop.For)]


def oscillator(p: Any, start: Any) -> Any:
    """A state of two numbers, the rows of which the way back reads."""
    with tapec.GradientTape() as tape:
        tape.watch([p, start])
        x, v, n = start[0], start[1], tapec.constant(0)
        for _ in tapec.range(TURNS):
            x, v, n = x + 0.1 * v, v + 0.1 * (p * (1.0 - x * x) * v - x), n + 1
        loss = x * v * tapec.cast(n, p.dtype)
    return (loss, n, *tape.gradient(loss, [p, start]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_same_bits(dtype: str) -> None:
    specs = tapec.TensorSpec([], dtype), tapec.TensorSpec([2], dtype)
    module = tapec.compile(oscillator).lower(*specs).module
    p, start = (np.asarray(tapec.constant(a, dtype)) for a in (0.7, [1.0, 0.5]))
    found = []
    for text in (PIPELINES["default"], PIPELINES["ahead"]):
        copy = clone_module(module)
        run_pipeline(copy, parse_pipeline(text))
        verify(copy)
        found.append([np.asarray(r).tobytes() for r in compile_module(copy)(p, start)])
        assert carried(copy) == ([3, 3] if text == PIPELINES["default"] else [])
    assert found[0] == found[1]


CELLS = """
func @f(
  %x: &f32[8], %rows: &f32[TURNS,2], %out: &f32[8], %kept: &f32[TURNS], %flag: &bool
) -> (%out, %kept, %flag) {inputs = 2} {
  launch %x, %out, %flag {kernel = "begin"}
  %lo = constant {value = 0} : index
  %hi = constant {value = TURNS} : index
  for %lo, %hi { ^(%i: index):
    %row = view %rows, %i {stride = 8} : &f32[2]
    %one = view %kept, %i {stride = 4} : &f32
    %part = view %out {offset = 16} : &f32[4]
    launch %row, %part, %one, %flag {kernel = "turn"}
    yield
  }
  return
}
kernel @begin(%x: &f32[8], %out: &f32[8], %flag: &bool) {
  %0 = constant {value = 0} : index
  %v = load %x, %0 {lanes = 8} : f32x8
  store %v, %out, %0
  %t = constant {value = true} : bool
  store %t, %flag
  return
}
kernel @turn(%row: &f32[2], %out: &f32[4], %one: &f32, %flag: &bool) {
  %0 = constant {value = 0} : index
  %1 = constant {value = 1} : index
  %2 = constant {value = 2} : index
BODY
  return
}
"""
SCALARS = """  %a = load %row, %1 : f32
  %b = load %out, %0 : f32
  %c = load %out, %1 : f32
  %s = add %a, %b : f32
  %was = load %flag : bool
  %t = where %was, %s, %c : f32
  %not = not %was : bool
  store %c, %out, %0
  store %t, %out, %1
  store %not, %flag
  store %b, %one"""
VECTORS = """  %a = load %row, %0 {lanes = 2} : f32x2
  %b = load %out, %0, %1 {lanes = 2, masked = true} : f32x2
  %c = load %out, %2 {lanes = 2} : f32x2
  %s = add %a, %c : f32x2
  %t = add %b, %s : f32x2
  store %t, %out, %0, %1 {masked = true}
  store %s, %out, %2
  %h = load %row, %0 : f32
  store %h, %one"""
MIXED = """  %a = load %row, %0 : f32
  %b = load %out, %0, %2 {lanes = 4, masked = true} : f32x4
  %r = reduce_lanes %b {combine = "add"} : f32
  %s = splat %r {lanes = 4} : f32x4
  store %s, %out, %0, %2 {masked = true}
  %t = add %a, %r : f32
  store %t, %out, %2
  store %t, %one"""
OVERLAPPING = """  %a = load %row, %0 {lanes = 2} : f32x2
  %b = load %out, %0 {lanes = 2} : f32x2
  %s = add %a, %b : f32x2
  store %s, %out, %0
  %c = load %out, %1 : f32
  %d = load %out, %2 : f32
  %e = add %c, %d : f32
  store %e, %out, %2
  store %c, %one"""
MOVING = """  %a = load %row, %0 : f32
  %b = load %one : f32
  %s = add %a, %a : f32
  store %s, %one
  %c = load %one : f32
  %d = load %out, %0 : f32
  %e = add %c, %d : f32
  store %e, %out, %0"""


@pytest.mark.parametrize(
    ("body", "turns", "count"),
    [
        (SCALARS, TURNS, 3),
        (VECTORS, TURNS, 2),
        (MIXED, TURNS, 1),
        (OVERLAPPING, TURNS, 1),
        (MOVING, TURNS, 1),
        (SCALARS, 0, 3),
    ],
)
def test_cells(body: str, turns: int, count: int) -> None:
    """What is reached in two ways, or moves, stays in memory."""
    text = CELLS.replace("BODY", body).replace("TURNS", str(turns))
    module = parse_module(text)
    x, rows = np.arange(8, dtype=np.float32), np.arange(2 * turns, dtype=np.float32) ** 2
    arrays = x, rows.reshape(turns, 2)
    before = evaluate_module(module, arrays)
    assert registers.run(module)
    verify(module)
    assert carried(module) == [count]
    for old, new in zip(before, check(module, *arrays), strict=True):
        np.testing.assert_array_equal(old, new)


def test_long_loops_can_be_stopped() -> None:
    """A kernel is never left: a loop that takes long stays in the entry."""
    text = CELLS.replace("BODY", SCALARS).replace("TURNS", str(1 << 20))
    assert not registers.run(parse_module(text))


def test_loops_whose_end_nobody_knows_stay() -> None:
    """One that may end before its bound, which is a number of the call."""
    grown = tapec.compile(until_large)
    assert float(grown(tapec.ones([2]), tapec.constant(50))[0]) == 64.0


def test_a_loop_that_only_draws_moves_its_key_on() -> None:
    """Nobody reads the numbers: what it carries and a table are all that is left of it."""

    @tapec.compile
    def f(generator: Any) -> None:
        for _ in tapec.range(3):
            generator.uniform([])

    one, other = (tapec.random.Generator.from_seed(3) for _ in range(2))
    f(one)
    for _ in range(3):
        other.uniform([])
    np.testing.assert_array_equal(one.state, other.state)
    assert f.programs[0].executable.native


def test_what_lies_behind_an_open_size_stays() -> None:
    """Nobody knows whether it is memory of its own."""
    view = "  %part = view %out {offset = 16} : &f32[4]\n"
    text = CELLS.replace("BODY", SCALARS).replace("TURNS", "5").replace("  " + view, "")
    text = text.replace(
        "  %lo =", view.replace("%out {offset = 16}", "%arena {offset = 4*N}") + "  %lo ="
    )
    module = parse_module(text.replace("%out: &f32[8]", "%arena: &f32[N+8], %out: &f32[8]", 1))
    assert not registers.run(module)
