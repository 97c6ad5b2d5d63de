"""Compiled elementwise operations and conversions against their meaning, for every dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from loop_programs import COUNT, REAL, Array, check, kernel_module, module_of, samples

from tapec.ir.core import Module
from tapec.ir.op import OPS, Elementwise
from tapec.ir.ops.compare import Cast, Where
from tapec.ir.types import BF16, BOOL, F16, F32, F64, DType
from tapec.runtime import compile_module


def ulps(a: Array, b: Array, dtype: DType) -> Array:
    """How many numbers lie between two floats; two NaN are equal, a zero has no sign."""
    width: Any = {16: np.int16, 32: np.int32, 64: np.int64}[dtype.bits]
    # Beyond the highest finite number comes infinity, so a rounding there counts as one.
    order = [
        np.where(i < 0, np.iinfo(width).min - i, i).astype(object)
        for i in (np.asarray(x).view(width) for x in (a, b))
    ]
    return np.where(np.isnan(a) & np.isnan(b), 0, abs(order[0] - order[1])).astype(float)


def elementwise_ops(dtype: DType) -> list[Elementwise]:
    """The operations with a scalar record that take a dtype."""
    return [
        op
        for op in OPS.values()
        if isinstance(op, Elementwise)
        and not isinstance(op, Cast)
        and "scalar" in dir(op)
        and dtype.kind in op.scalar.kinds
    ]


def loop_text(op: Elementwise, types: Sequence[DType], result: DType, lanes: int) -> str:
    """A kernel that applies an operation to every element."""
    suffix, attrs = (f"x{lanes}", f" {{lanes = {lanes}}}") if lanes else ("", "")
    lines = [f"    %v{i} = load %x{i}, %i{attrs} : {t.code}{suffix}\n" for i, t in enumerate(types)]
    operands = ", ".join(f"%v{i}" for i in range(len(types)))
    buffers = ", ".join(f"%x{i}: &{t.code}[{COUNT}]" for i, t in enumerate(types))
    return f"""
kernel @{op.name}({buffers}, %r: &{result.code}[{COUNT}]) {{
  %low = constant {{value = 0}} : index
  %high = constant {{value = {COUNT}}} : index
  for %low, %high {{step = {max(lanes, 1)}}} {{
    ^(%i: index):
{"".join(lines)}    %v = {op.name} {operands} : {result.code}{suffix}
    store %v, %r, %i
    yield
  }}
  return
}}
"""


def elementwise_module(dtype: DType, lanes: int) -> tuple[Module, list[Elementwise]]:
    """One module with a kernel for every operation."""
    ops = elementwise_ops(dtype)
    given = ", ".join(
        [*(f"%x{i}: &{dtype.code}[{COUNT}]" for i in range(3)), f"%c: &bool[{COUNT}]"]
    )
    launches, kernels, results = [], [], []
    for op in ops:
        types = [dtype] * op.scalar.arity
        names = [f"%x{i}" for i in range(op.scalar.arity)]
        if isinstance(op, Where):
            types[0], names = BOOL, ["%c", "%x0", "%x1"]
        result = BOOL if op.scalar.result == "bool" else dtype
        results.append(f"%{op.name}.r: &{result.code}[{COUNT}]")
        launches.append(f'  launch {", ".join(names)}, %{op.name}.r {{kernel = "{op.name}"}}\n')
        kernels.append(loop_text(op, types, result, lanes))
    head = f"func @f({given}, {', '.join(results)}) {{\n{''.join(launches)}  return\n}}\n"
    return module_of(head + "".join(kernels), inputs=4), ops


#: Where a reference of the same precision is itself further off, or the operation has a root it cancels at.
LOOSE = {"lgamma": 2000.0, "digamma": 2000.0, "pow": 16.0, "tan": 16.0, "erfc": 300.0}


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_elementwise(dtype: DType, lanes: int) -> None:
    module, ops = elementwise_module(dtype, lanes)
    arrays = [samples(dtype, i) for i in range(3)]
    if dtype.kind == "int":
        arrays[1] = np.where(np.arange(COUNT) % 5, arrays[1], 3).astype(dtype.numpy)
        # NumPy refuses negative exponents, and has no meaning for negative shifts.
        nonnegative = np.abs(arrays[1].clip(-40, 40))
    condition = np.arange(COUNT) % 3 == 0
    results = compile_module(module)(*arrays, condition)
    for op, got in zip(ops, results, strict=True):
        operands = [condition, *arrays[:2]] if isinstance(op, Where) else arrays
        if dtype.kind == "int" and op.name in ("pow", "shl", "shr"):
            operands = [arrays[0], nonnegative]
            (got,) = compile_module(single(op, dtype, lanes))(*operands)
        operands = operands[: op.scalar.arity]
        want = reference(op, operands, dtype)
        if op.name == "lgamma" and dtype == F64:  # SciPy's is infinite from some subnormals on
            tiny = np.abs(arrays[0]) < np.finfo(np.float64).tiny
            got, want = np.where(tiny, 0, got), np.where(tiny, 0, want)
        if got.dtype == bool or not dtype.is_floating:
            np.testing.assert_array_equal(got, want, err_msg=op.name)
        else:
            allowed = LOOSE.get(op.name, 6.0) if dtype in (F32, F64) else 2.0
            distance = ulps(got, want, dtype)
            worst = int(distance.argmax())
            at = [x[worst] for x in operands]
            assert distance[worst] <= allowed, (op.name, at, got[worst], want[worst])


def reference(op: Elementwise, operands: Sequence[Array], dtype: DType) -> Array:
    """What an operation means, with floats computed in a wider dtype where there is one."""
    if not dtype.is_floating or op.scalar.result == "bool":
        return np.asarray(op.evaluate(*operands))
    # SciPy's functions, and NumPy's own on most machines, know nothing wider than float64.
    wide = np.longdouble if dtype == F64 and op.name in ("fma", "mod", "floordiv") else np.float64
    with np.errstate(all="ignore"):
        exact = [x if x.dtype == bool else x.astype(wide) for x in operands]
        return np.asarray(op.evaluate(*exact)).astype(dtype.numpy)


def single(op: Elementwise, dtype: DType, lanes: int) -> Module:
    """A module with one operation of two operands."""
    names = f"%x0: &{dtype.code}[{COUNT}], %x1: &{dtype.code}[{COUNT}], %r: &{dtype.code}[{COUNT}]"
    launch = f'  launch %x0, %x1, %r {{kernel = "{op.name}"}}\n  return\n}}\n'
    text = f"func @f({names}) {{\n{launch}{loop_text(op, [dtype] * 2, dtype, lanes)}"
    return module_of(text, inputs=2)


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("source", REAL, ids=str)
def test_cast(source: DType, lanes: int) -> None:
    """Every conversion, saturation and rounding of 16-bit floats included."""
    suffix, attrs = (f"x{lanes}", f" {{lanes = {lanes}}}") if lanes else ("", "")
    results = ", ".join(f"%{t.code}.r: &{t.code}[{COUNT}]" for t in REAL)
    lines = "".join(
        f"    %v.{t.code} = cast %v {{dtype = {t.code}}} : {t.code}{suffix}\n    store %v.{t.code}, %{t.code}.r, %i\n"
        for t in REAL
    )
    body = f"""
  %low = constant {{value = 0}} : index
  %high = constant {{value = {COUNT}}} : index
  for %low, %high {{step = {max(lanes, 1)}}} {{
    ^(%i: index):
    %v = load %x, %i{attrs} : {source.code}{suffix}
{lines}    yield
  }}"""
    module = kernel_module(f"%x: &{source.code}[{COUNT}], {results}", body, inputs=1)
    for which in (0, 1):
        x = samples(source, which)
        if source == F64 and which:  # half-way cases of the 16-bit floats, disturbed far down
            x = np.tile([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 - 2.0**-50, 3e-8], 12)
        check(module, x)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_small_floats_keep_every_number(dtype: DType) -> None:
    body = """
  %low = constant {value = 0} : index
  %high = constant {value = 65536} : index
  for %low, %high {step = 16} {
    ^(%i: index):
    %v = load %x, %i {lanes = 16} : DTx16
    %w = cast %v {dtype = f32} : f32x16
    store %w, %y, %i
    %u = cast %w {dtype = DT} : DTx16
    store %u, %z, %i
    yield
  }""".replace("DT", dtype.code)
    signature = f"%x: &{dtype.code}[65536], %y: &f32[65536], %z: &{dtype.code}[65536]"
    x = np.arange(65536, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        check(kernel_module(signature, body, inputs=1), x)
