"""Random tapes of 5 to 60 lines: the eager gradient, the compiled ones and differences are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tapes import Outcome, Step, X, gradients, has_branches, programs, slope


def assert_equal(found: Outcome, wanted: Outcome, steps: tuple[Step, ...]) -> None:
    """Hold gradients and Variables to be the same; None where there is no path, taken or not."""
    for a, b in zip(found.gradients, wanted.gradients, strict=True):
        if a is None or b is None:
            other = b if a is None else a
            assert other is None or (has_branches(steps) and not other.any())
        else:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.variables, wanted.variables, rtol=1e-12)


@given(programs(), st.integers(0, 2**31))
@settings(max_examples=settings().max_examples * 2 // 5)
def test_eager_gradient_agrees_with_differences(steps: tuple[Step, ...], seed: int) -> None:
    outcome = gradients(steps)
    rng = np.random.default_rng(seed)
    direction = [rng.standard_normal(X.shape) for _ in outcome.gradients]
    flows = [
        float((g * d).sum())
        for g, d in zip(outcome.gradients, direction, strict=True)
        if g is not None
    ]
    found = slope(steps, outcome.log, direction)
    np.testing.assert_allclose(sum(flows), found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compiled", ["calls", "function", "step"])
@given(steps=programs())
@settings(max_examples=settings().max_examples // 12)
def test_compiled_gradient_is_the_eager_one(steps: tuple[Step, ...], compiled: str) -> None:
    assert_equal(gradients(steps, compiled), gradients(steps), steps)
