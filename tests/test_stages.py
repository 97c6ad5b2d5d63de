"""Long sums in two stages: the same numbers, and as many parts as are worth it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.ir.core import Module
from tapec.ir.evaluator import evaluate_module
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime.cuda.program import simulated

#: With parts so small that arrays are.
STAGES = "stages{depth=32,elements=16,column=8,long=64}"
TO_LOOPS = "fuse,schedule{vector-bytes=0,masked=false,compact=true,device=true},plan,lower,spread{threads=64},widen"


def filters(x: Any, ct: Any) -> Any:
    """The gradient of a convolution's filters."""
    with tapec.GradientTape() as tape:
        w = tapec.zeros([3, 3, x.shape[-1], ct.shape[-1]])
        tape.watch(w)
        y = tapec.reduce_sum(tapec.nn.conv2d(x, w, 1, "SAME") * ct)
    return tape.gradient(y, w)


#: Functions, shapes of what they are called with, and the type of what the parts give.
CASES: dict[str, tuple[Callable[..., Any], list[list[int]], str]] = {
    "rows by columns": (tapec.matmul, [[16, 256], [256, 16]], "f32[8,16,16]"),
    "gradient of weights": (
        lambda x, y: tapec.matmul(x, y, transpose_a=True),
        [[256, 16], [256, 16]],
        "f32[8,16,16]",
    ),
    "rows by rows": (
        lambda x, y: tapec.matmul(x, y, transpose_b=True),
        [[12, 192], [15, 192]],
        "f32[6,12,15]",
    ),
    "a stack": (tapec.matmul, [[2, 3, 8, 128], [2, 3, 128, 8]], "f32[4,2,3,8,8]"),
    "few sums": (tapec.matmul, [[2, 128], [128, 3]], "f32[8,2,3]"),
    "filters": (filters, [[8, 4, 4, 4], [8, 4, 4, 8]], "f32[4,3,3,4,8]"),
    "few parts of many": (filters, [[5, 12, 12, 4], [5, 12, 12, 8]], "f32[5,3,3,4,8]"),
    "all": (tapec.reduce_sum, [[24, 32]], "f32[24]"),
    "columns": (lambda x: tapec.reduce_sum(x, axis=0), [[96, 5]], "f32[12,5]"),
    "rows": (lambda x: tapec.reduce_max(x, axis=(0, 2)), [[4, 5, 32]], "f32[4,5]"),
    "a running sum": (tapec.cumsum, [[64, 3]], "f32[8,8,3]"),
    "of what is behind": (
        lambda x: tapec.cumsum(x, axis=1, exclusive=True, reverse=True),
        [[2, 60]],
        "f32[2,6,10]",
    ),
    "places": (lambda x: (tapec.argmax(x, axis=1), tapec.argmin(x, axis=0)), [[32, 16]], "i32[16]"),
    "a place": (tapec.argmax, [[96]], "f32[6]"),
    "channels": (lambda x: tapec.reduce_sum(x, axis=(0, 1)), [[8, 12, 3]], "f32[8,3]"),
}


def numbers(shapes: list[list[int]]) -> list[Any]:
    """Small integers, of which sums are exact in any order."""
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


def staged(function: Callable[..., Any], shapes: list[list[int]]) -> tuple[Module, Module]:
    """A program, and the same in stages."""
    specs = [tapec.TensorSpec(shape) for shape in shapes]
    modules = [tapec.compile(function).trace(*specs) for _ in range(2)]
    simple = "inline,adjoint,prune,canonicalize,cse,dce"
    run_pipeline(modules[0], parse_pipeline(simple))
    run_pipeline(modules[1], parse_pipeline(f"{simple},{STAGES}"))
    return modules[0], modules[1]


@pytest.mark.parametrize("name", CASES)
def test_parts_add_up(name: str) -> None:
    function, shapes, parts = CASES[name]
    arrays = numbers(shapes)
    whole, cut = staged(function, shapes)
    assert f": {parts}" not in str(whole)
    assert f": {parts}" in str(cut)
    for one, other in zip(
        *(evaluate_module(module, arrays) for module in (whole, cut)), strict=True
    ):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_nan_is_best_and_of_equal_ones_the_first(dtype: Any) -> None:
    rows = np.zeros((5, 32), dtype)
    rows[1, 7:9] = 3.0
    rows[2, [4, 9]] = np.nan
    rows[3, 0], rows[4, 5] = -0.0, -np.inf

    def places(x: Any) -> Any:
        return tapec.argmax(x, axis=1), tapec.argmin(x, axis=1, output_type=tapec.int32)

    modules = [tapec.compile(places).trace(rows) for _ in range(2)]
    run_pipeline(modules[1], parse_pipeline(STAGES))
    assert "argm" not in str(modules[1])
    for one, other in zip(*(evaluate_module(m, [rows]) for m in modules), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("name", ["rows by columns", "filters", "columns", "of what is behind"])
def test_threads_make_the_parts(name: str) -> None:
    function, shapes, _ = CASES[name]
    arrays = numbers(shapes)
    whole, cut = staged(function, shapes)
    (expected,) = evaluate_module(whole, arrays)
    run_pipeline(cut, parse_pipeline(TO_LOOPS))
    (found,) = simulated(cut)(*arrays)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (tapec.matmul, [[16, 96], [96, 16]]),  # not long
        (tapec.matmul, [[8, 251], [251, 8]]),  # no parts of equal size
        (tapec.matmul, [[4096, 256], [256, 4096]]),  # enough tiles
        (tapec.matmul, [[4, 32], [32, 3]]),
        (tapec.matmul, [[4, 0], [0, 3]]),
        (tapec.matmul, [[0, 128], [128, 3]]),
        (lambda x: tapec.reduce_sum(x, axis=1), [[300, 128]]),  # enough rows
        (lambda x: tapec.reduce_sum(x, axis=0), [[8, 5]]),
        (lambda x: tapec.reduce_sum(x, axis=0), [[0, 5]]),
        (lambda x: tapec.reduce_sum(x, axis=0), [[96, 0]]),
        (lambda x: tapec.cumsum(x, axis=0), [[96, 0]]),
        (lambda x: tapec.cumsum(x, axis=0), [[67, 2]]),
        (lambda x: tapec.cumsum(tapec.cast(x, "float16"), axis=0), [[64, 2]]),
        (tapec.math.cumprod, [[64, 2]]),  # of parts it may be beyond numbers
        (lambda x: tapec.argmax(x, axis=0), [[8, 200]]),
    ],
)
def test_what_is_left_whole(function: Callable[..., Any], shapes: list[list[int]]) -> None:
    whole, cut = staged(function, shapes)
    assert str(cut) == str(whole)
