"""Every way through the compiler gives the same numbers, to the bit: random programs of small integers.

Evaluated as tensors, as kernels and as loops, and run natively; with each pass that may be left out left out, with
kernels large and small, for every width of vectors, with one thread and with two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_programs import run_native
from step_programs import HALVES, WITH_GRADIENTS, arrays, steps

from tapec.ir.core import Module, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import parse_module
from tapec.ir.verifier import verify
from tapec.passes import schedule
from tapec.passes.contractions import tiling
from tapec.passes.loops import alike
from tapec.passes.pipeline import parse_pipeline, run_pipeline

SIMPLIFYING = ("canonicalize", "cse", "dce")
TENSOR_LEVEL = "inline,canonicalize,cse,dce,adjoint,prune,canonicalize,cse,dce"
FUSE = ["fuse", "fuse{max_ops=1}", "fuse{max_ops=5}"]
SCHEDULE = [
    f"schedule{{vector_bytes={width},masked={masked}}}"
    for width in (64, 32, 16, 0)
    for masked in ("true", "false")
]
#: Numbers up to which every order of sums is exact.
EXACT = 2.0**50


class Way(NamedTuple):
    """A way through the compiler."""

    left_out: str
    fuse: str
    schedule: str
    shared: bool

    @property
    def pipeline(self) -> str:
        """The text of its passes."""
        front = [name for name in TENSOR_LEVEL.split(",") if name != self.left_out]
        return ",".join([*front, self.fuse, self.schedule, "plan", "lower"])


WAYS = st.builds(
    Way,
    st.sampled_from(["none", *SIMPLIFYING]),
    st.sampled_from(FUSE),
    st.sampled_from(SCHEDULE),
    st.booleans(),
)


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `agree` changes is as it was after the test."""
    for module in (schedule, tiling):
        monkeypatch.setattr(module, "PARALLEL_WORK", module.PARALLEL_WORK)
    monkeypatch.setattr(alike, "SHARED_BYTES", alike.SHARED_BYTES)


THRESHOLDS = (schedule.PARALLEL_WORK, tiling.PARALLEL_WORK, alike.SHARED_BYTES)


def agree(module: Module, way: Way) -> None:
    """Evaluate a program and run it; all results must be equal."""
    thresholds = (1, 1, 1) if way.shared else THRESHOLDS
    schedule.PARALLEL_WORK, tiling.PARALLEL_WORK, alike.SHARED_BYTES = thresholds
    inputs = arrays(module)
    plain = clone_module(module)
    run_pipeline(plain, parse_pipeline("adjoint,prune"))
    with np.errstate(all="ignore"):
        wanted = evaluate_module(plain, inputs)
        if any(a.dtype.kind == "f" and np.abs(a).max(initial=0) > EXACT for a in wanted):
            return  # a gradient that is not exact in every order
        lowered = clone_module(module)
        for stage in parse_pipeline(way.pipeline):
            run_pipeline(lowered, [stage])
            verify(lowered)
            if stage.name == "fuse":
                compare(evaluate_module(lowered, inputs), wanted)
        compare(evaluate_module(lowered, inputs), wanted)
    compare(run_native(lowered, inputs, threads=2 if way.shared else 1), wanted)


def compare(found: list[Any], wanted: list[Any]) -> None:
    """Equal types and elements."""
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


@given(steps(), WAYS)
def test_programs(module: Module, way: Way) -> None:
    agree(module, way)


@settings(max_examples=settings().max_examples // 2)
@given(steps(dtypes=WITH_GRADIENTS, gradients=True), WAYS)
def test_gradients(module: Module, way: Way) -> None:
    agree(module, way)


@settings(max_examples=settings().max_examples // 3)
@given(steps(dtypes=HALVES), WAYS)
def test_half_precision(module: Module, way: Way) -> None:
    agree(module, way)


#: Programs that went wrong, or that look as if they might.
PROGRAMS = {
    "values without elements at the same place": """
        func @f(%x: f64[0], %y: f64[1,0], %w: f32[1,0]) -> (f32[1,0] into %w, f64[1,1]) {
          %0 = neg %x : f64[0]
          %1 = broadcast %0 {axes = [1], shape = [1, 0]} : f64[1,0]
          %2 = matmul %y, %1 {transpose_b = true} : f64[1,1]
          %3 = abs %2 : f64[1,1]
          %4 = neg %3 : f64[1,1]
          %5 = neg %w : f32[1,0]
          %6 = neg %5 : f32[1,0]
          return %6, %4
        }""",
    "an epilogue that writes what the product reads": """
        func @f(%x: f16[1,1], %y: f16[1,1]) -> (f16[1,1], f16[1,1]) {
          %0 = neg %x : f16[1,1]
          %1 = constant {value = 0.0} : f16[1,1]
          %2 = matmul %0, %1 : f16[1,1]
          %3 = add %2, %y : f16[1,1]
          %4 = max %3, %1 : f16[1,1]
          return %4, %1
        }""",
    "an epilogue that writes what it reads beside the product": """
        func @f(%x: f32[8,6], %w: f32[6,4], %y: f32[8,4]) -> (f32[8,4], f32[8,4]) {
          %0 = abs %x : f32[8,6]
          %1 = mul %0, %x : f32[8,6]
          %2 = sign %y : f32[8,4]
          %3 = matmul %1, %w : f32[8,4]
          %4 = mul %2, %3 : f32[8,4]
          return %4, %2
        }""",
    "a maximum that its own reader could make, but reads in another shape": """
        func @f(%x: f64[2,1,1]) -> (f64[2,1], f64[2,1], f64[2]) {
          %0 = sum %x {axes = [2]} : f64[2,1]
          %1 = reduce_max %0 {axes = [1]} : f64[2]
          %2 = reshape %1 {shape = [2, 1]} : f64[2,1]
          %3 = sub %0, %2 : f64[2,1]
          return %0, %3, %1
        }""",
    "a product and what is added to it read the same": """
        func @f(%x: f32[16,16], %w: f32[16,16]) -> f32[16,16] {
          %0 = sign %x : f32[16,16]
          %1 = matmul %0, %w : f32[16,16]
          %2 = add %1, %0 : f32[16,16]
          return %2
        }""",
    "reversed along an axis in front of one of size 1": """
        func @f(%x: f16[33,1]) -> (f16[33,1] into %x, f16[33,1]) {
          %0 = reverse %x {axes = [0]} : f16[33,1]
          %1 = neg %0 : f16[33,1]
          return %1, %1
        }""",
    "a swap": """
        func @f(%x: f32[40], %y: f32[40]) -> (f32[40] into %y, f32[40] into %x) {
          return %x, %y
        }""",
    "a swap of views": """
        func @f(%x: f32[4,10], %y: f32[40]) -> (f32[40] into %y, f32[4,10] into %x) {
          %0 = reshape %x {shape = [40]} : f32[40]
          %1 = reshape %y {shape = [4, 10]} : f32[4,10]
          return %0, %1
        }""",
    "a turn of three": """
        func @f(%x: f32[40], %y: f32[40], %z: f32[40])
            -> (f32[40] into %y, f32[40] into %z, f32[40] into %x, f32[40]) {
          %0 = add %x, %y : f32[40]
          return %x, %y, %0, %z
        }""",
    "an update behind a product, of a weight that another product reads": """
        func @f(%x: f32[9,6], %w: f32[6,17], %ct: f32[9,17]) -> (f32[6,17] into %w, f32[9,6]) {
          %0 = matmul %x, %ct {transpose_a = true} : f32[6,17]
          %1 = sub %w, %0 : f32[6,17]
          %2 = matmul %ct, %w {transpose_b = true} : f32[9,6]
          return %1, %2
        }""",
    "an update of a square weight by its own product": """
        func @f(%w: f32[17,17]) -> (f32[17,17] into %w) {
          %0 = matmul %w, %w : f32[17,17]
          %1 = sub %w, %0 : f32[17,17]
          return %1
        }""",
    "an update of a weight that the epilogue reads transposed": """
        func @f(%x: f32[5,17], %w: f32[17,17]) -> (f32[17,17] into %w) {
          %0 = matmul %x, %x {transpose_a = true} : f32[17,17]
          %1 = transpose %w {permutation = [1, 0]} : f32[17,17]
          %2 = sub %1, %0 : f32[17,17]
          return %2
        }""",
    "two weights of which each moves the other": """
        func @f(%x: f32[9,17], %v: f32[17,17], %w: f32[17,17])
            -> (f32[17,17] into %v, f32[17,17] into %w) {
          %0 = matmul %x, %x {transpose_a = true} : f32[17,17]
          %1 = sub %v, %w : f32[17,17]
          %2 = add %1, %0 : f32[17,17]
          %3 = sub %w, %v : f32[17,17]
          return %2, %3
        }""",
    "a product that is read twice, by rows and by elements": """
        func @f(%x: f64[9,6], %w: f64[6,33]) -> (f64[9,33], f64[33], f64[9]) {
          %0 = matmul %x, %w : f64[9,33]
          %1 = sum %0 {axes = [0]} : f64[33]
          %2 = reduce_max %0 {axes = [1]} : f64[9]
          %3 = broadcast %2 {axes = [0], shape = [9, 33]} : f64[9,33]
          %4 = sub %0, %3 : f64[9,33]
          return %4, %1, %2
        }""",
    "a column that is a row elsewhere": """
        func @f(%x: f32[17,1], %w: f32[17,17]) -> (f32[17,17] into %w, f32[1,17]) {
          %0 = reshape %x {shape = [17]} : f32[17]
          %1 = broadcast %0 {axes = [1], shape = [17, 17]} : f32[17,17]
          %2 = broadcast %0 {axes = [0], shape = [17, 17]} : f32[17,17]
          %3 = mul %1, %2 : f32[17,17]
          %4 = sub %w, %3 : f32[17,17]
          %5 = reshape %x {shape = [1, 17]} : f32[1,17]
          return %4, %5
        }""",
    "numbers that are arrays": """
        func @f(%x: f32[2,3]) -> (f32[2,3], i32[3], f32) {
          %0 = constant {value = dense[1.0, 2.0, 3.0, -1.0, 0.0, 2.0]} : f32[2,3]
          %1 = constant {value = dense[2, 0, 1]} : i32[3]
          %2 = add %x, %0 : f32[2,3]
          %3 = constant {value = 2.0} : f32
          return %2, %1, %3
        }""",
    "one result is another in another shape": """
        func @f(%x: f32[4,5]) -> (f32[20], f32[4,5], f32[5,4], f32[4,5]) {
          %0 = neg %x : f32[4,5]
          %1 = reshape %0 {shape = [20]} : f32[20]
          %2 = reshape %1 {shape = [5, 4]} : f32[5,4]
          return %1, %0, %2, %x
        }""",
    "two arguments become the same": """
        func @f(%x: f32[33], %y: f32[33]) -> (f32[33] into %x, f32[33] into %y, f32[33]) {
          %0 = add %x, %y : f32[33]
          return %0, %0, %0
        }""",
    "an argument becomes the reshaped other": """
        func @f(%x: f32[33], %y: f32[3,11]) -> (f32[33] into %x, f32) {
          %0 = reshape %y {shape = [33]} : f32[33]
          %1 = sum %x {axes = [0]} : f32
          return %0, %1
        }""",
}


@pytest.mark.parametrize("fuse", FUSE[:2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_known_programs(name: str, fuse: str) -> None:
    for target in (SCHEDULE[0], SCHEDULE[5]):
        agree(parse_module(PROGRAMS[name]), Way("none", fuse, target, target == SCHEDULE[0]))
