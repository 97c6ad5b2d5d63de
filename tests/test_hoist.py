"""`hoist`: programs with loops give what they gave, with less work in each turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tapec
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Operation, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import OPS
from tapec.ir.ops.contraction import MatMul
from tapec.ir.ops.repetition import Loop
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.recording import tracing
from tapec.structure import flatten
from tapec.tensor import type_of
from tapec.tracing import Trace

TURNS, BATCH, SIZE = 5, 2, 4
rng = np.random.default_rng(0)
X = rng.normal(size=(TURNS, BATCH, 3))
WX, WH = 0.4 * rng.normal(size=(3, SIZE)), 0.4 * rng.normal(size=(SIZE, SIZE))
B = rng.normal(size=SIZE)
BEFORE = "inline,canonicalize,cse,dce,adjoint,prune,commit,pairs"
AFTER = "hoist,canonicalize,cse,dce"

State = Any
Cell = Callable[..., State]


def rnn(h: State, x: Any, wx: Any, wh: Any, b: Any) -> State:
    return tapec.tanh(x @ wx + b + h @ wh)


def gated(h: State, x: Any, wx: Any, wh: Any, b: Any) -> State:
    gates = x @ wx + h @ wh + b
    keep = tapec.sigmoid(gates)
    return keep * h + (1.0 - keep) * tapec.tanh(gates * tapec.reduce_sum(tapec.exp(b)))


def read_inside(h: State, x: Any, wx: Any, wh: Any, b: Any) -> State:
    return tapec.tanh((tapec.exp(x) @ wx) * h @ (wh + tapec.matmul(wh, wh)) + b)


def folded(cell: Cell, *args: Any) -> Any:
    x, *weights = args
    zero = tapec.zeros([BATCH, SIZE], tapec.float64)
    return tapec.foldl(lambda h, row: cell(h, row, *weights), x, initializer=zero)


def loss_and_gradients(cell: Cell) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(args)
            loss = tapec.reduce_sum(folded(cell, *args) ** 2)
        return (loss, *tape.gradient(loss, args))

    return run


def program(function: Callable[..., Any], *arrays: Any) -> Module:
    """A function's program as `hoist` gets it."""
    trace = Trace("program")
    with tracing(trace):
        trace.finish(flatten(function(*(trace.input(type_of(a), None) for a in arrays)))[0])
    assert not trace.captures
    module = Module([trace.function])
    run_pipeline(module, parse_pipeline(BEFORE))
    return module


def products(module: Module) -> Iterator[Operation]:
    """The products in bodies of loops."""
    for op in module.walk():
        if isinstance(op.defn, Loop):
            yield from (p for p in op.regions[0].walk() if isinstance(p.defn, MatMul))


@pytest.mark.parametrize(
    ("cell", "before", "after"), [(rnn, 8, 2), (gated, 8, 2), (read_inside, 12, 5)]
)
def test_training_programs_keep_their_results(cell: Cell, before: int, after: int) -> None:
    """Only the two products with what is carried are left, one there, one back.

    In the last cell a weight's square has a derivative in each turn, which is no sum of products.
    """
    arrays = [X, WX, WH, B]
    module = program(loss_and_gradients(cell), *arrays)
    assert len(list(products(module))) == before
    wanted = evaluate_module(clone_module(module), arrays)
    run_pipeline(module, parse_pipeline(AFTER))
    verify(module)
    assert len(list(products(module))) == after
    for found, value in zip(evaluate_module(module, arrays), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cell", [rnn, gated, read_inside])
def test_compiled_is_eager(cell: Cell) -> None:
    arrays = [tapec.constant(a) for a in (X, WX, WH, B)]
    run = loss_and_gradients(cell)
    for found, value in zip(tapec.compile(run)(*arrays), run(*arrays), strict=True):
        np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-11, atol=1e-12)


def test_second_derivatives() -> None:
    def curvature(*args: Any) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(args)
            gradients = loss_and_gradients(rnn)(*args)[1:]
            steepness = tapec.add_n([tapec.reduce_sum(g * g) for g in gradients])
        return outer.gradient(steepness, args)

    arrays = [tapec.constant(a) for a in (X, WX, WH, B)]
    for found, value in zip(tapec.compile(curvature)(*arrays), curvature(*arrays), strict=True):
        np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-9, atol=1e-10)


def test_no_more_rows_are_kept_than_there_is_room_for() -> None:
    module = program(loss_and_gradients(rnn), X, WX, WH, B)
    count = len(list(products(module)))
    run_pipeline(module, parse_pipeline("hoist{room=8},dce"))
    assert len(list(products(module))) == count


STEPS = ["x @ u", "h @ v", "s @ v", "x + x", "tanh", "h * s", "exp b", "sum"]


@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=7), st.booleans(), st.integers(1, TURNS)
)
@settings(max_examples=settings().max_examples // 4)
def test_random_bodies(steps: list[str], reverse: bool, turns: int) -> None:
    """Values and gradients of scans are those of the program that nothing was taken out of."""

    def cell(h: Any, x: Any, u: Any, v: Any, b: Any) -> Any:
        s = x[:, :1] * b
        for step in steps:
            change: dict[str, Callable[[Any], Any]] = {
                "x @ u": lambda s: s + x @ u,
                "h @ v": lambda s: s + h @ v,
                "s @ v": lambda s: s @ v,
                "x + x": lambda s: s * (x + x)[:, 1:2],
                "tanh": tapec.tanh,
                "h * s": lambda s: h * s,
                "exp b": lambda s: s * tapec.exp(b),
                "sum": lambda s: s - tapec.reduce_sum(x @ u) * 0.1,
            }
            s = change[step](s)
        return tapec.tanh(s)

    def run(x: Any, u: Any, v: Any, b: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch([x, u, v, b])
            start = tapec.ones([BATCH, SIZE], tapec.float64)
            states = tapec.scan(
                lambda h, row: cell(h, row, u, v, b), x[:turns], start, reverse=reverse
            )
            loss = tapec.reduce_sum(states * states)
        return (loss, *tape.gradient(loss, [x, u, v, b], unconnected_gradients="zero"))

    module = program(run, X, WX, WH, B)
    wanted = evaluate_module(clone_module(module), [X, WX, WH, B])
    run_pipeline(module, parse_pipeline(AFTER))
    verify(module)
    for found, value in zip(evaluate_module(module, [X, WX, WH, B]), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-9)


# ---- what an operation says of it


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_products_summed_over_a_batch(transposed: tuple[bool, bool], lead: tuple[int, ...]) -> None:
    ta, tb = transposed
    first = rng.normal(size=(6, *lead, *((3, 4) if ta else (4, 3))))
    second = rng.normal(size=(6, *lead, *((5, 3) if tb else (3, 5))))
    function = Function("f", [type_of(first), type_of(second)])
    b = Builder(function.block)
    total = OPS["matmul"].batch_sum(b, function.args, transpose_a=ta, transpose_b=tb)
    b.emit("return", total)
    one = first.swapaxes(-1, -2) if ta else first
    other = second.swapaxes(-1, -2) if tb else second
    (found,) = evaluate_module(Module([function]), [first, second])
    np.testing.assert_allclose(found, (one @ other).sum(0), rtol=1e-12)


@pytest.mark.parametrize("dims", [(TURNS, "N", 3), ("T", BATCH, 3), ("T", "N", 3)])
def test_the_input_product_of_open_sizes_leaves_the_loop(dims: tuple[Any, ...]) -> None:
    wx, wh = tapec.Variable(WX), tapec.Variable(WH)

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            zero = tapec.zeros([tapec.shape(x)[1], SIZE], tapec.float64)
            h = tapec.foldl(lambda h, row: rnn(h, row, wx, wh, B), x, initializer=zero)
            loss = tapec.reduce_mean(h * h)
        return loss, *tape.gradient(loss, [wx, wh])

    f = tapec.compile(step, dims={"x": dims})
    for turns, rows in ((TURNS, BATCH), (TURNS, 7), (8, BATCH), (1, 1)):
        if dims[0] in ("T", turns) and dims[1] in ("N", rows):
            x = tapec.constant(rng.normal(size=(turns, rows, 3)))
            for found, wanted in zip(f(x), step(x), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    assert len(f.programs) == 1
    loops = [op for op in f.ir("dce").entry.walk() if isinstance(op.defn, Loop)]
    inside = [op for loop in loops[:1] for op in loop.walk() if isinstance(op.defn, MatMul)]
    assert len(inside) == 1  # the carried state's
