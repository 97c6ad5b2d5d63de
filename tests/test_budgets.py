"""What budgets come to in programs that once were hard for them, and that finding out takes few plans."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import errors
from tapec.ir.core import Function
from tapec.passes import rematerialize
from tapec.passes.memory.footprint import Footprint, footprint

KERNELS = [k.astype(np.float32) / 6 for k in np.random.default_rng(0).normal(size=(8, 32, 32))]
ROWS = np.random.default_rng(1).normal(size=(64, 32)).astype(np.float32)

#: Compiles a program for a budget, and gives its arena and all that a call makes and changes.
Run = Callable[[int | float | None], tuple[int, list[bytes]]]


def least(run: Run) -> int:
    """The least budget that an error names."""
    with pytest.raises(errors.ResourceExhaustedError, match="can be met") as caught:
        run(1000)
    found = re.search(r"memory_budget=(\d+) can be met", str(caught.value))
    assert found is not None
    return int(found[1])


def counted(budget: int | float | None) -> tuple[int, list[bytes]]:
    """A train step whose layers all add to one Variable."""
    weights = [tapec.Variable(k) for k in KERNELS]
    total = tapec.Variable(0.0)

    @tapec.compile(memory_budget=budget)
    def step(x):  # type: ignore[no-untyped-def]
        with tapec.GradientTape() as tape:
            h = x
            for w in weights:
                h = tapec.tanh(h @ w)
                total.assign_add(tapec.reduce_sum(h))
            loss = tapec.reduce_mean(h**2)
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.1 * g)
        return loss

    loss: Any = step(ROWS)
    arena: Any = step.memory().arena
    return arena, [v.numpy().tobytes() for v in (loss, total, *weights)]


def test_what_sums_add_up_waits_for_no_other_sum() -> None:
    """All in one kernel, they would keep every layer; apart, three states and the sums are left."""
    plain, wanted = counted(None)
    smallest = least(counted)
    assert smallest <= 3 * ROWS.nbytes + 512 < plain / 2
    assert counted(smallest) == (smallest, wanted)


def test_no_plan_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A way that begins with another one goes on from what came of that."""
    plans: list[Function] = []

    def counting(function: Function) -> Footprint:
        plans.append(function)
        return footprint(function)

    monkeypatch.setattr(rematerialize, "footprint", counting)
    least(counted)
    assert len(plans) < 60
