"""Reductions of many elements to one number: in the kernel that makes these, alike for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops.control import KernelOp
from tapec.ir.parser import parse_module
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

#: Programs, and how many kernels they become.
PROGRAMS: dict[str, tuple[int, str]] = {
    "with what it is made of": (
        1,
        """func @f(%x: f32[S], %y: f32[S]) -> (f32, f32[S], f32[S]) {
          %0 = exp %x : f32[S]
          %1 = mul %y, %0 : f32[S]
          %2 = add %1, %x : f32[S]
          %3 = tanh %2 : f32[S]
          %4 = sum %3 {axes = [AXES]} : f32
          %5 = neg %4 : f32
          %6 = neg %1 : f32[S]
          return %5, %6, %0
        }""",
    ),
    "of kernels that read nothing in common": (
        1,
        """func @f(%x: f64[S], %y: f64[S]) -> (f64, f64[S], f64[S]) {
          %0 = exp %x : f64[S]
          %1 = tanh %y : f64[S]
          %2 = mul %0, %1 : f64[S]
          %3 = sum %2 {axes = [AXES]} : f64
          return %3, %0, %1
        }""",
    ),
    "the largest, which is written over": (
        1,
        """func @f(%x: f16[S]) -> (f16[S] into %x, f16) {
          %0 = exp %x : f16[S]
          %1 = reduce_max %0 {axes = [AXES]} : f16
          return %0, %1
        }""",
    ),
    "alone": (
        1,
        """func @f(%x: f32[S]) -> f32 {
          %0 = mul %x, %x : f32[S]
          %1 = sum %0 {axes = [AXES]} : f32
          %2 = sqrt %1 : f32
          return %2
        }""",
    ),
    "needed for what is added up next": (
        2,
        """func @f(%x: f32[S]) -> (f32, f32[S]) {
          %0 = sum %x {axes = [AXES]} : f32
          %1 = broadcast %0 {axes = [], shape = [S]} : f32[S]
          %2 = sub %x, %1 : f32[S]
          %3 = exp %2 : f32[S]
          %4 = sum %3 {axes = [AXES]} : f32
          return %4, %2
        }""",
    ),
    "of what a product reads too": (
        2,
        """func @f(%x: f32[S]) -> (f32, f32[LAST,LAST]) {
          %0 = exp %x : f32[S]
          %1 = sum %0 {axes = [AXES]} : f32
          %2 = reshape %0 {shape = [REST,LAST]} : f32[REST,LAST]
          %3 = matmul %2, %2 {transpose_a = true} : f32[LAST,LAST]
          return %1, %3
        }""",
    ),
}
SHAPES = [(9000,), (262_147,), (700, 40), (3, 5003), (1, 64, 129), (70_001, 4)]


def program(name: str, shape: tuple[int, ...]) -> Any:
    """One of the programs for a shape."""
    text = PROGRAMS[name][1].replace("AXES", ", ".join(map(str, range(len(shape)))))
    rest = int(np.prod(shape)) // shape[-1] if len(shape) > 1 else shape[0]
    last = shape[-1] if len(shape) > 1 else 1
    text = text.replace("REST", str(rest)).replace("LAST", str(last))
    return parse_module(text.replace("[S]", f"[{', '.join(map(str, shape))}]"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_change_no_bit(name: str, shape: tuple[int, ...]) -> None:
    module = program(name, shape)
    rng = np.random.default_rng(0)
    given = [rng.uniform(-1, 1, shape).astype(a.tensor.dtype.numpy) for a in module.entry.args]
    wanted = evaluate_module(module, given)
    run_pipeline(module, parse_pipeline("fuse,schedule,plan"))
    kernels = sum(isinstance(op.defn, KernelOp) for op in module.entry.block.ops)
    assert kernels == PROGRAMS[name][0]
    verify(module)
    run_pipeline(module, parse_pipeline("lower"))
    found = []
    for threads in (1, 2):
        buffers = [a.copy() for a in given]
        fresh = iter(compile_module(module, threads=threads)(*buffers))
        updates = module.entry.updates
        found.append(
            [buffers[updates[i]] if i in updates else next(fresh) for i in range(len(wanted))]
        )
    for one, two, want in zip(*found, wanted, strict=True):
        assert np.array_equal(one, two)
        rounding = 2e-3 if want.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(one, want, rtol=rounding, atol=rounding * want.size / one.size)
