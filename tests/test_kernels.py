"""Kernels of several operations mean what their operations mean, for every way to write their loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapec.ir.core import clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops.control import KernelOp
from tapec.ir.parser import parse_module
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

TARGETS = {
    "avx512": "vector_bytes=64",
    "avx2": "vector_bytes=32",
    "neon": "vector_bytes=16,masked=false",
    "scalar": "vector_bytes=0,masked=false",
}

#: Programs, and how many kernels they become.
PROGRAMS: dict[str, tuple[int, str]] = {
    "softmax of rows": (
        1,
        """func @f(%x: f32[3,ROW]) -> f32[3,ROW] {
          %0 = reduce_max %x {axes = [1]} : f32[3]
          %1 = broadcast %0 {axes = [0], shape = [3, ROW]} : f32[3,ROW]
          %2 = sub %x, %1 : f32[3,ROW]
          %3 = exp %2 : f32[3,ROW]
          %4 = sum %3 {axes = [1]} : f32[3]
          %5 = broadcast %4 {axes = [0], shape = [3, ROW]} : f32[3,ROW]
          %6 = div %3, %5 : f32[3,ROW]
          return %6
        }""",
    ),
    "what a softmax keeps": (
        1,
        """func @f(%x: f32[3,ROW]) -> (f32[3,ROW], f32[3,ROW], f32[3]) {
          %0 = exp %x : f32[3,ROW]
          %1 = sum %0 {axes = [1]} : f32[3]
          %2 = broadcast %1 {axes = [0], shape = [3, ROW]} : f32[3,ROW]
          %3 = div %0, %2 : f32[3,ROW]
          return %3, %0, %1
        }""",
    ),
    "a sum of what is written over": (
        1,
        """func @f(%x: f32[ROW,1]) -> (f32[ROW,1] into %x, f32[ROW]) {
          %0 = neg %x : f32[ROW,1]
          %1 = sum %x {axes = [1]} : f32[ROW]
          return %0, %1
        }""",
    ),
    "softmax in place": (
        1,
        """func @f(%x: f32[3,ROW]) -> (f32[3,ROW] into %x, f32[3,ROW]) {
          %0 = exp %x : f32[3,ROW]
          %1 = sum %0 {axes = [1]} : f32[3]
          %2 = broadcast %1 {axes = [0], shape = [3, ROW]} : f32[3,ROW]
          %3 = div %0, %2 : f32[3,ROW]
          %4 = mul %3, %x : f32[3,ROW]
          return %0, %4
        }""",
    ),
    "layer norm": (
        1,
        """func @f(%x: f32[2,3,ROW], %g: f32[ROW]) -> f32[2,3,ROW] {
          %n = constant {value = 0.05} : f32[2,3,1]
          %0 = sum %x {axes = [2]} : f32[2,3]
          %1 = reshape %0 {shape = [2, 3, 1]} : f32[2,3,1]
          %2 = mul %1, %n : f32[2,3,1]
          %3 = reshape %2 {shape = [2, 3]} : f32[2,3]
          %4 = broadcast %3 {axes = [0, 1], shape = [2, 3, ROW]} : f32[2,3,ROW]
          %5 = sub %x, %4 : f32[2,3,ROW]
          %6 = mul %5, %5 : f32[2,3,ROW]
          %7 = sum %6 {axes = [2]} : f32[2,3]
          %8 = rsqrt %7 : f32[2,3]
          %9 = broadcast %8 {axes = [0, 1], shape = [2, 3, ROW]} : f32[2,3,ROW]
          %10 = mul %5, %9 : f32[2,3,ROW]
          %11 = broadcast %g {axes = [2], shape = [2, 3, ROW]} : f32[2,3,ROW]
          %12 = mul %10, %11 : f32[2,3,ROW]
          return %12
        }""",
    ),
    "batch norm": (
        2,
        """func @f(%x: f32[9,ROW]) -> f32[9,ROW] {
          %0 = sum %x {axes = [0]} : f32[ROW]
          %1 = tanh %0 : f32[ROW]
          %2 = broadcast %1 {axes = [1], shape = [9, ROW]} : f32[9,ROW]
          %3 = sub %x, %2 : f32[9,ROW]
          return %3
        }""",
    ),
    "sums of everything": (
        1,
        """func @f(%x: f32[5,ROW], %y: f32[5,ROW]) -> (f32, f32) {
          %0 = mul %x, %y : f32[5,ROW]
          %1 = sum %0 {axes = [0, 1]} : f32
          %2 = reduce_max %x {axes = [0, 1]} : f32
          return %1, %2
        }""",
    ),
    "half precision": (
        1,
        """func @f(%x: f16[5,ROW]) -> f16[ROW] {
          %0 = exp %x : f16[5,ROW]
          %1 = sum %0 {axes = [0]} : f16[ROW]
          return %1
        }""",
    ),
    "integers and masks": (
        1,
        """func @f(%x: i32[5,ROW]) -> (i32[5], bool[5,ROW]) {
          %0 = constant {value = 1} : i32[5,ROW]
          %1 = ge %x, %0 : bool[5,ROW]
          %2 = where %1, %x, %0 : i32[5,ROW]
          %3 = sum %2 {axes = [1]} : i32[5]
          return %3, %1
        }""",
    ),
    "the first of the largest": (
        1,
        """func @f(%x: f32[19,ROW]) -> i32[19] {
          %0 = argmax %x {axis = 1, dtype = i32} : i32[19]
          return %0
        }""",
    ),
    "what stands apart": (
        1,
        """func @f(%x: f32[3,2,ROW], %y: f32[3,2,ROW]) -> f32[7,6,ROW] {
          %0 = neg %x : f32[3,2,ROW]
          %1 = pad %0 {value = 0.5, low = [0, 1, 0], high = [2, 1, 0], interior = [1, 2, 0]} : f32[7,6,ROW]
          %2 = pad %y {value = 0.0, low = [1, 2, 0], high = [1, 0, 0], interior = [1, 2, 0]} : f32[7,6,ROW]
          %3 = add %1, %2 : f32[7,6,ROW]
          return %3
        }""",
    ),
    "parts side by side": (
        1,
        """func @f(%x: f32[3,ROW], %y: f32[3,5]) -> f32[3,ALL] {
          %0 = concat %x, %y {axis = 1} : f32[3,ALL]
          %1 = tanh %0 : f32[3,ALL]
          return %1
        }""",
    ),
    "padding": (
        1,
        """func @f(%x: f32[3,ROW]) -> f32[4,ALL] {
          %0 = pad %x {high = [1, 3], interior = [0, 0], low = [0, 2], value = 0.5} : f32[4,ALL]
          %1 = neg %0 : f32[4,ALL]
          return %1
        }""",
    ),
    "a transpose": (
        1,
        """func @f(%x: f32[ROW,21]) -> f32[21,ROW] {
          %0 = transpose %x {permutation = [1, 0]} : f32[21,ROW]
          %1 = exp %0 : f32[21,ROW]
          return %1
        }""",
    ),
    "backwards": (
        1,
        """func @f(%x: f32[3,ROW]) -> f32[3,ROW] {
          %0 = reverse %x {axes = [1]} : f32[3,ROW]
          %1 = sub %x, %0 : f32[3,ROW]
          return %1
        }""",
    ),
    "every other": (
        1,
        """func @f(%x: f32[3,ALL], %y: f32[3,ROW]) -> f32[3,ROW] {
          %0 = slice %x {sizes = [3, ROW], starts = [0, 1], strides = [1, 1]} : f32[3,ROW]
          %1 = mul %0, %y : f32[3,ROW]
          return %1
        }""",
    ),
    "rows by number": (
        1,
        """func @f(%x: f32[7,ROW], %i: i32[4]) -> f32[4,ROW] {
          %0 = gather %x, %i {axis = 0, batch_dims = 0} : f32[4,ROW]
          %1 = exp %0 : f32[4,ROW]
          return %1
        }""",
    ),
    "axes of size 1": (
        1,
        """func @f(%x: f32[1,3,ROW,1], %y: f32[1,1,1,1]) -> f32[1,3,ROW,1] {
          %0 = exp %x : f32[1,3,ROW,1]
          %1 = reshape %y {shape = []} : f32
          %2 = broadcast %1 {axes = [], shape = [1, 3, ROW, 1]} : f32[1,3,ROW,1]
          %3 = sub %0, %2 : f32[1,3,ROW,1]
          return %3
        }""",
    ),
    "relu and its mask": (
        3,
        """func @f(%x: f32[6,4], %w: f32[4,ROW], %b: f32[ROW], %v: f32[ROW,3], %ct: f32[6,ROW])
            -> (f32[6,3], f32[6,ROW]) {
          %zero = constant {value = 0.0} : f32[6,ROW]
          %0 = matmul %x, %w : f32[6,ROW]
          %1 = broadcast %b {axes = [1], shape = [6, ROW]} : f32[6,ROW]
          %2 = add %0, %1 : f32[6,ROW]
          %3 = max %2, %zero : f32[6,ROW]
          %4 = matmul %3, %v : f32[6,3]
          %5 = ge %2, %zero : bool[6,ROW]
          %6 = where %5, %ct, %zero : f32[6,ROW]
          %7 = reverse %6 {axes = [0]} : f32[6,ROW]
          return %4, %7
        }""",
    ),
    "stacked rows behind a product": (
        1,
        """func @f(%x: f32[6,4], %w: f32[4,ROW], %b: f32[ROW], %r: f32[2,3,ROW], %p: f32[3,ROW])
            -> (f32[2,3,ROW] into %r) {
          %0 = matmul %x, %w : f32[6,ROW]
          %1 = reshape %0 {shape = [2, 3, ROW]} : f32[2,3,ROW]
          %2 = broadcast %b {axes = [2], shape = [2, 3, ROW]} : f32[2,3,ROW]
          %3 = add %1, %2 : f32[2,3,ROW]
          %4 = broadcast %p {axes = [1, 2], shape = [2, 3, ROW]} : f32[2,3,ROW]
          %5 = mul %3, %4 : f32[2,3,ROW]
          %6 = add %r, %5 : f32[2,3,ROW]
          return %6
        }""",
    ),
    "an update behind a gradient": (
        1,
        """func @f(%x: f32[6,4], %ct: f32[6,ROW], %w: f32[4,ROW], %m: f32[4,ROW], %rate: f32)
            -> (f32[4,ROW] into %w, f32[4,ROW] into %m) {
          %0 = matmul %x, %ct {transpose_a = true} : f32[4,ROW]
          %1 = constant {value = 0.9} : f32[4,ROW]
          %2 = mul %m, %1 : f32[4,ROW]
          %3 = add %2, %0 : f32[4,ROW]
          %4 = broadcast %rate {axes = [], shape = [4, ROW]} : f32[4,ROW]
          %5 = mul %3, %4 : f32[4,ROW]
          %6 = sub %w, %5 : f32[4,ROW]
          return %6, %3
        }""",
    ),
    "a loss and its gradient": (
        2,
        """func @f(%x: f32[5,ROW], %wanted: f32[5,ROW]) -> (f32, f32[5,ROW]) {
          %0 = exp %x : f32[5,ROW]
          %1 = sum %0 {axes = [1]} : f32[5]
          %2 = mul %x, %wanted : f32[5,ROW]
          %3 = sum %2 {axes = [1]} : f32[5]
          %4 = log %1 : f32[5]
          %5 = sub %4, %3 : f32[5]
          %6 = sum %5 {axes = [0]} : f32
          %7 = broadcast %1 {axes = [0], shape = [5, ROW]} : f32[5,ROW]
          %8 = div %0, %7 : f32[5,ROW]
          %9 = sub %8, %wanted : f32[5,ROW]
          return %6, %9
        }""",
    ),
    # In one, each inner sum would be made to be written, and again where it is read.
    "sums of sums": (
        2,
        """func @f(%x: f32[3,4,ROW]) -> f32[3] {
          %0 = sum %x {axes = [2]} : f32[3,4]
          %1 = sum %0 {axes = [1]} : f32[3]
          return %1
        }""",
    ),
    "an array that is known": (
        1,
        """func @f(%x: f32[3,4]) -> f32[3,4] {
          %0 = constant {value = dense[1.0, 2.0, 3.0, 4.0]} : f32[4]
          %1 = broadcast %0 {axes = [1], shape = [3, 4]} : f32[3,4]
          %2 = mul %x, %1 : f32[3,4]
          return %2
        }""",
    ),
}


def arrays(module: Any) -> list[Any]:
    """Inputs for a program."""
    rng = np.random.default_rng(0)
    found = []
    for arg in module.entry.args:
        shape, dtype = arg.tensor.static_shape, arg.tensor.dtype
        if dtype.is_integer:
            found.append(rng.integers(0, 7, shape).astype(dtype.numpy))
        else:
            found.append(rng.normal(size=shape).astype(dtype.numpy))
    return found


def module_of(text: str, row: int) -> Any:
    return parse_module(text.replace("ROW", str(row)).replace("ALL", str(row + 5)))


def close(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype
    tolerance = 2e-2 if want.dtype == np.float16 else 3e-5
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("row", [1, 5, 16, 40, 135])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_compute_the_same(name: str, target: str, row: int) -> None:
    module = module_of(PROGRAMS[name][1], row)
    given = arrays(module)
    wanted = evaluate_module(module, given)
    lowered = clone_module(module)
    run_pipeline(lowered, parse_pipeline(f"fuse,schedule{{{TARGETS[target]}}},plan"))
    verify(lowered)
    run_pipeline(lowered, parse_pipeline("lower"))
    verify(lowered)
    for got, want in zip(evaluate_module(lowered, given), wanted, strict=True):
        close(got, want)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_as_few_as_can_be(name: str) -> None:
    kernels, text = PROGRAMS[name]
    module = module_of(text, 40)
    run_pipeline(module, parse_pipeline("fuse"))
    assert sum(isinstance(op.defn, KernelOp) for op in module.entry.block.ops) == kernels


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_code_computes_the_same(name: str) -> None:
    module = module_of(PROGRAMS[name][1], 40)
    given = arrays(module)
    wanted = evaluate_module(module, given)
    run_pipeline(module, parse_pipeline("fuse,schedule,plan,lower"))
    buffers = [a.copy() for a in given]
    fresh = iter(compile_module(module)(*buffers))
    for i, want in enumerate(wanted):
        updated = module.entry.updates.get(i)
        close(next(fresh) if updated is None else buffers[updated], want)
