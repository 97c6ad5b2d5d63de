"""Programs of one operation for every dtype, at its samples and at the edges of dtypes, for any engine to run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sampling import arrays, retyped, tensor_ops

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module
from tapec.ir.errors import DTypeError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import Elementwise, Op
from tapec.ir.types import (
    BF16,
    DTYPES,
    F16,
    F32,
    F64,
    DType,
    TensorType,
    as_dtype,
)

#: Distance of 1 from the next number.
EPSILON = {F16: 2.0**-10, BF16: 2.0**-7, F32: 2.0**-23, F64: 2.0**-52}
REAL = [dtype for dtype in DTYPES if not dtype.is_complex]
#: What matters to some dtype: subnormal, halfway, just inside and just outside of integers.
FLOATS = [0.0, 0.5, 1.0, 1.5, 2.5, 127.9, 128.0, 255.9, 256.0, 2.0**31 - 1, 2.0**31, 2.0**63]
FLOATS += [1e-40, 1e10, 2.0**64, 3e38, np.inf, np.nan]


class Program:
    """A function that collects operations on arguments of its own."""

    def __init__(self) -> None:
        """Start empty."""
        self.function = Function("f")
        self.builder = Builder(self.function.block)
        self.arrays: list[Any] = []
        self.results: list[Any] = []

    def add(self, defn: Op, operands: list[Any], attrs: Any) -> None:
        """One operation on these arrays."""
        types = [TensorType(as_dtype(a.dtype), a.shape) for a in operands]
        args = [self.function.block.add_arg(t) for t in types]
        made = self.builder.emit(defn, *args, **attrs)
        self.arrays += operands
        self.results += made if isinstance(made, tuple) else (made,)

    def run(self, compiled: Callable[[Module], Callable[..., Any]]) -> Iterator[tuple[Any, Any]]:
        """Yield each result as ``compiled`` makes it of the module, which it may change, and evaluated."""
        self.builder.emit("return", *self.results)
        module = Module([self.function])
        expected = evaluate_module(module, self.arrays)
        return zip(compiled(module)(*self.arrays), expected, strict=True)


def assert_close(found: Any, expected: Any, ulps: int) -> None:
    """Equal integers; floats within so many units of the last place; of complex numbers, their distance."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    dtype = as_dtype(expected.dtype)
    if dtype.is_complex:
        bound = ulps * EPSILON[dtype.real_dtype] * (np.abs(expected) + 0.1)
        assert (np.abs(found - expected) <= bound).all()
        return
    if not dtype.is_floating:
        np.testing.assert_array_equal(found, expected)
        return
    rtol = ulps * EPSILON[dtype]
    wide = (found.astype(np.float64), expected.astype(np.float64))
    np.testing.assert_allclose(*wide, rtol=rtol, atol=rtol * 0.1)


def edge_program(defn: Elementwise, every: int = 1) -> Program:
    """The operation on combinations of edges, for each dtype that it takes; ``every`` so many-th of them."""
    program = Program()
    choices: list[dict[str, Any]] = [{}]
    if "dtype" in next(iter(defn.samples())).attrs:
        choices = [{"dtype": dtype} for dtype in REAL]
    if "order" in next(iter(defn.samples())).attrs:
        choices = [{"order": 1}, {"order": 2}]
    for dtype, attrs in itertools.product(REAL, choices):
        operands = [a[::every] for a in edge_operands(defn, dtype)]
        types = [TensorType(as_dtype(a.dtype), a.shape) for a in operands]
        try:
            result = defn.infer(*types, **attrs)
        except DTypeError:
            continue
        if not result.dtype.is_complex:
            program.add(defn, operands, attrs)
    return program


def sample_program(defn: Op) -> Program:
    """The operation on its samples, for each dtype."""
    program = Program()
    for sample in defn.samples():
        for dtype in DTYPES:
            variant = retyped(defn, sample, dtype)
            if variant is not None:
                program.add(defn, arrays(variant), variant.attrs)
    return program


def edges(dtype: DType) -> Any:
    """Values at which something changes."""
    if dtype.is_bool:
        return np.array([False, True])
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.is_floating:
            return np.array([*FLOATS, *(-x for x in FLOATS)]).astype(dtype.numpy)
    low, high = int(dtype.min), int(dtype.max)
    small = [n for n in (-7, -2, -1, 0, 1, 2, 3, 7, 100) if n >= low]
    return np.array([low, *small, high - 1, high], dtype.numpy)


def edge_operands(defn: Elementwise, dtype: DType) -> list[Any]:
    """Arrays of all combinations of edges."""
    values = edges(dtype)
    operands = [values[list(i)] for i in zip(*combinations(defn.arity, len(values)), strict=True)]
    if defn.name == "where":
        operands[0] = np.arange(operands[0].size) % 2 == 0
    return operands


def combinations(arity: int, count: int) -> Any:
    """All pairs; of three, each value beside two that follow it."""
    if arity < 3:
        return itertools.product(range(count), repeat=arity)
    return [(i, (i + j) % count, (i + 3 * j + 1) % count) for i in range(count) for j in range(5)]


# What is fused rounds once where the evaluator rounds twice.
ELEMENTWISE = [d for d in tensor_ops() if isinstance(d, Elementwise) and d.name != "fma"]
