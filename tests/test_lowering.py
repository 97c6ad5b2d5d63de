"""Lowered programs mean what they meant: every operation, every sample, through the loop-level evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import OPS, Op, Sample
from tapec.ir.types import F32, F64, TensorType
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline

LOWER = parse_pipeline("fuse,schedule,plan,lower")
SCALAR = parse_pipeline("fuse,schedule{vector-bytes=0},plan,lower")


def cases() -> Iterator[Any]:
    """Every sample of every operation that is lowered."""
    for defn in OPS.values():
        if "tensor" not in defn.levels or defn.form in ("structural", "extern"):
            continue
        for n, sample in enumerate(defn.samples()):
            result = defn.infer(*sample.types, **sample.attrs)
            types = [*sample.types, *(result if isinstance(result, tuple) else [result])]
            if all(t.dtype.kind != "complex" for t in types):
                yield pytest.param(defn, sample, id=f"{defn.name}-{n}")


def draw(rng: np.random.Generator, sample: Sample, index: int, type: TensorType) -> Any:
    """Values for one operand, from the sample's domain."""

    def bounds(pair: Any) -> Any:
        return pair[index] if isinstance(pair[0], tuple) else pair

    if type.dtype.is_floating:
        return rng.uniform(*bounds(sample.domain), type.static_shape).astype(type.dtype.numpy)
    if type.dtype.is_bool:
        return rng.random(type.static_shape) < 0.5
    return rng.integers(*bounds(sample.integers), type.static_shape).astype(type.dtype.numpy)


def program(defn: Op, sample: Sample, narrow: bool) -> tuple[Module, list[Any]]:
    """A function of one operation with its inputs; ``narrow`` in float32 instead of float64."""

    def chosen(type: TensorType) -> TensorType:
        return type.with_dtype(F32) if narrow and type.dtype == F64 else type

    rng = np.random.default_rng(0)
    function = Function("f", [chosen(t) for t in sample.types])
    attrs = {k: chosen(v) if isinstance(v, TensorType) else v for k, v in sample.attrs.items()}
    results = Builder(function.block).emit(defn, *function.args, **attrs)
    Builder(function.block).emit("return", *(results if isinstance(results, tuple) else [results]))
    arrays = [draw(rng, sample, i, chosen(t)) for i, t in enumerate(sample.types)]
    return Module([function]), arrays


@pytest.mark.parametrize("narrow", [True, False], ids=["f32", "f64"])
@pytest.mark.parametrize("vectors", [True, False], ids=["vector", "scalar"])
@pytest.mark.parametrize(("defn", "sample"), list(cases()))
def test_every_operation(defn: Op, sample: Sample, vectors: bool, narrow: bool) -> None:
    module, arrays = program(defn, sample, narrow)
    wanted = evaluate_module(module, arrays)
    lowered = clone_module(module)
    run_pipeline(lowered, LOWER if vectors else SCALAR)
    verify(lowered)
    for got, want in zip(evaluate_module(lowered, arrays), wanted, strict=True):
        assert got.dtype == want.dtype
        tolerance = 1e-5 if narrow else 1e-12
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
