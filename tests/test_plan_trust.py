"""Plans can be trusted: faults are noticed by code that knows no planner, and freed bytes are never read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from random_plans import BACK, FRONT, outcomes, planned, program

import tapec
from tapec import config, errors
from tapec.compiler import lowered
from tapec.ir.core import Function, Module, Operation, clone_module
from tapec.ir.errors import PassError
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.ir.parser import parse_module
from tapec.ir.placement import Lifetime, Place, lifetimes, parse_place
from tapec.ir.verifier import verify
from tapec.passes.memory.arena.check import check_plan
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

#: Programs in a test; `tests/random_plans.py` takes any number.
BATCH = 50


@pytest.mark.parametrize(
    ("start", "native"),
    [(0, True), (15, True), *((start, False) for start in range(30, 180, BATCH))],
)
def test_random_programs_give_the_same_bits(start: int, native: bool) -> None:
    """With a planner, without one, and with all free bytes poisoned."""
    for seed in range(start, start + (15 if native else BATCH)):
        found = outcomes(program(seed), seed, native=native)
        assert found["on"] == found["off"] == found["poisoned"], f"program {seed}"


# ---- faults

#: Spoils a planned function in a way that is surely wrong.
Fault = Callable[[], object]


def set_place(op: Operation, index: int, place: Place) -> None:
    """Move a result."""
    places = list(op.attrs["place"])
    places[index] = str(place)
    op.attrs["place"] = tuple(places)


def faults(function: Function) -> Iterator[Fault]:
    """Everything of a few kinds that can be spoilt."""
    found = lifetimes(function)
    arena: int = function.attrs["arena"]
    for new in found:
        size, op, index = new.value.tensor.bytes, new.op, new.value.index
        if op is None or not isinstance(size, int) or not size:
            continue
        yield from moved(new, op, found)
        if new.place.kind == "arena":
            yield partial(set_place, op, index, _by(new.place, 4))
            yield partial(set_place, op, index, Place("arena", -64))
            assert isinstance(new.place.number, int)
            if new.place.number + size > arena - 64:
                yield partial(function.attrs.update, arena=arena - 64)
        elif new.place.kind == "result":
            yield partial(set_place, op, index, Place("arena", 0))
    for op in function.block.ops:
        if isinstance(op.defn, RegionOp):
            for i in op.defn.overwritten(op):
                yield partial(set_place, op, i, _elsewhere(op, i))


def moved(new: Lifetime, op: Operation, found: list[Lifetime]) -> Iterator[Fault]:
    """Over what is read later, and over what the kernel reads while it writes, but not element by element."""
    for old in found:
        size = old.value.tensor.bytes
        if old is new or not isinstance(size, int) or not size or old.place.kind != "arena":
            continue
        if old.first < new.first < old.last and old.place != new.place:
            yield partial(set_place, op, new.value.index, old.place)
        if old.first < new.first == old.last and old.value in op.operands and size > 64:
            yield partial(set_place, op, new.value.index, _by(old.place, 64))


def _by(place: Place, bytes: int) -> Place:
    return Place("arena", place.number + bytes)


def _elsewhere(op: Operation, index: int) -> Place:
    """Another place than the one where a result is."""
    now = parse_place(op.attrs["place"][index])
    return Place("arena", 64 if now == Place("arena", 0) else 0)


def test_seeded_faults_are_caught() -> None:
    """One in each of a hundred programs, of all kinds; without it, the program passes."""
    rng = np.random.default_rng(0)
    caught = seed = 0
    while caught < 100:
        module = front(program(seed), "plan")
        seed += 1
        check_plan(module)
        possible = list(faults(module.entry))
        if not possible:
            continue
        possible[rng.integers(len(possible))]()
        with pytest.raises(PassError, match="the plan is wrong"):
            check_plan(module)
        caught += 1


def front(module: Module, last: str) -> Module:
    """A copy as far as the plan."""
    copy = clone_module(module)
    run_pipeline(copy, parse_pipeline(f"{FRONT},{last}"))
    return copy


def test_what_is_not_read_in_place_is_not_written_over() -> None:
    """A product reads all of a row for each element, so it cannot replace an operand."""
    module = front(
        parse_module(
            "func @f(%x: f32[4,4]) -> f32[4,4] {\n  %0 = tanh %x : f32[4,4]\n"
            "  %1 = matmul %0, %x : f32[4,4]\n  %2 = matmul %1, %x : f32[4,4]\n  return %2\n}\n"
        ),
        "plan",
    )
    check_plan(module)
    first, second = module.entry.block.ops[:2]
    assert second.operands[0] is first.result
    second.attrs["place"] = first.attrs["place"]
    with pytest.raises(PassError, match="while it reads that"):
        check_plan(module)


def test_checks_look_at_every_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that gives everything one place is found out under TAPEC_CHECK."""
    monkeypatch.setenv("TAPEC_CHECK", "1")
    monkeypatch.setattr(
        "tapec.passes.plan.place", lambda intervals: (dict.fromkeys(intervals, 0), 1 << 20)
    )

    @tapec.compile
    def step(x):  # type: ignore[no-untyped-def]
        y = tapec.tanh(x) @ x
        return (y @ x) @ tapec.sin(y)

    with pytest.raises(PassError):
        step(tapec.ones([8, 8]))


# ---- poison


def test_poison_shows_what_is_read_too_late() -> None:
    """A value moved to bytes that are free by then turns into NaN."""
    module = parse_module(
        "func @f(%x: f32[8,8]) -> f32[8,8] {\n  %0 = matmul %x, %x : f32[8,8]\n"
        "  %1 = matmul %0, %x : f32[8,8]\n  %2 = matmul %1, %x : f32[8,8]\n"
        "  %3 = matmul %2, %0 : f32[8,8]\n  return %3\n}\n"
    )
    wrong = front(module, "plan,poison")
    last = [op for op in wrong.entry.block.ops if op.operands and isinstance(op.defn, KernelOp)][-1]
    first = next(op for op in wrong.entry.block.ops if op.operands)
    # As if the second product, which nobody needs any more, were read instead of the first.
    second = last.operands[0].op
    assert second is not None
    freed = second.operands[0]
    last.set_operand(1, freed)
    assert first.result is not freed
    run_pipeline(wrong, parse_pipeline("lower"))
    native = compile_module(wrong, threads=1, cache=None, key=None, apart=True)
    (result,) = native(np.eye(8, dtype=np.float32))
    assert np.isnan(result).all()


@pytest.mark.parametrize("setting", [("TAPEC_POISON", "1"), ("TAPEC_CHECK", "2")])
def test_poisoned_steps_compute_the_same(
    setting: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def results() -> list[bytes]:
        w = tapec.Variable(tapec.eye(6) * 0.5)

        @tapec.compile
        def step(x):  # type: ignore[no-untyped-def]
            with tapec.GradientTape() as tape:
                loss = tapec.reduce_sum(tapec.tanh(tapec.tanh(x @ w) @ w) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        x = tapec.reshape(tapec.range(24.0), [4, 6]) / 24
        found = [step(x).numpy().tobytes() for _ in range(3)]
        kernels.append(
            len(lowered(step.ir(), "poison" if config.poison() else "plan").entry.block.ops)
        )
        return [*found, w.numpy().tobytes()]

    kernels: list[int] = []
    plain = results()
    monkeypatch.setenv(*setting)
    assert results() == plain
    assert kernels[1] > kernels[0]


def test_poison_is_written_between_kernels() -> None:
    for seed in range(20):
        module = front(program(seed), "plan,poison")
        verify(module)
        fills = [op for op in module.entry.block.ops if not op.operands and "place" in op.attrs]
        assert bool(fills) == (module.entry.attrs["arena"] != 0)
        check_plan(module)


def test_without_reuse_nothing_shares_bytes() -> None:
    assert set(BACK) == {"on", "off", "poisoned"}
    for seed in range(20):
        on, off = (
            planned(program(seed), mode).entry.attrs.get("arena", 0) for mode in ("on", "off")
        )
        assert on <= off


# ---- no memory


def test_out_of_memory_changes_no_variable() -> None:
    """The arena is asked for before anything is written, though an assignment stands first."""
    count, total = tapec.Variable(1.0), tapec.Variable(0.0)

    @tapec.compile
    def step(a, b):  # type: ignore[no-untyped-def]
        count.assign_add(1.0)
        product = a @ b
        total.assign(tapec.reduce_sum(tapec.matmul(product, b, transpose_b=True)))

    column, row = tapec.ones([10**7, 1]), tapec.ones([1, 10**7])
    with pytest.raises(
        errors.ResourceExhaustedError, match=r"takes 400,0.* bytes beside"
    ) as caught:
        step(column, row)
    assert "no Variable was changed" in str(caught.value)
    assert (count.numpy(), total.numpy()) == (1.0, 0.0)
    step(tapec.ones([2, 1]), tapec.ones([1, 2]))
    assert (count.numpy(), total.numpy()) == (2.0, 4.0)
