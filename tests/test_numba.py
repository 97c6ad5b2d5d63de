"""The engine that compiles by Numba agrees with the evaluator, and with the other engine.

Numba takes long to compile. Here are every scalar primitive for a dtype of each kind, and programs that have every
operation of the loop level; what Python itself makes of the text is tested for all operations in `test_python_text`.
As a program, ``python tests/test_numba.py``, this file takes the workloads of the benchmarks through their check steps,
and compiles every sample of every operation, for every dtype; that takes a processor most of an hour. Several can
share the work: ``python tests/test_numba.py 1/4`` does the first quarter, and ``1/1 sum gather`` what is named.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from benchmark_steps import BENCHMARKS
from programs_of_ops import ELEMENTWISE, Program, assert_close, edge_operands, sample_program
from sampling import tensor_ops
from test_workloads import WORKLOADS, differences

import tapec
from tapec.ir.core import Module
from tapec.ir.errors import DTypeError, TargetError
from tapec.ir.op import OPS
from tapec.ir.scalar import Scalar
from tapec.ir.types import BF16, BOOL, F32, I32, U64, DType, TensorType, as_dtype
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

LOWER = parse_pipeline("pairs,fuse,schedule{vector-bytes=0,masked=false},plan,lower")


def by_numba(module: Module) -> Any:
    """What Numba makes of the text."""
    run_pipeline(module, LOWER)
    return compile_module(module, target="numba")


def test_without_numba_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapec.runtime.find_spec", lambda name: None)
    with pytest.raises(TargetError, match=r"not installed(?s:.*)pip install numba"):
        tapec.compile(lambda x: x + 1.0, engine="numba")(tapec.constant(1.0))


@pytest.mark.parametrize("dtype", [F32, BF16, I32, U64, BOOL], ids=str)
def test_primitives(dtype: DType) -> None:
    program = Program()
    for defn in ELEMENTWISE:
        if not isinstance(getattr(defn, "scalar", None), Scalar):
            continue
        operands = [a[::7] for a in edge_operands(defn, dtype)]
        try:
            result = defn.infer(*(TensorType(as_dtype(a.dtype), a.shape) for a in operands))
        except DTypeError:
            continue
        if not result.dtype.is_complex:
            program.add(defn, operands, {})
    assert program.results
    for found, expected in program.run(by_numba):
        assert_close(found, expected, ulps=64)


def attention(x: Any, n: Any) -> Any:
    """Products, rows, a scan, a branch and a loop that may end early."""
    for i in tapec.range(n):
        x = tapec.nn.softmax(x @ tapec.transpose(x)) @ x + tapec.cast(i, x.dtype)
    if n > 2:
        x = tapec.cumsum(x, axis=0)
    while tapec.reduce_sum(x) > 5.0:
        x = x * 0.5
    return x, tapec.gather(x, tapec.argsort(x[:, 0]))


def rolled(x: Any, n: Any) -> Any:
    """A recurrence, with its gradient."""
    with tapec.GradientTape() as tape:
        tape.watch(x)
        state = x
        for _ in tapec.range(4):
            state = tapec.sin(state) + 0.1 * x
        loss = tapec.reduce_sum(state * state)
    return tape.gradient(loss, x), loss + tapec.cast(n, x.dtype)


def halves(x: Any, n: Any) -> Any:
    """16-bit floats in memory and through conversions."""
    y = tapec.cast(x, tapec.bfloat16) * 3
    return tapec.cast(y, tapec.float16), tapec.cast(tapec.reduce_max(y), tapec.int8), x > 0.5


@pytest.mark.parametrize("function", [attention, rolled, halves], ids=lambda f: f.__name__)
def test_programs_agree_with_the_other_engine(function: Callable[..., Any]) -> None:
    x = np.linspace(-1, 1, 15).reshape(5, 3)
    for n in (1, 3):
        args = tapec.constant(x), tapec.constant(n)
        expected = tapec.compile(function)(*args)
        for found, wanted in zip(
            tapec.compile(function, engine="numba")(*args), expected, strict=True
        ):
            assert_close(found.numpy(), wanted.numpy(), ulps=16)


def test_steps_update_variables() -> None:
    def trained(engine: Any) -> tuple[Any, Any]:
        w = tapec.Variable(np.linspace(-1, 1, 12).reshape(4, 3))
        optimizer = tapec.optimizers.Adam(0.1)

        @tapec.compile(engine=engine)
        def step(x: Any) -> Any:
            with tapec.GradientTape() as tape:
                loss = tapec.reduce_mean(tapec.tanh(x @ w))
            gradients, norm = tapec.clip_by_global_norm(tape.gradient(loss, [w]), 1.0)
            optimizer.apply_gradients(zip(gradients, [w], strict=True))
            return loss, norm

        x = np.linspace(0, 1, 20).reshape(5, 4)
        losses = [step(x) for _ in range(3)]
        assert all(p.executable.native for p in step.programs)
        return losses[-1][0].numpy(), w.numpy()

    for found, expected in zip(trained("numba"), trained("llvm"), strict=True):
        assert_close(found, expected, ulps=16)


def test_a_program_serves_all_sizes_and_says_what_it_is_for() -> None:
    @tapec.compile(engine="numba", dims={"x": ("N<=8", 3)})
    def total(x: Any) -> Any:
        return tapec.reduce_sum(x, 0), tapec.shape(x)[0]

    for n in (2, 8):
        sums, count = total(np.ones([n, 3]))
        np.testing.assert_array_equal(sums.numpy(), [n] * 3)
        assert int(count) == n
    assert len(total.programs) == 1
    with pytest.raises(ValueError, match="N of at most 8"):
        total(np.ones([9, 3]))


def test_a_table_is_larger_than_the_text_shows() -> None:
    table = np.arange(40.0) ** 2
    step = tapec.compile(lambda i: tapec.gather(tapec.constant(table), i), engine="numba")
    assert step(np.array([39, 3], np.int32)).numpy().tolist() == [1521.0, 9.0]


def test_what_it_calls_and_checks() -> None:
    seen: list[float] = []

    def hear(x: Any) -> Any:
        seen.append(float(x))
        return x * 2

    @tapec.compile(engine="numba")
    def step(x: Any) -> Any:
        tapec.debugging.assert_less(x, 2.0, message="too much")
        return tapec.numpy_function(hear, [tapec.reduce_sum(x)], tapec.float64)

    assert float(step(np.ones(3))) == 6.0
    assert seen == [3.0]
    with pytest.raises(tapec.errors.InvalidArgumentError, match="too much"):
        step(np.full(3, 5.0))


def test_it_is_asked_for_by_name() -> None:
    with pytest.raises(ValueError, match="there is no engine 'numpy'"):
        tapec.compile(lambda x: x, engine="numpy")  # type: ignore[call-overload]


def test_what_it_cannot_do_is_refused_by_name() -> None:
    @tapec.custom_op("numba_engine.twice")
    def twice(x: Any) -> Any:
        return x * 2

    step = tapec.compile(lambda x: twice(x) + 1, engine="numba")
    try:
        with pytest.raises(
            tapec.errors.TargetError, match=r"no Python text for numba_engine\.twice"
        ):
            step(np.ones(3))
    finally:
        del OPS["numba_engine.twice"]


def test_a_workload_gives_its_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    monkeypatch.setattr(tapec, "compile", partial(tapec.compile, engine="numba"))
    assert differences("mlp_small") == []


def check_everything(part: int, parts: int, only: list[str]) -> int:
    """Print what agrees and what does not, of the workloads and the operations; the number of those that do not.

    A share ``part`` of ``parts``, or those that are named. What is compiled for one is dropped before the next.
    """
    workloads = list(WORKLOADS)[part - 1 :: parts]
    ops = list(tensor_ops())[part - 1 :: parts]
    failed = 0
    for name in [n for n in workloads if not only or n in only]:
        found = differences(name)
        failed += bool(found)
        print(name, found or "agrees", flush=True)
    for defn in [d for d in ops if not only or d.name in only]:
        start = time.perf_counter()
        verdict = "agrees"
        try:
            for has, wants in sample_program(defn).run(by_numba):
                assert_close(has, wants, ulps=16)
        except Exception as error:
            failed += 1
            verdict = f"DIFFERS: {type(error).__name__}: {error}"
        print(defn.name, verdict, f"({time.perf_counter() - start:.0f} s)", flush=True)
    return failed


if __name__ == "__main__":
    part, parts = map(int, (sys.argv[1:] or ["1/1"])[0].split("/"))
    sys.path.insert(0, str(BENCHMARKS))
    tapec.compile = partial(tapec.compile, engine="numba")  # type: ignore[assignment]
    sys.exit(check_everything(part, parts, sys.argv[2:]) > 0)
