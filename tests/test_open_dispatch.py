"""The quick way of a call where sizes are open: as native as with fixed ones, and never where a call takes long."""

from __future__ import annotations

import functools
import gc
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tapec
from tapec.compiled.function import CompiledFunction
from tapec.compiler import lowered
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module
from tapec.ir.dims import symbol
from tapec.ir.types import F32, F64, BufferType
from tapec.runtime.cpu.estimate import estimate
from tapec.runtime.cpu.program import compile_program
from tapec.runtime.cpu.work import SHORT_WORK, work

WIDTH = 9


def data(rows: int) -> tuple[tapec.Tensor, tapec.Tensor]:
    """A batch, and what is wanted of it."""
    rng = np.random.default_rng(rows)
    x, y = rng.normal(size=(rows, WIDTH)), rng.normal(size=(rows, 2))
    return tapec.constant(x.astype(np.float32)), tapec.constant(y.astype(np.float32))


def training(**options: Any) -> tuple[tapec.Variable, Any]:
    """Weights, and a train step for batches of any size."""
    w = tapec.Variable(np.full((WIDTH, 2), 0.5, np.float32))
    optimizer = tapec.optimizers.SGD(0.1)

    def step(x: Any, y: Any) -> Any:
        with tapec.GradientTape() as tape:
            errors = tapec.reduce_sum((tapec.tanh(x @ w) - y) ** 2, 1)
            loss = tapec.reduce_sum(errors)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss, {"errors": errors}

    return w, tapec.compile(step, **options)


def count(step: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the ways that are not native, one for each call that goes them from now on."""
    ways: list[str] = []
    for name in ("_find_quickly", "_bound"):
        plain = getattr(CompiledFunction, name)

        def counted(*args: Any, name: str = name, plain: Any = plain, **kwargs: Any) -> Any:
            ways.append(name)
            return plain(*args, **kwargs)

        monkeypatch.setattr(CompiledFunction, name, counted)
    return ways


OPEN: list[dict[str, Any]] = [
    {"dims": {"x": ("N", WIDTH), "y": ("N", 2)}},
    {"dynamic": "auto"},
    {"dynamic": True},
]


@pytest.mark.parametrize("options", OPEN, ids=["dims", "auto", "all"])
def test_steps_of_any_size_are_native(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    w, step = training(**options)
    v, fixed = training(dynamic=False)
    for rows in (4, 5, 33, 1, 0, 70):
        x, y = data(rows)
        for _ in range(2):
            loss, rest = step(x, y)
            wanted, others = fixed(x, y)
            assert_allclose(loss, wanted, rtol=1e-5)
            assert_allclose(rest["errors"], others["errors"], rtol=1e-5)
            assert rest["errors"].type is others["errors"].type
            assert type(loss) is type(x)
    assert_allclose(w, v, rtol=1e-4)
    with monkeypatch.context() as patch:
        ways = count(step, patch)
        for n in range(3):
            loss, rest = step(x, y)
            assert rest["errors"].shape == [70], n
        assert ways == []
        step(x.numpy(), y.numpy())  # who gives arrays has no Tensors made of them
        assert ways == []
        step(*data(50))
        assert ways == ["_find_quickly", "_bound"]


def test_sizes_are_held_to() -> None:
    w, step = training(**OPEN[0])
    step(*data(4))
    program, captures = step.programs[0].executable, step.programs[0].captures
    assert program.boxed_at({}) is None
    boxed = program.boxed_at({"N": 4})
    assert isinstance(boxed, functools.partial)
    (x, y), (longer, _) = data(4), data(5)
    before = w.numpy()
    for inputs in ((longer, y), (x,), (x, y, y), (x, y.numpy().astype(np.float64)), (y, x)):
        assert boxed(*inputs, *captures) is NotImplemented
    for sizes in ([5], [4, 4], []):
        given = np.array(sizes, np.int64), *boxed.args[1:]
        assert boxed.func(*given, x, y, *captures) is NotImplemented
    assert boxed.func(np.array([4], np.int32), *boxed.args[1:], x, y, *captures) is NotImplemented
    assert boxed.func(x, y, *captures) is NotImplemented
    assert_array_equal(w, before)
    errors, loss = sorted(boxed(x, y, *captures), key=lambda t: -t.ndim)
    assert (errors.shape, loss.shape) == ([4], [])
    assert (w.numpy() != before).any()


def counted(kernel: Function, rows: int) -> float:
    """What a kernel of `estimate` says of so many rows."""
    entry = Function("f", [BufferType(F32, (symbol("N", 1),)), BufferType(F64, ())])
    entry.attrs["inputs"] = 1
    builder = Builder(entry.block)
    builder.emit("launch", entry.args[1], kernel=kernel.name)
    builder.emit("return")
    (found,) = compile_program(Module([entry, kernel]))(np.zeros(rows, np.float32))
    return float(found)


@pytest.mark.parametrize("rows", [1, 5, 64, 1000])
def test_work_is_counted_at_the_call(rows: int) -> None:
    """As it is counted where sizes are known."""
    counts = []
    for options in (OPEN[0], {"dynamic": False}):
        _, step = training(**options)
        step(*data(rows + (rows == 1 and "dims" in options)))
        counts.append(lowered(step.programs[0].module))
    opened, fixed = counts
    kernel = estimate(opened)
    assert kernel is not None
    known = work(fixed.entry.block, fixed)
    assert known / 2 < counted(kernel, rows) < 2 * known + 1000


def test_long_calls_leave_the_interpreter_to_others() -> None:
    """The same program is native to the end for few rows, and goes the general way for many."""
    w = tapec.Variable(np.zeros(64, np.float32))

    @tapec.compile(dims={"x": ("N", 64)})
    def f(x: Any) -> Any:
        w.assign_add(tapec.reduce_sum(tapec.matmul(x, x, transpose_a=True), 0))
        return w[0]

    for n in range(1, 4):
        assert f(tapec.ones([20, 64])).numpy() == 20 * 64 * n
    program = f.programs[0].executable
    few, many = (program.boxed_at({"N": n}) for n in (20, SHORT_WORK))
    assert few is not None
    assert many is not None
    assert few(tapec.ones([20, 64]), w).numpy() == 20 * 64 * 4
    assert many(tapec.ones([20, 64]), w) is NotImplemented
    assert f(tapec.ones([100_000, 64])).numpy() == 64 * (100_000 + 4 * 20)


def test_loops_whose_turns_no_size_tells_are_not_short() -> None:
    @tapec.compile(dims={"x": ("N",)})
    def f(x: Any) -> Any:
        n = tapec.constant(1)
        while tapec.reduce_sum(x) > tapec.cast(n, tapec.float32):
            n = n * 2
        return n

    assert f(tapec.ones([5])).numpy() == f(tapec.ones([6])).numpy() == 8
    assert f.programs[0].executable.call_boxed is None


def test_what_is_looked_at_is_native_too() -> None:
    f = tapec.compile(lambda x: (tapec.math.log(x), x[0]), dims={"x": ("N",)})
    tapec.debugging.enable_check_numerics()
    try:
        for n in (3, 3, 5, 5, 3):
            for _ in range(2):
                found, first = f(tapec.ones([n]))
                assert found.numpy().tolist() == [0.0] * n
            assert f._quick_look is not None
            with pytest.raises(tapec.errors.InvalidArgumentError):
                f(tapec.zeros([n]))
    finally:
        tapec.debugging.disable_check_numerics()
    assert first.numpy() == 1.0


def test_finalizers_may_give_variables_other_arrays() -> None:
    """Making results may collect garbage: what they do to a Variable is there before it is looked at."""
    v = tapec.Variable(np.zeros(3, np.float32))
    done: list[int] = []

    class Busy:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            v.assign(v + 100.0)
            done.append(1)

    @tapec.compile(dims={"x": ("N", 3)})
    def step(x: Any) -> Any:
        v.assign_add(tapec.reduce_sum(x, 0))
        return [x * k for k in range(1, 5)]

    x = tapec.ones([2, 3])
    step(x), step(x)
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(30):
            Busy()
            step(x)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(done) == 30
    assert v.numpy().tolist() == [64.0 + 3000.0] * 3
