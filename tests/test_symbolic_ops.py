"""Every operation with a size that is known only at run time: one program, native and evaluated at several sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sampling import arrays, tensor_ops
from symbolic_samples import at, symbolic

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, clone_module
from tapec.ir.errors import TapecError, TargetError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import Op, Sample
from tapec.passes.observers import Check
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import Executable, compile_module

LOWER = parse_pipeline("pairs,fuse,schedule,plan,lower")
CASES = [
    pytest.param(defn, list(symbolic(defn)), id=defn.name)
    for defn in tensor_ops()
    if any(True for _ in symbolic(defn))
]
#: Operations whose loops are written for a length; their other axes may have any size.
NEED_LENGTHS = {"fft", "dft"}


def module_of(defn: Op, sample: Sample) -> Module:
    """A function of just the operation."""
    function = Function("f")
    b = Builder(function.block)
    made = b.emit(defn, *(function.block.add_arg(t) for t in sample.types), **sample.attrs)
    b.emit("return", *(made if isinstance(made, tuple) else (made,)))
    return Module([function])


def compiled(module: Module) -> tuple[Module, Executable]:
    """The loops of a module, checked after every pass, and its native code."""
    loops = clone_module(module)
    run_pipeline(loops, LOWER, [Check(1)])
    return loops, compile_module(loops)


def runs(module: Module, sample: Sample, sizes: list[int]) -> Iterator[tuple[int, Any, Any]]:
    """Sizes that the operation can have, with arrays and the results that they give."""
    for size in sizes:
        try:
            operands = arrays(at(sample, size))
            expected = evaluate_module(module, operands)
        except (TapecError, ValueError, IndexError):
            continue  # values that are drawn for one size alone, or a window that is too long
        yield size, operands, expected


@pytest.mark.parametrize(("defn", "samples"), CASES)
def test_one_program_for_all_sizes(defn: Op, samples: list[tuple[Sample, int]]) -> None:
    refused = 0
    for sample, size in samples:
        module = module_of(defn, sample)
        try:
            loops, executable = compiled(module)
        except TargetError as error:
            refused += "the size N" in error.message
            continue
        ran = 0
        for n, operands, expected in runs(module, sample, [size, size + 1, 2 * size + 17, 1]):
            found = executable(*operands)
            if n <= size:
                expected_loops = evaluate_module(loops, operands)
                found, expected = [*found, *expected_loops], [*expected, *expected]
            for a, b in zip(found, expected, strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
            ran += 1
        assert ran
    assert (refused > 0) == (defn.name in NEED_LENGTHS)
