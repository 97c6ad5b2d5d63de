"""Functions of a batch, compiled once: at every size they give what they give eagerly, gradients included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from sized_programs import (
    BATCH,
    COLUMN,
    PAIRS,
    ROW,
    STEPS,
    WIDTH,
    SizedProgram,
    sized_programs,
)

import tapec
from tapec.compiler import lowered
from tapec.ir.verifier import verify

SIZES = (6, 9, 1, 37)


def check(program: SizedProgram, bound: str) -> Any:
    """Compare compiled with eager at several sizes; return what was compiled."""
    run: Any = tapec.compile(program.gradients, dims={"x": (bound, WIDTH)})
    rng = np.random.default_rng(0)
    for n in SIZES:
        x = tapec.constant(rng.normal(size=(n, WIDTH)))
        w = tapec.constant(rng.normal(size=(WIDTH, WIDTH)))
        found: Any = run(x, w)
        expected: Any = program.gradients(x, w)
        for a, b in zip((*found[:2], *found[2]), (*expected[:2], *expected[2]), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)
    assert len(run.programs) == 1
    return run


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_each_step(number: int) -> None:
    kinds = STEPS[number][0]
    makers = {
        kind: next(n for n, step in enumerate(STEPS) if step[1] == kind and set(step[0]) == {BATCH})
        for kind in (COLUMN, ROW, PAIRS)
    }
    program, places = SizedProgram(), []
    for kind in kinds:
        if kind in makers:
            maker = makers[kind]
            program.steps.append((maker, (0,) * len(STEPS[maker][0])))
            places.append(1 + len(program.steps))
        else:
            places.append(0 if kind == BATCH else 1)
    program.steps.append((number, tuple(places)))
    run = check(program, "N")
    # A look for bad numbers takes another pipeline.
    verify(lowered(run.programs[0].module, pipeline="alarmed"))


@settings(max_examples=settings().max_examples // 4)
@given(sized_programs())
def test_random_functions(program: SizedProgram) -> None:
    check(program, "N<=40" if len(program.steps) % 2 else "N")
