"""Programs of every operation: they verify, print and parse back, and passes keep their meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from sampled_programs import Program, op_programs, ops_without_loops

from tapec.ir.compare import difference
from tapec.ir.core import clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline


def assert_close(expected: list[Any], found: list[Any]) -> None:
    for a, b in zip(expected, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        tolerance = 1e-4 if a.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


@given(program=op_programs())
def test_text_is_the_program(program: Program) -> None:
    module = program.module
    verify(module)
    text = print_module(module, full_constants=True)
    parsed = parse_module(text)
    assert difference(module, parsed) is None
    assert print_module(parsed, full_constants=True) == text


def check(program: Program, pipeline: str) -> None:
    """Passes keep the meaning of a program."""
    module = program.module
    with np.errstate(all="ignore"):
        expected = evaluate_module(module, program.arrays)
        changed = clone_module(module)
        run_pipeline(changed, parse_pipeline(pipeline))
        verify(changed)
        assert_close(expected, evaluate_module(changed, program.arrays))


@pytest.mark.parametrize("pipeline", ["canonicalize", "cse", "canonicalize,cse,dce"])
@settings(max_examples=settings().max_examples // 2)
@given(program=op_programs(ops_without_loops()))
def test_simpler_programs_mean_the_same(pipeline: str, program: Program) -> None:
    check(program, pipeline)


@pytest.mark.parametrize("pipeline", ["fuse", "fuse,schedule,plan,lower"])
@settings(max_examples=settings().max_examples // 2)
@given(program=op_programs())
def test_loops_mean_the_same(pipeline: str, program: Program) -> None:
    check(program, pipeline)
