"""Compiled loop-level modules against the evaluator, and everything around a call."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tapec.ir.core import Module
from tapec.ir.errors import DTypeError, ShapeError, TargetError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import OPS, Elementwise
from tapec.ir.ops.compare import Cast, Where
from tapec.ir.parser import parse_module
from tapec.ir.types import BF16, BOOL, BY_CODE, DTYPES, F16, F32, F64, DType
from tapec.runtime import compile_module
from tapec.runtime.cpu import threads as pool
from tapec.runtime.cpu.host import Mapped
from tapec.runtime.cpu.image import Image, link
from tapec.runtime.cpu.jit import host_compiler
from tapec.runtime.cpu.program import write_text

Array = Any
REAL = [d for d in DTYPES if not d.is_complex]
COUNT = 48


def module_of(text: str, **attrs: Any) -> Module:
    """Parse loop-level text; ``inputs`` and ``arena`` belong to the entry."""
    module = parse_module(text)
    module.entry.attrs.update(attrs)
    return module


def kernel_module(signature: str, body: str, inputs: int, **attrs: Any) -> Module:
    """A module whose entry launches one kernel of the same arguments."""
    names = ", ".join(part.split(":")[0] for part in signature.split(", "))
    text = f"""
func @f({signature}) {{
  launch {names} {{kernel = "k"}}
  return
}}
kernel @k({signature}) {{
{body}
  return
}}
"""
    return module_of(text, inputs=inputs, **attrs)


def check(module: Module, *arrays: Array, threads: int = 1) -> list[Array]:
    """Hold the compiled program to the evaluator, and return its results."""
    executable = compile_module(module, threads=threads)
    want = evaluate_module(module, arrays)
    given = [np.array(a, order="C") for a in arrays]
    fresh = iter(executable(*given))
    updates = module.entry.updates
    got = [given[updates[i]] if i in updates else next(fresh) for i in range(len(want))]
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(exact(a), exact(b))
    return got


def exact(array: Array) -> Array:
    """16-bit floats as what NumPy knows the NaN of."""
    return array.astype(np.float32) if array.dtype == BF16.numpy else array


def ulps(a: Array, b: Array, dtype: DType) -> Array:
    """How many numbers lie between two floats; two NaN are equal, a zero has no sign."""
    width = {16: np.int16, 32: np.int32, 64: np.int64}[dtype.bits]
    # Beyond the highest finite number comes infinity, so a rounding there counts as one.
    order = [
        np.where(i < 0, np.iinfo(width).min - i, i).astype(object)
        for i in (np.asarray(x).view(width) for x in (a, b))
    ]
    return np.where(np.isnan(a) & np.isnan(b), 0, abs(order[0] - order[1])).astype(float)


# ---- elementwise operations: each, for each dtype, on scalars and on vectors


def samples(dtype: DType, which: int) -> Array:
    """Numbers of a dtype, awkward ones first; another order for each operand."""
    rng = np.random.default_rng(7)
    if dtype.is_bool:
        values = np.arange(COUNT) % 2 == 0
    elif dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        edges = [0, 1, 2, 3, 5, 7, info.max, info.max - 1, info.min, info.min + 1]
        small = rng.integers(max(info.min, -40), 40, COUNT - len(edges))
        values = np.concatenate([np.array(edges, dtype.numpy), small.astype(dtype.numpy)])
    else:
        info = ml_dtypes.finfo(dtype.numpy)
        edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, 3, -2.5, 1e-3, 0.1]
        edges += [float(info.max), float(info.tiny), float(info.smallest_subnormal)]
        values = np.concatenate([edges, rng.normal(0, 4, COUNT - len(edges))]).astype(dtype.numpy)
    return np.ascontiguousarray(rng.permutation(values) if which else values)


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
    lines = [
        f"    %v{i} = load %x{i}, %i{attrs} : {t}{suffix}\n" for i, t in enumerate(types)
    ]
    operands = ", ".join(f"%v{i}" for i in range(len(types)))
    buffers = ", ".join(f"%x{i}: &{t}[{COUNT}]" for i, t in enumerate(types))
    return f"""
kernel @{op.name}({buffers}, %r: &{result}[{COUNT}]) {{
  %low = constant {{value = 0}} : index
  %high = constant {{value = {COUNT}}} : index
  for %low, %high {{step = {max(lanes, 1)}}} {{
    ^(%i: index):
{"".join(lines)}    %v = {op.name} {operands} : {result}{suffix}
    store %v, %r, %i
    yield
  }}
  return
}}
"""


def elementwise_module(dtype: DType, lanes: int) -> tuple[Module, list[Elementwise]]:
    """One module with a kernel for every operation."""
    ops = elementwise_ops(dtype)
    given = ", ".join([*(f"%x{i}: &{dtype}[{COUNT}]" for i in range(3)), f"%c: &bool[{COUNT}]"])
    launches, kernels, results = [], [], []
    for op in ops:
        types = [dtype] * op.scalar.arity
        names = [f"%x{i}" for i in range(op.scalar.arity)]
        if isinstance(op, Where):
            types[0], names = BOOL, ["%c", "%x0", "%x1"]
        result = BOOL if op.scalar.result == "bool" else dtype
        results.append(f"%{op.name}.r: &{result}[{COUNT}]")
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
    names = f"%x0: &{dtype}[{COUNT}], %x1: &{dtype}[{COUNT}], %r: &{dtype}[{COUNT}]"
    launch = f'  launch %x0, %x1, %r {{kernel = "{op.name}"}}\n  return\n}}\n'
    text = f"func @f({names}) {{\n{launch}{loop_text(op, [dtype] * 2, dtype, lanes)}"
    return module_of(text, inputs=2)


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("source", REAL, ids=str)
def test_cast(source: DType, lanes: int) -> None:
    """Every conversion, saturation and rounding of 16-bit floats included."""
    suffix, attrs = (f"x{lanes}", f" {{lanes = {lanes}}}") if lanes else ("", "")
    results = ", ".join(f"%{t}.r: &{t}[{COUNT}]" for t in REAL)
    lines = "".join(
        f"    %v.{t} = cast %v {{dtype = {t}}} : {t}{suffix}\n    store %v.{t}, %{t}.r, %i\n"
        for t in REAL
    )
    body = f"""
  %low = constant {{value = 0}} : index
  %high = constant {{value = {COUNT}}} : index
  for %low, %high {{step = {max(lanes, 1)}}} {{
    ^(%i: index):
    %v = load %x, %i{attrs} : {source}{suffix}
{lines}    yield
  }}"""
    module = kernel_module(f"%x: &{source}[{COUNT}], {results}", body, inputs=1)
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
  }""".replace("DT", str(dtype))
    signature = f"%x: &{dtype}[65536], %y: &f32[65536], %z: &{dtype}[65536]"
    x = np.arange(65536, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        check(kernel_module(signature, body, inputs=1), x)


# ---- loops, memory, vectors


def test_carried_values_and_unrolling() -> None:
    """Every length meets every unrolling: groups of turns and the rest."""
    body = """
  %low = constant {value = LOW} : index
  %high = constant {value = HIGH} : index
  %zero = constant {value = 0.0} : f64
  %one = constant {value = 1} : i32
  %sum, %count = for %low, %high, %zero, %one {step = 2, unroll = UNROLL} : f64, i32 {
    ^(%i: index, %s: f64, %c: i32):
    %v = load %x, %i : f64
    %t = mul %s, %v : f64
    %u = add %t, %v : f64
    %m = add %c, %c : i32
    yield %u, %m
  }
  store %sum, %r
  store %count, %n"""
    x = np.linspace(0.5, 1.5, 20)
    for low, high, unroll in itertools.product((0, 3), (3, 4, 5, 11, 20), (1, 2, 3, 8)):
        text = body.replace("LOW", str(low)).replace("HIGH", str(high))
        signature = "%x: &f64[20], %r: &f64, %n: &i32"
        module = kernel_module(signature, text.replace("UNROLL", str(unroll)), inputs=1)
        check_close(module, x)


def check_close(module: Module, *arrays: Array, threads: int = 1) -> None:
    """`check`, where products and sums may have been fused."""
    want = evaluate_module(module, arrays)
    got = compile_module(module, threads=threads)(*arrays)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13 if a.dtype == np.float64 else 1e-5)


def test_bounds_known_only_at_run_time() -> None:
    body = """
  %zero = constant {value = 0} : index
  %f = constant {value = 0.0} : f32
  %n = load %bounds, %zero : i64
  %high = cast %n {dtype = index} : index
  %sum = for %zero, %high, %f {unroll = 4} : f32 {
    ^(%i: index, %s: f32):
    %v = load %x, %i : f32
    %t = add %s, %v : f32
    yield %t
  }
  store %sum, %r"""
    module = kernel_module("%x: &f32[9], %bounds: &i64[1], %r: &f32", body, inputs=2)
    for n in (-3, 0, 1, 4, 7, 9):
        check(module, np.arange(9, dtype=np.float32), np.array([n]))


def test_branches_yield_and_store() -> None:
    body = """
  %zero = constant {value = 0} : index
  %high = constant {value = 12} : index
  %four = constant {value = 4} : index
  %half = constant {value = 0.5} : f32
  for %zero, %high {
    ^(%i: index):
    %v = load %x, %i : f32
    %small = lt %v, %half : bool
    %w = if %small : f32 {
      %m = mod %i, %four : index
      %y = load %x, %m : f32
      yield %y
    } {
      %y2 = neg %v : f32
      yield %y2
    }
    %outer = lt %i, %four : bool
    if %outer {
      store %w, %r, %i
      yield
    } {
      %z = add %w, %w : f32
      store %z, %r, %i
      yield
    }
    yield
  }"""
    module = kernel_module("%x: &f32[12], %r: &f32[12]", body, inputs=1)
    check(module, np.linspace(0, 1, 12, dtype=np.float32))


def test_address_arithmetic() -> None:
    """Sums, products, quotients and remainders of loop variables find the right elements."""
    body = """
  %zero = constant {value = 0} : index
  %one = constant {value = 1} : index
  %two = constant {value = 2} : index
  %three = constant {value = 3} : index
  %five = constant {value = 5} : index
  for %zero, %five {
    ^(%i: index):
    for %zero, %three {
      ^(%j: index):
      %back = sub %two, %j : index
      %a = mul %i, %three : index
      %b = add %a, %back : index
      %q = floordiv %b, %five : index
      %m = mod %b, %five : index
      %v = load %x, %q, %m : i32
      %p = mul %i, %j : index
      %w = cast %p {dtype = i32} : i32
      %s = add %v, %w : i32
      %k = sub %j, %one : index
      %nq = floordiv %k, %two : index
      %nm = mod %k, %two : index
      %nqi = cast %nq {dtype = i32} : i32
      %nmi = cast %nm {dtype = i32} : i32
      %t = add %s, %nqi : i32
      %u = sub %t, %nmi : i32
      store %u, %r, %i, %j
      yield
    }
    yield
  }"""
    module = kernel_module("%x: &i32[3,5], %r: &i32[5,3]", body, inputs=1)
    check(module, np.arange(15, dtype=np.int32).reshape(3, 5) * 100)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_masked_and_gathered(dtype: DType) -> None:
    """Loads and stores of part of a vector, and of lanes from anywhere."""
    body = """
  %zero = constant {value = 0} : index
  %one = constant {value = 1} : index
  %all = constant {value = 11} : index
  %eight = constant {value = 8} : index
  %v = load %x, %zero, %all {lanes = 16, masked = true} : DTx16
  store %v, %r, %zero, %all {masked = true}
  for %zero, %all {
    ^(%i: index):
    %left = sub %all, %i : index
    %w = load %x, %i, %left {lanes = 8, masked = true} : DTx8
    store %w, %q, %i, %zero
    yield
  }
  for %zero, %all {
    ^(%i: index):
    %left = sub %all, %i : index
    %n = cast %left {dtype = i64} : i64
    %few = sub %left, %eight : index
    %w = load %x, %zero, %eight {lanes = 8, masked = true} : DTx8
    store %w, %p, %i, %zero, %few {masked = true}
    yield
  }
  %steps = lanes : indexx8
  %eights = splat %one {lanes = 8} : indexx8
  %at = add %steps, %eights : indexx8
  %g = load_at %x, %at : DTx8
  store %g, %g8, %zero""".replace("DT", str(dtype))
    signature = (
        f"%x: &{dtype}[11], %p: &{dtype}[11,8], %r: &{dtype}[16], "
        f"%q: &{dtype}[11,8], %g8: &{dtype}[8]"
    )
    text_module = kernel_module(signature, body, inputs=2)
    text_module.entry.updates[0] = 1  # what masks left out keeps its value
    x = samples(dtype, 1)[:11]
    p = np.zeros((11, 8), dtype.numpy)
    module_results = evaluate_module(text_module, [x, p])
    given = p.copy()
    got = [given, *compile_module(text_module)(x, given)]
    for i, (a, b) in enumerate(zip(got, module_results, strict=True)):
        stop = 11 if i == 1 else None  # the rest of r nobody wrote
        np.testing.assert_array_equal(exact(a)[:stop], exact(b)[:stop])


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min", "and", "or"])
def test_reduce_lanes(combine: str) -> None:
    dtypes = [BOOL] if combine in ("and", "or") else [F32, F64, F16, BF16, BY_CODE["i32"]]
    for dtype in [*dtypes, BY_CODE["u8"]]:
        body = f"""
  %zero = constant {{value = 0}} : index
  %v = load %x, %zero {{lanes = 16}} : {dtype}x16
  %s = reduce_lanes %v {{combine = "{combine}"}} : {dtype}
  store %s, %r"""
        x = samples(dtype, 0)[16:32]
        check(kernel_module(f"%x: &{dtype}[16], %r: &{dtype}", body, inputs=1), x)


def test_shuffle_and_vector_constants() -> None:
    body = """
  %zero = constant {value = 0} : index
  %k = constant {value = [1.0, 2.0, 3.0, 4.0]} : f32x4
  %two = constant {value = 2.0} : f32x4
  %v = load %x, %zero {lanes = 4} : f32x4
  %a = mul %v, %two : f32x4
  %b = add %a, %k : f32x4
  %s = shuffle %v, %b {mask = [0, 4, 1, 5, 7, 7, 3, 2]} : f32x8
  store %s, %r, %zero"""
    module = kernel_module("%x: &f32[4], %r: &f32[8]", body, inputs=1)
    check(module, np.array([1, 2, 3, 4], np.float32))


def test_scratch_and_views() -> None:
    body = """
  %zero = constant {value = 0} : index
  %one = constant {value = 1} : index
  %two = constant {value = 2} : index
  %s = alloc : &f64[2,3]
  %flat = view %s : &f64[6]
  %low = view %s {offset = 24} : &f64[3]
  for %zero, %two {
    ^(%i: index):
    %v = load %x, %i : f64
    store %v, %s, %one, %i
    yield
  }
  for %zero, %two {
    ^(%i: index):
    %v = load %low, %i : f64
    store %v, %r, %i
    yield
  }"""
    check(kernel_module("%x: &f64[2], %r: &f64[2]", body, inputs=1), np.array([3.0, 4.0]))


ARENA = """
func @f(%x: &f32[N,4], %w: &f32[4], %r: &f32[N,4], %arena: &u8[16*N]) {
  %t = view %arena : &f32[N,4]
  launch %x, %t {kernel = "double"}
  launch %t, %w, %r {kernel = "add"}
  return
}
kernel @double(%a: &f32[M,4], %b: &f32[M,4]) {
  %zero = constant {value = 0} : index
  %high = constant {value = M} : index
  for %zero, %high {
    ^(%i: index):
    %v = load %a, %i, %zero {lanes = 4} : f32x4
    %w = add %v, %v : f32x4
    store %w, %b, %i, %zero
    yield
  }
  return
}
kernel @add(%a: &f32[M,4], %w: &f32[4], %r: &f32[M,4]) {
  %zero = constant {value = 0} : index
  %high = constant {value = M} : index
  %y = load %w, %zero {lanes = 4} : f32x4
  %n = cast %high {dtype = f32} : f32
  %m = splat %n {lanes = 4} : f32x4
  %last = sub %high, %high : index
  %k = add %y, %m : f32x4
  store %k, %w, %last
  for %zero, %high {
    ^(%i: index):
    %v = load %a, %i, %zero {lanes = 4} : f32x4
    %s = add %v, %y : f32x4
    store %s, %r, %i, %zero
    yield
  }
  return
}
"""


def arena_module() -> Module:
    """Symbolic extents, an arena that grows with them, and an argument that is updated."""
    module = module_of(ARENA, inputs=2, arena=1)
    module.entry.updates[1] = 1
    return module


def test_symbolic_extents_and_updates() -> None:
    module = arena_module()
    executable = compile_module(module)
    assert str(executable.inputs[0]) == "f32[N,4]"
    assert [str(t) for t in executable.outputs] == ["f32[N,4]"]
    assert executable.updates == {1: 1}
    assert executable.kernels == 2
    w = np.ones(4, np.float32)
    for n in (2, 5, 0, 1, 1000, 3):  # the arena grows, and serves again
        x = np.arange(4.0 * n, dtype=np.float32).reshape(n, 4)
        want = evaluate_module(module, [x, w])
        (got,) = executable(x, w)
        np.testing.assert_array_equal(got, want[0])
        np.testing.assert_array_equal(w, want[1])


# ---- parallel loops

PARALLEL = """
  %low = constant {value = LOW} : index
  %high = constant {value = HIGH} : index
  %zero = constant {value = 0} : index
  %k = load %x, %low : f32
  %kk = splat %k {lanes = 4} : f32x4
  for %low, %high {step = 4, parallel = true} {
    ^(%i: index):
    %s = alloc : &f32[4]
    %v = load %x, %i {lanes = 4} : f32x4
    %w = add %v, %kk : f32x4
    store %w, %s, %zero
    %u = load %s, %zero {lanes = 4} : f32x4
    %t = exp %u : f32x4
    store %t, %r, %i
    yield
  }"""


def parallel_module(low: int, high: int) -> Module:
    body = PARALLEL.replace("LOW", str(low)).replace("HIGH", str(high))
    module = kernel_module("%x: &f32[64], %r: &f32[64]", body, inputs=2)
    module.entry.updates[0] = 1
    return module


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_parallel_loops_give_the_same_bits(threads: int) -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    for low, high in ((0, 64), (8, 60), (0, 4), (4, 4), (0, 20)):
        module = parallel_module(low, high)
        alone, together = np.zeros_like(x), np.zeros_like(x)
        compile_module(module)(x, alone)
        executable = compile_module(module, threads=threads)
        for _ in range(50):
            together[...] = 0
            executable(x, together)
            np.testing.assert_array_equal(alone, together)
    assert pool.require().workers >= threads - 1


def test_pool_serves_callers_at_once_and_one_by_one() -> None:
    """Whoever finds the pool busy does the work alone."""
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    want = np.zeros_like(x)
    compile_module(parallel_module(0, 64))(x, want)
    executable = compile_module(parallel_module(0, 64), threads=3)
    wrong = []

    def call() -> None:
        for _ in range(300):
            got = np.zeros_like(x)
            executable(x, got)
            if (got != want).any():
                wrong.append(got)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_pool_ends_and_begins_again() -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    executable = compile_module(parallel_module(0, 64), threads=3)
    executable(x, np.zeros_like(x))
    assert pool.require().workers >= 2
    pool.require().shutdown()
    assert pool.require().workers == 0
    executable(x, np.zeros_like(x))
    assert pool.require().workers == 2


def test_pool_survives_fork() -> None:
    """The child has none of its parent's workers, and makes its own."""
    code = """
import os, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from test_runtime import compile_module, parallel_module, pool
x = np.linspace(-1, 1, 64, dtype=np.float32)
executable = compile_module(parallel_module(0, 64), threads=3)
want = np.zeros_like(x)
executable(x, want)
child = os.fork()
got = np.zeros_like(x)
before = pool.require().workers
executable(x, got)
good = (got == want).all() and pool.require().workers == 2
if child == 0:
    os._exit(0 if good and before == 0 else 1)
_, status = os.waitpid(child, 0)
sys.exit(0 if good and status == 0 else 1)
"""
    run_python(code, str(Path(__file__).parent))


def run_python(code: str, *arguments: str) -> str:
    """Run a program of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_parallel_loop_carries_nothing() -> None:
    body = """
  %low = constant {value = 0} : index
  %high = constant {value = 4} : index
  %f = constant {value = 0.0} : f32
  %s = for %low, %high, %f {parallel = true} : f32 {
    ^(%i: index, %a: f32):
    yield %a
  }
  store %s, %r"""
    with pytest.raises(TargetError, match="carries no values"):
        compile_module(kernel_module("%r: &f32", body, inputs=0), threads=2)


# ---- calls

SCALE = """
  %zero = constant {value = 0} : index
  %a = load %x, %zero {lanes = 4} : f32x4
  %b = load %w, %zero {lanes = 4} : f32x4
  %p = mul %a, %b : f32x4
  store %p, %w, %zero
  store %a, %r, %zero"""


def scale_module() -> Module:
    """``w *= x``, and a copy of x."""
    module = kernel_module("%x: &f32[4], %w: &f32[4], %r: &f32[4]", SCALE, inputs=2)
    module.entry.updates[0] = 1
    return module


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def test_arguments_are_held_to_their_types() -> None:
    executable = compile_module(scale_module())
    for arrays, error, message in [
        ((ones(4),), ShapeError, "takes 2 arrays, got 1"),
        ((ones(4), ones(4), ones(4), ones(4)), ShapeError, "takes 2 arrays, got 4"),
        ((ones(5), ones(4)), ShapeError, r"x is f32\[4\], got shape \[5\]"),
        ((ones(1, 4), ones(4)), ShapeError, r"got shape \[1, 4\]"),
        ((np.ones(4), ones(4)), DTypeError, "got an array of float64"),
        ((ones(4), [1, 1, 1, 1]), DTypeError, "w is f32"),
        ((ones(4), None), DTypeError, "w is f32"),
    ]:
        with pytest.raises(error, match=message):
            executable(*arrays)
    frozen = ones(4)
    frozen.flags.writeable = False
    with pytest.raises(DTypeError, match="must be writable"):
        executable(ones(4), frozen)
    executable(frozen, ones(4))  # which is only read
    with pytest.raises(TypeError, match="not of the type"):
        executable.call_raw(1, 2)


def test_inconvenient_arguments_are_copied() -> None:
    executable = compile_module(scale_module())
    strided = np.arange(8, dtype=np.float32)[::2]
    w = np.full(8, 2, np.float32)
    (copy,) = executable(strided, w[::2])  # an update goes back into the strided original
    np.testing.assert_array_equal(copy, [0, 2, 4, 6])
    np.testing.assert_array_equal(w, [0, 2, 4, 2, 8, 2, 12, 2])
    unaligned = np.zeros(17, np.uint8)[1:].view(np.float32)
    unaligned[...] = 3
    w = ones(4)
    executable(unaligned, w)
    np.testing.assert_array_equal(w, 3)

    class Own(np.ndarray):
        pass

    executable(ones(4).view(Own), w)
    aliased = np.full(4, 3, np.float32)
    (copy,) = executable(aliased, aliased)  # read and updated: read first
    np.testing.assert_array_equal(aliased, 9)
    np.testing.assert_array_equal(copy, 3)


def test_results_are_new_or_given() -> None:
    executable = compile_module(scale_module())
    x, w, r = ones(4), ones(4), ones(4)
    first, second = executable(x, w)[0], executable(x, w)[0]
    assert not np.may_share_memory(first, second)
    assert type(first) is np.ndarray
    assert first.flags.owndata
    x[...] = 5
    assert executable.call_raw(x, w, r) is None
    np.testing.assert_array_equal(r, 5)
    assert executable.call_raw(x, w)[0].dtype == np.float32


def test_calls_leak_nothing() -> None:
    executable = compile_module(scale_module())
    x, w, r = ones(4), ones(4), ones(4)
    counts = [sys.getrefcount(v) for v in (x, w, r, x.dtype)]
    for _ in range(1000):
        executable(x, w)
        executable.call_raw(x, w, r)
        with pytest.raises(TypeError):
            executable.call_raw(x, w, 1)
    assert [sys.getrefcount(v) for v in (x, w, r, x.dtype)] == counts


def test_scalars_and_empty_arrays() -> None:
    body = """
  %v = load %x : f32
  %w = add %v, %v : f32
  store %w, %r"""
    executable = compile_module(kernel_module("%x: &f32, %e: &f32[0,3], %r: &f32", body, inputs=2))
    (result,) = executable(np.array(2, np.float32), np.zeros((0, 3), np.float32))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result == 4


def test_concurrent_calls_have_arenas_of_their_own() -> None:
    module = arena_module()
    executable = compile_module(module)
    wrong = []

    def call(n: int) -> None:
        x = np.full((n, 4), n, np.float32)
        for _ in range(200):
            (got,) = executable(x, np.zeros(4, np.float32))
            if (got != 2 * n).any():
                wrong.append(n)

    callers = [threading.Thread(target=call, args=(n,)) for n in (1, 40, 300, 2000)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_long_programs_let_other_threads_run() -> None:
    """A program with much to do calls PyEval_SaveThread; a short one does not."""
    body = """
  %zero = constant {value = 0} : index
  %high = constant {value = TURNS} : index
  for %zero, %high {
    ^(%i: index):
    %v = load %x, %zero : f32
    store %v, %r, %zero
    yield
  }"""
    for turns, released in ((10, False), (1_000_000, True)):
        signature = "%x: &f32[1], %r: &f32[1]"
        module = kernel_module(signature, body.replace("TURNS", str(turns)), inputs=1)
        _, host = write_text(module)
        assert ("python:PyEval_SaveThread" in host) is released
        check(module, ones(1))


def test_code_lives_as_long_as_its_function() -> None:
    executable = compile_module(arena_module())
    call, code = executable.call_raw, weakref.ref(executable.call_raw.__self__)
    x, w = ones(3, 4), ones(4)
    call(x, w)
    del executable
    gc.collect()
    call(x, w)
    assert code() is not None
    del call
    gc.collect()
    assert code() is None


# ---- what is refused


def test_refused_by_name() -> None:
    module = scale_module()
    with pytest.raises(TargetError, match="no target 'tpu'"):
        compile_module(module, target="tpu")
    with pytest.raises(TargetError, match="at least 1"):
        compile_module(module, threads=0)
    with pytest.raises(TargetError, match="at most"):
        compile_module(module, threads=1000)
    body = """
  %zero = constant {value = 0} : index
  %v = load %x, %zero : c64
  store %v, %r, %zero"""
    with pytest.raises(TargetError, match="c64"):
        compile_module(kernel_module("%x: &c64[1], %r: &c64[1]", body, inputs=1))


def test_programs_refer_to_nothing_outside() -> None:
    """The loader resolves no names: an object that needs one is refused by it."""
    text = """
declare double @fmod(double, double)
define double @f(double %x) {
  %y = call double @fmod(double %x, double %x)
  ret double %y
}"""
    with pytest.raises(TargetError, match="fmod"):
        link(host_compiler(1).compile(text))
    with pytest.raises(TargetError, match="no 64-bit"):
        link(b"\x7fELF\x01\x01" + bytes(64))


def test_images_hold_addresses_of_their_own_parts() -> None:
    """Absolute addresses inside a program are made when it is mapped."""
    text = """
@tapec.host = hidden global [1 x ptr] zeroinitializer
@number = internal global i64 7
@table = hidden global [2 x ptr] [ptr @number, ptr @number]
define hidden ptr @get() {
  %p = load volatile ptr, ptr @table
  ret ptr %p
}"""
    image = Image.from_bytes(link(host_compiler(0).compile(text)).to_bytes())
    assert image.bases
    mapped = Mapped(image, ["none:"])
    get = ctypes.CFUNCTYPE(ctypes.c_void_p)(mapped.address("get"))
    assert ctypes.c_int64.from_address(get()).value == 7
    host = ctypes.c_void_p.from_address(mapped.address("tapec.host")).value
    assert host == id(None)


def test_text_is_the_same_each_time() -> None:
    """The cache finds a program by its text."""
    texts = {write_text(arena_module())[0] for _ in range(3)}
    assert len(texts) == 1
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_runtime as t, hashlib;"
        "print(hashlib.sha256(t.write_text(t.arena_module())[0].encode()).hexdigest())"
    )
    seen = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout)
    assert len(seen) == 1
