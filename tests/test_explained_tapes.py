"""Random tapes: what is explained is what happens, before the gradient is asked for and after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from random_tapes import Run, Step, X, programs, start

import tapec
from tapec.explanations.explanation import Explanation


def explained(
    steps: Sequence[Step], compiled: str
) -> list[tuple[Explanation, tapec.Tensor | None, Explanation]]:
    """For each source what `explain` says, the gradient, and what `explain` says then."""
    run = Run(start(), compiles=compiled == "calls")
    told: list[Any] = []

    def function(x: Any) -> Any:
        return run.loss(steps, x)

    inner: Callable[..., Any] = tapec.compile(function) if compiled == "function" else function

    def step(x: Any) -> Any:
        sources = [x, *run.variables]
        with tapec.GradientTape() as tape:
            tape.watch(x)
            loss = inner(x)
        before = list(tape.explain(loss, sources))
        gradients = tape.gradient(loss, sources)
        told[:] = zip(before, gradients, tape.explain(loss, sources), strict=True)
        return loss

    (tapec.compile(step) if compiled == "step" else step)(tapec.constant(X))
    return told


@pytest.mark.parametrize("compiled", ["nothing", "calls", "function", "step"])
@given(steps=programs(depth=1, most=30))
@settings(max_examples=settings().max_examples // 20)
def test_an_explanation_says_what_happens(steps: tuple[Step, ...], compiled: str) -> None:
    for before, gradient, after in explained(steps, compiled):
        assert (before.cause == "connected") == (gradient is not None), before
        assert (after.cause == "connected") == (gradient is not None), after
        if gradient is None:
            assert before == after
            assert after.location is not None
            assert after.message
            assert after.remedy
