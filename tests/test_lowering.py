"""Lowered programs mean what they meant: every operation, every sample, as loops and as native code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sampling

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import Op, Sample
from tapec.ir.types import F32, F64
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

LOWER = parse_pipeline("fuse,schedule,plan,lower")
SCALAR = parse_pipeline("fuse,schedule{vector-bytes=0},plan,lower")

CASES = [
    pytest.param(defn, sample, id=name)
    for defn, sample, name in sampling.cases()
    if all(t.dtype.kind != "complex" for t in (*sample.types, *sampling.results(defn, sample)))
]


def program(defn: Op, sample: Sample) -> Module:
    """A function of one operation."""
    function = Function("f", sample.types)
    attrs: dict[str, Any] = dict(sample.attrs)
    Builder(function.block).emit(defn, *function.args, **attrs)
    Builder(function.block).emit("return", *function.block.ops[0].results)
    return Module([function])


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("pipeline", [LOWER, SCALAR], ids=["vector", "scalar"])
@pytest.mark.parametrize(("defn", "sample"), CASES)
def test_loops(defn: Op, sample: Sample, pipeline: Any, dtype: Any) -> None:
    narrowed = sampling.retyped(defn, sample, dtype)
    if narrowed is None:
        return  # tests/test_ops.py holds which dtypes an operation must take
    module, arrays = program(defn, narrowed), sampling.arrays(narrowed)
    wanted = evaluate_module(module, arrays)
    lowered = clone_module(module)
    run_pipeline(lowered, pipeline)
    verify(lowered)
    compare(evaluate_module(lowered, arrays), wanted)


@pytest.mark.parametrize(("defn", "sample"), CASES)
def test_native(defn: Op, sample: Sample) -> None:
    module, arrays = program(defn, sample), sampling.arrays(sample)
    lowered = clone_module(module)
    run_pipeline(lowered, LOWER)
    executable = compile_module(lowered)
    assert executable.kernels > 0
    compare(executable(*arrays), evaluate_module(module, arrays))


def compare(found: Any, wanted: Any) -> None:
    """Equal in dtype, and in value within the rounding of another order of sums."""
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        tolerance = 2e-5 if want.dtype.itemsize <= 4 else 1e-11
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
