"""Loops, and loop-level programs for tests of what runs them, and their comparison with the evaluator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tapec
from tapec.ir.core import Module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import parse_module
from tapec.ir.types import BF16, DTYPES, DType
from tapec.runtime import compile_module

Array = Any
REAL = [d for d in DTYPES if not d.is_complex]
COUNT = 48


def until_large(x: Any, turns: Any) -> Any:
    """A loop of a function that is compiled: so many turns, unless a sum is large before; each doubles."""
    for _ in tapec.range(turns):
        if tapec.reduce_sum(x) > 100.0:
            break
        x = x * 2.0
    return x


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


def check_close(module: Module, *arrays: Array, threads: int = 1) -> None:
    """`check`, where products and sums may have been fused."""
    want = evaluate_module(module, arrays)
    got = compile_module(module, threads=threads)(*arrays)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13 if a.dtype == np.float64 else 1e-5)


def samples(dtype: DType, which: int) -> Array:
    """Numbers of a dtype, awkward ones first; another order for each operand."""
    rng = np.random.default_rng(7)
    values: Array
    edges: list[Any]
    if dtype.is_bool:
        values = np.arange(COUNT) % 2 == 0
    elif dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        edges = [0, 1, 2, 3, 5, 7, info.max, info.max - 1, info.min, info.min + 1]
        small = rng.integers(max(info.min, -40), 40, COUNT - len(edges))
        values = np.concatenate([np.array(edges, dtype.numpy), small.astype(dtype.numpy)])
    else:
        limits: Any = ml_dtypes.finfo(dtype.numpy)
        edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, 3, -2.5, 1e-3, 0.1]
        edges += [float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)]
        values = np.concatenate([edges, rng.normal(0, 4, COUNT - len(edges))]).astype(dtype.numpy)
    return np.ascontiguousarray(rng.permutation(values) if which else values)


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
