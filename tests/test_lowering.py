"""Lowered programs mean what they meant: every operation, every sample, as loops.

What native code makes of the same is in test_native_ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sampling

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import Op, Sample
from tapec.ir.types import F32, F64
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline

LOWER = parse_pipeline("fuse,schedule,plan,lower")
SCALAR = parse_pipeline("fuse,schedule{vector-bytes=0},plan,lower")


def program(defn: Op, sample: Sample) -> Module:
    """A function of one operation."""
    function = Function("f", sample.types)
    attrs: dict[str, Any] = dict(sample.attrs)
    Builder(function.block).emit(defn, *function.args, **attrs)
    Builder(function.block).emit("return", *function.block.ops[0].results)
    return Module([function])


VARIANTS = [
    pytest.param(defn, variant, id=f"{name}-{dtype}")
    for defn, sample, name in sampling.cases()
    if all(t.dtype.kind != "complex" for t in (*sample.types, *sampling.results(defn, sample)))
    for dtype in (F32, F64)
    if (variant := sampling.retyped(defn, sample, dtype)) is not None
    and (dtype == F64 or variant != sample)
]


@pytest.mark.parametrize("pipeline", [LOWER, SCALAR], ids=["vector", "scalar"])
@pytest.mark.parametrize(("defn", "sample"), VARIANTS)
def test_loops(defn: Op, sample: Sample, pipeline: Any) -> None:
    module, arrays = program(defn, sample), sampling.arrays(sample)
    wanted = evaluate_module(module, arrays)
    run_pipeline(module, pipeline)
    verify(module)
    compare(evaluate_module(module, arrays), wanted)


def compare(found: Any, wanted: Any) -> None:
    """Equal in dtype, and in value within the rounding of another order of sums."""
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        tolerance = 2e-5 if want.dtype.itemsize <= 4 else 1e-11
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
