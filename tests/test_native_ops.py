"""Every operation in native code: the evaluator's results, for every dtype, at the edges too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs_of_ops import (
    ELEMENTWISE,
    Program,
    assert_close,
    edge_program,
    sample_program,
)
from sampling import retyped, tensor_ops

from tapec.ir.core import Module
from tapec.ir.errors import DTypeError
from tapec.ir.op import OPS, Elementwise, Op
from tapec.ir.types import (
    BF16,
    C64,
    C128,
    F16,
    F32,
    F64,
    I32,
    DType,
    TensorType,
)
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

LOWER = parse_pipeline("pairs,fuse,schedule,plan,lower")


def native(module: Module) -> Any:
    """Code for this machine."""
    run_pipeline(module, LOWER)
    executable = compile_module(module)
    assert executable.kernels > 0
    return executable


@pytest.mark.parametrize("defn", tensor_ops(), ids=lambda defn: defn.name)
def test_samples(defn: Op) -> None:
    for found, expected in sample_program(defn).run(native):
        assert_close(found, expected, ulps=16)


@pytest.mark.parametrize("defn", ELEMENTWISE, ids=lambda defn: defn.name)
def test_edges(defn: Elementwise) -> None:
    program = edge_program(defn)
    if program.results:
        for found, expected in program.run(native):
            assert_close(found, expected, ulps=64)


@pytest.mark.parametrize("dtype", [C128, C64], ids=str)
@pytest.mark.parametrize("defn", ELEMENTWISE, ids=lambda defn: defn.name)
def test_complex_edges(defn: Elementwise, dtype: DType) -> None:
    """Poles, and both sides of branch cuts, which the sign of a zero tells."""
    parts = np.array([0.0, 0.3, 1.0, 2.0, 7.5, -0.0, -0.3, -1.0, -2.0, -7.5])
    values = OPS["complex"].evaluate(np.repeat(parts, 10), np.tile(parts, 10)).astype(dtype.numpy)
    operands = [np.roll(np.repeat(values, 30), 31 * n) for n in range(defn.arity)]
    try:
        defn.infer(*(TensorType(dtype, a.shape) for a in operands))
    except (DTypeError, KeyError):
        return  # it takes no complex numbers, or says itself what it makes of them
    program = Program()
    program.add(defn, operands, {})
    for found, expected in program.run(native):
        known = np.isfinite(expected)
        assert known.any()
        assert_close(found[known], expected[known], ulps=64)


def test_uniform_numbers_are_equal_to_the_bit() -> None:
    """Rows that cut blocks, rows of whole blocks, vectors of them and what is left over."""
    program = Program()
    for defn in tensor_ops():
        if defn.name in ("random_uniform", "random_bits"):
            for dtype in (F64, F32, F16, BF16, I32):
                sample = next(iter(defn.samples()))
                variant = retyped(defn, sample, dtype)
                if variant is None:
                    continue
                for shape in ((37, 5), (3, 12), (5, 192), (141,)):
                    attrs = {"type": variant.attrs["type"].with_shape(shape)}
                    program.add(defn, [np.array([2**63 + 9, 2**40 + 1], np.uint64)], attrs)
    for found, expected in program.run(native):
        np.testing.assert_array_equal(found, expected)
