"""What budgets come to in programs that once were hard for them, and that finding out takes few plans."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_aot import HOST, load

import tapec
from tapec import aot, errors
from tapec.ir.core import Function
from tapec.passes import rematerialize
from tapec.passes.memory.footprint import Footprint, footprint

Array = Any
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


def exchanged(budget: int | float | None) -> tuple[int, list[bytes]]:
    """Two Variables that take each other's place: all of the arena is a copy that the plan makes."""
    a, b = (tapec.Variable(k) for k in KERNELS[:2])

    @tapec.compile(memory_budget=budget)
    def step():  # type: ignore[no-untyped-def]
        old = a.read_value()
        a.assign(b)
        b.assign(old)

    step()
    arena: Any = step.memory().arena
    return arena, [v.numpy().tobytes() for v in (a, b)]


def test_what_no_kernel_takes_ends_the_search() -> None:
    """However little room kernels have, they fit, and nothing is saved."""
    plain, wanted = exchanged(None)
    assert least(exchanged) == plain
    assert exchanged(plain) == (plain, wanted)


#: Ways to run what was planned for a budget.
WAYS: dict[str, dict[str, Any]] = {
    "native": {},
    "numba": {"engine": "numba"},
    "cuda": {"target": "cuda", "engine": "simulator"},
    "evaluated": {"jit": False},
}
FEW = ROWS[:33, :6]


def small(budget: float | None, **way: Any) -> tuple[Any, list[tapec.Variable]]:
    """A train step of a few small layers, and what it updates in place: how many steps there were, and weights."""
    weights = [tapec.Variable(k[:6, :6], name=f"w{i}") for i, k in enumerate(KERNELS[:5])]
    count = tapec.Variable(0, name="count")

    @tapec.compile(memory_budget=budget, **way)
    def step(x):  # type: ignore[no-untyped-def]
        count.assign_add(1)
        with tapec.GradientTape() as tape:
            h = x
            for w in weights:
                h = tapec.tanh(h @ w)
            loss = tapec.reduce_mean(h**2)
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.1 * g)
        return loss

    return step, [count, *weights]


def trained(budget: float | None, **way: Any) -> tuple[int, list[bytes]]:
    """Two of these steps."""
    step, state = small(budget, **way)
    losses = [step(FEW) for _ in range(2)]
    return step.memory().arena, [v.numpy().tobytes() for v in (*losses, *state)]


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_to_run_obey_budgets(way: str) -> None:
    """The arena is smaller, and the losses and the state are the same to the bit."""
    plain, wanted = trained(None, **WAYS[way])
    arena, found = trained(0.7, **WAYS[way])
    assert arena <= 0.7 * plain
    assert found == wanted


def test_libraries_obey_budgets(tmp_path: Path) -> None:
    """Built ahead of time for the processor that runs this, a step has the bits that it has without a budget."""
    _, wanted = trained(None)
    arenas = []
    for budget in (None, 0.7):
        step, _ = small(budget)
        built = aot.build(step, [tapec.TensorSpec(FEW.shape)], target=HOST, emit="so", name="net")
        arenas.append(built.arena_bytes)
        folder = tmp_path / str(
            budget
        )  # of its own: who loads the same path twice gets the first library again
        built.write(folder)
        net = load(folder)
        held = net["initial_state"]()
        found = [net["step"](held, FEW) for _ in range(2)]
        found += [getattr(held, key) for key in ("count", *(f"w{i}" for i in range(5)))]
        assert [np.asarray(f).tobytes() for f in found] == wanted
    assert arenas[1] <= 0.7 * arenas[0]


def penalty(
    budget: int | float | None, kernels: Sequence[Array] = KERNELS[:3]
) -> tuple[int, list[bytes]]:
    """A penalty of the gradient of a few layers: their values are read on the way back, and on the way back of that."""
    weights = [tapec.Variable(k) for k in kernels]

    @tapec.compile(memory_budget=budget)
    def gradients(x):  # type: ignore[no-untyped-def]
        with tapec.GradientTape() as outer:
            with tapec.GradientTape() as tape:
                tape.watch(x)
                h = x
                for w in weights:
                    h = tapec.tanh(h @ w)
                size = tapec.reduce_mean(h**2)
            loss = tapec.reduce_mean(tape.gradient(size, x) ** 2)
        return outer.gradient(loss, weights)

    found = gradients(tapec.constant(ROWS[:, : len(kernels[0])]))
    arena: Any = gradients.memory().arena
    return arena, [g.numpy().tobytes() for g in found]


def test_gradients_of_gradients_run_again_what_was_given_up() -> None:
    plain, wanted = penalty(None)
    arena, found = penalty(0.8)
    assert arena <= 0.8 * plain
    assert found == wanted
