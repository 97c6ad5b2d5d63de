"""Kernels that are refused, by name and with the remedy: those that may raise, have effects, or have changed."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest
from custom_kernels import CASES, registered

import tapec
from tapec.errors import AlreadyExistsError, InvalidArgumentError, ParseError, TargetError
from tapec.ir.op import OPS
from tapec.ir.parser import parse_module
from tapec.ir.types import F32, F64
from tapec.kernels.numba_code import Compiled, scalar_types
from tapec.runtime.cpu.machine_code.adoption import adopt_scalar


@pytest.fixture(scope="module")
def ops() -> Iterator[dict[str, Any]]:
    with registered() as found:
        yield found


SCALE = 2.0
TABLE = np.arange(4.0)


def twice_scaled(x: Any) -> Any:
    return 2.0 * SCALE * x


def test_changed_constants_of_a_derivative_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the vjp, or in a function that it calls; before a gradient was asked for there is nothing to be noticed."""
    op = tapec.custom_op("test.constant_vjp", vjp=lambda x, y, dy: twice_scaled(dy))(same)

    def slope(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = op(x)
        return tape.gradient(y, x)

    x, compiled = tapec.constant(1.0), tapec.compile(slope)
    try:
        op(x)
        assert float(slope(x)) == float(compiled(x)) == 4.0
        with monkeypatch.context() as changed:
            changed.setattr(sys.modules[__name__], "SCALE", 3.0)
            for run in (op, slope, compiled):
                with pytest.raises(
                    RuntimeError, match=r"the vjp of .* with SCALE = 2\.0, which is 3"
                ):
                    run(x)
        assert float(slope(x)) == float(compiled(x)) == 4.0
    finally:
        del OPS["test.constant_vjp"]


@pytest.mark.parametrize("what", ["global", "array", "closure", "of a callee"])
def test_changed_constants_are_noticed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba makes constants of what a kernel takes from outside; after a change it runs no more, compiled or not."""
    factor = 2.0
    njit: Any = numba.njit

    def scaled(x: Any) -> Any:
        return x * SCALE

    called = njit(scaled)
    kernels: dict[str, Any] = {
        "global": scaled,
        "array": lambda x: x * TABLE[2],
        "closure": lambda x: x * factor,
        "of a callee": lambda x: called(x),
    }
    name = f"test.constant_{what.replace(' ', '_')}"
    op = tapec.custom_op(name)(kernels[what])

    @tapec.compile
    def f(x: Any) -> Any:
        return op(x)

    try:
        assert float(op(1.0)) == float(f(1.0)) == 2.0
        if what == "closure":
            factor = 3.0
        elif what == "array":
            monkeypatch.setattr(sys.modules[__name__], "TABLE", np.arange(4.0) + 1)
        else:
            monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
        for run in (op, f):
            with pytest.raises(
                RuntimeError, match=f"{name} was compiled with .*constants of its code"
            ):
                run(1.0)
        monkeypatch.undo()
        factor = 2.0
        if what == "array":
            TABLE[2] = 5.0
            with pytest.raises(RuntimeError, match="TABLE, whose contents"):
                op(1.0)
            TABLE[2] = 2.0
        assert float(op(1.0)) == float(f(1.0)) == 2.0
    finally:
        del OPS[name]


def refused(function: Any, *given: Any, infer: Any = None) -> str:
    """The message of a kernel that cannot be one."""
    name = f"test.refused_{function.__name__.strip('<>')}"
    try:
        with pytest.raises((TypeError, InvalidArgumentError)) as caught:
            tapec.custom_op(name, infer=infer)(function)(*given)
    finally:
        OPS.pop(name, None)
    return str(caught.value)


def test_kernels_that_may_raise_are_refused() -> None:
    njit: Any = numba.njit

    def divided(x: Any, y: Any) -> Any:
        return x / y

    def checked(x: Any) -> Any:
        if x < 0:
            raise ArithmeticError("negative")
        return x

    said = refused(njit(divided), 1.0, 2.0)
    assert "test.refused_divided may raise" in said
    assert "ZeroDivisionError" in said
    assert 'error_model="numpy"' in said
    assert re.search(r"ArithmeticError at .*test_refused_kernels\.py:\d+", refused(checked, 1.0))


def test_signatures_of_njit_are_respected() -> None:
    njit: Any = numba.njit
    op = tapec.custom_op("test.signed")(njit("float64(float64)", error_model="numpy")(same))
    try:
        x = tapec.constant([1.0, 2.0], tapec.float64)
        for run in (op, tapec.compile(op)):
            assert run(x).numpy().tolist() == [1.0, 2.0]
        with pytest.raises(InvalidArgumentError, match=r"for \(float64\), not for \(float32\)"):
            op(tapec.constant([1.0]))
    finally:
        del OPS["test.signed"]


def test_kernels_with_effects_are_refused() -> None:
    def chance(x: Any) -> Any:
        return x + random.random()

    def overwritten(x: Any, out: Any) -> None:
        x[0] = 1.0

    table = np.arange(300_000.0)

    def looked_up(x: Any) -> Any:
        return table[int(x)]

    assert "random numbers that no key determines" in refused(chance, 1.0)
    assert "readonly" in refused(overwritten, tapec.ones([2]), infer="T[n] -> T[n]")
    assert "address of this process" in refused(looked_up, 1.0)


def test_kernels_that_numba_does_not_take_are_refused(ops: dict[str, Any]) -> None:
    assert "returns UniTuple" in refused(lambda x: (x, x), 1.0)
    assert "cannot be compiled" in refused(lambda x: x.upper(), 1.0)
    for dtype in ("float16", "bfloat16", "complex64"):
        assert f"does not take {dtype}" in refused(same, tapec.ones([2], dtype))
    with pytest.raises(TypeError, match=r"test\.norm takes 2 operands, got 1"):
        ops["norm"](1.0)
    with pytest.raises(InvalidArgumentError, match=r"operand 0 must be T\[n\], got f32\[2,2\]"):
        ops["running"](tapec.ones([2, 2]))
    with pytest.raises(InvalidArgumentError, match=r"\[n,m-2\].*would be \[2, -1\]"):
        ops["blur"](tapec.ones([2, 1]), 1.0)


def same(x: Any) -> Any:
    return x


def test_another_calling_convention_is_refused(ops: dict[str, Any]) -> None:
    """As it would be if a version of Numba passed other arguments: LLVM does not compare them."""
    compiled = Compiled("test", CASES["norm"].function, scalar_types("test", [F32, F32]))
    assert adopt_scalar(compiled.text, compiled.native, [F32, F32], F32, F32).content
    for operands in ([F32], [F32, F64]):
        with pytest.raises(TargetError, match="calls functions in an unknown way"):
            adopt_scalar(compiled.text, compiled.native, operands, F32, F32)


def test_names(ops: dict[str, Any]) -> None:
    with pytest.raises(AlreadyExistsError, match=r"test\.norm was registered already at .*:\d+"):
        tapec.custom_op("test.norm")(same)
    with pytest.raises(ValueError, match="no name for an operation"):
        tapec.custom_op("norm")(same)
    text = "func @f(%x: f32) -> f32 {\n  %0 = far.away %x : f32\n  return %0\n}"
    with pytest.raises(ParseError, match="is a custom op, and none of this name is registered"):
        parse_module(text)
    text = text.replace("far.away %x", 'test.softplus %x {content = "0"}')
    with pytest.raises(ParseError, match="made with another kernel"):
        parse_module(text)


@pytest.mark.parametrize(
    "rule",
    ["T[n]", "T[n] -> T[m]", "T[n] -> U[n]", "T[2*n] -> T[n]", "T[n] -> T[n+]", "-> T", 3],
    ids=str,
)
def test_rules_that_say_nothing_are_refused(rule: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="infer"):
        tapec.custom_op("test.rule", infer=rule)(lambda x, out: None)


def test_a_rule_may_be_a_function() -> None:
    def twice(x: Any, out: Any) -> None:
        for i in range(out.shape[0]):
            out[i] = x[i // 2]

    def rule(x: tapec.TensorSpec) -> tapec.TensorSpec:
        return tapec.TensorSpec([2 * x.shape[0]], x.dtype)

    op = tapec.custom_op("test.twice", infer=rule)(twice)
    try:
        for f in (op, tapec.compile(op)):
            assert f([1.0, 2.0]).numpy().tolist() == [1.0, 1.0, 2.0, 2.0]
    finally:
        del OPS["test.twice"]


def test_wrong_derivatives_are_refused() -> None:
    names = iter(f"test.wrong{i}" for i in range(5))

    def gradient(vjp: Any) -> Any:
        name = next(names)
        op = tapec.custom_op(name, vjp=vjp)(same)
        x = tapec.Variable([1.0, 2.0])
        try:
            with tapec.GradientTape() as tape:
                y = op(x)
            return tape.gradient(y, x)
        finally:
            del OPS[name]

    scale = tapec.Variable(2.0)
    with pytest.raises(
        TypeError, match="called with 3 arguments: 1 operands, 1 results, 1 cotangents"
    ):
        gradient(lambda dy: dy)
    with pytest.raises(ValueError, match="returned 2 cotangents for 1 operands"):
        gradient(lambda x, y, dy: (dy, dy))
    with pytest.raises(ValueError, match=r"returned f64\[2\] for operand 0, which is f32\[2\]"):
        gradient(lambda x, y, dy: tapec.cast(dy, tapec.float64))
    with pytest.raises(RuntimeError, match="uses a Variable"):
        gradient(lambda x, y, dy: dy * scale)
    kept = np.array([3.0, 4.0], np.float32)
    assert gradient(lambda x, y, dy: dy * kept).numpy().tolist() == [3.0, 4.0]
