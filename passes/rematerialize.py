"""Hold a function to a budget of memory: what does not fit is computed again.

The budget is the attribute ``memory_budget`` of the function: bytes of its arena, or a part of those that it takes
without (what these were, `tapec.passes.loops.checkpoint` tells if it cut loops). Sums of everything get kernels of
their own first: what one adds up then waits for no other. Ways to save are tried in the order of what they cost, and
the first that fits is taken: cheap operations again, then sums as well, then whole steps, with fewer and fewer states
kept (`tapec.passes.memory.recomputation`). What each takes is not guessed: a copy is fused and planned. If none fits,
all are tried again on what came out smallest, as long as that helps.

After `cse`, which would merge what is to be computed twice; it leaves what has the mark ``recompute`` apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tapec.ir.core import Function, Module, Operation, Value, clone_function
from tapec.ir.dims import typical
from tapec.ir.errors import BudgetError
from tapec.passes import dce
from tapec.passes.fusion.grouping import SUMS_APART
from tapec.passes.memory.footprint import Footprint, footprint
from tapec.passes.memory.least import least_bytes
from tapec.passes.memory.recomputation import (
    Parts,
    is_cheap,
    is_no_product,
    repeat_cheap,
    repeat_steps,
    steps_of,
)

#: Values that an error names.
_NAMED = 6
#: Steps below which none of their states need be kept.
_FEW = 24


def run(module: Module, options: object = None) -> bool:
    """Hold every function that has a budget to it.

    Raises:
        BudgetError: there is no way that fits.
    """
    changed = False
    for name, function in list(module.functions.items()):
        budget = function.attrs.get("memory_budget")
        if budget is not None:
            found = _within(function, budget)
            changed |= found is not function
            module.functions[name] = found
    return changed


@dataclass
class _Attempt:
    """What a way made of a function."""

    function: Function
    footprint: Footprint


def _within(function: Function, budget: float) -> Function:
    """The function, or a copy that computes some values again."""
    plain = footprint(function)
    if plain.is_open and isinstance(budget, int):
        raise BudgetError(
            f"{function.name} has sizes that only a call tells, so its memory has no bound to compare with a "
            f"memory_budget of {budget:,} bytes",
            hint='declare a bound, dims={"x": ("N<=128", 784)}, or give the budget as a part, memory_budget=0.5',
        )
    most = function.attrs.get("budget_bytes", limit(budget, plain))
    found = _saving(_Attempt(function, plain), most)
    if found.footprint.arena > most:
        raise _too_small(function, budget, most, found.footprint)
    return found.function


def fits(function: Function, most: int) -> bool:
    """Whether there is a way to take no more than so many bytes."""
    return _saving(_Attempt(function, footprint(function)), most).footprint.arena <= most


def _saving(plain: _Attempt, most: int) -> _Attempt:
    """What the first way makes that takes no more than ``most`` bytes, or that which takes least if none does."""
    if plain.footprint.arena <= most:
        return plain
    best, last = _with_sums_apart(plain.function), None
    while best is not last and best.footprint.arena > most:
        # What needs least so far may have another peak, around which the same ways save more.
        last = best
        for start in (last, _in_order(last)):
            tried = _Tries(start, best, most)
            found = _saved(tried)
            if found is not None:
                return found
            best = tried.best
    return best


def _with_sums_apart(function: Function) -> _Attempt:
    """A copy in which what one sum adds up needs not wait for another sum."""
    copy = clone_function(function)
    copy.attrs[SUMS_APART] = True
    return _Attempt(copy, footprint(copy))


def _in_order(attempt: _Attempt) -> _Attempt:
    """A copy whose operations are in the order of the kernels that compute them first."""
    turns = attempt.footprint.turns
    order = sorted(range(len(turns)), key=lambda i: (turns[i], i))
    copy = clone_function(attempt.function)
    copy.block.ops = [copy.block.ops[i] for i in order]
    return _Attempt(copy, footprint(copy))


def _saved(tried: _Tries) -> _Attempt | None:
    """What the first of all ways makes that fits."""
    return (
        tried.first([_Way(may=is_cheap)])
        or tried.first([_Way(may=is_no_product)])
        or _by_states(tried, tried.steps - 1)
    )


def _by_states(tried: _Tries, states: int) -> _Attempt | None:
    """A copy with as many states kept as there is room for."""
    numbers = [states >> shift for shift in range(states.bit_length())]
    if 0 < states < _FEW:
        numbers.append(0)
    low, high = -1, states + 1
    for number in numbers:
        if tried.first([_Way(number)]) is not None:
            low = number
            break
        high = number
    if low < 0:
        return tried.first([_Way(number, is_cheap) for number in numbers])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tried.first([_Way(middle)]) else (low, middle)
    return tried.first([_Way(low)])


class _Way(NamedTuple):
    """A way to save memory.

    Attributes:
        slots: the states between steps to keep; None if no steps are to run again.
        may: which operations run again after that, if any.
    """

    slots: int | None = None
    may: Callable[[Operation], bool] | None = None


class _Tries:
    """Tries ways to save memory on copies of a function.

    Attributes:
        best: what takes least of all that was tried.
        steps: the number of steps of the function.
    """

    def __init__(self, start: _Attempt, best: _Attempt, most: int) -> None:
        """Copy ``start``; ``most`` bytes may be taken; ``best`` takes least so far."""
        self.best, self._most = best, most
        before = list(start.function.block.ops)
        self.steps = len(steps_of(Parts(start.function, start.footprint)))
        if start.function.block.ops != before:
            start = _Attempt(start.function, footprint(start.function))
        #: What came of each way; plans take most of the time, so none is made twice.
        self._made = {_Way(): start}

    def first(self, ways: Sequence[_Way]) -> _Attempt | None:
        """What the first way makes that fits; None if none does."""
        for way in ways:
            attempt = self._attempt(way)
            if attempt.footprint.arena < self.best.footprint.arena:
                self.best = attempt
            if attempt.footprint.arena <= self._most:
                return attempt
        return None

    def _attempt(self, way: _Way) -> _Attempt:
        """What comes of a way: that which comes of its first part, with its last part done as well."""
        if way not in self._made:
            before = self._attempt(_Way() if way.may is None else way._replace(may=None))
            copy = clone_function(before.function)
            parts = Parts(copy, before.footprint.of_copy(before.function, copy))
            if way.may is not None:
                repeat_cheap(parts, way.may)
            elif way.slots is not None:
                repeat_steps(parts, steps_of(parts), way.slots)
            dce.sweep(copy.block)
            self._made[way] = _Attempt(copy, footprint(copy))
        return self._made[way]


def limit(budget: float, plain: Footprint) -> int:
    """A budget in bytes; a float is a part of what a program takes without."""
    return budget if isinstance(budget, int) else int(budget * plain.arena)


def _too_small(function: Function, budget: float, most: int, best: Footprint) -> BudgetError:
    """The error, with the smallest budget, the lines that own it, and what can be proven of any other.

    ``function`` is what was to be held to it; ``most`` bytes are what the budget comes to.
    """
    lines = [_line(value) for value in best.alive[:_NAMED]]
    if len(best.alive) > _NAMED:
        rest = sum(typical(v.tensor.bytes) for v in best.alive[_NAMED:])
        lines.append(f"  {rest:>14,} bytes in {len(best.alive) - _NAMED} more")
    largest = next((v.op.location for v in best.alive if v.op is not None), None)
    if best.is_open:  # bytes would be refused; what they come to is a guess
        least = (
            f"{min(1.0, math.ceil(1000 * budget * best.arena / max(most, 1)) / 1000)} can be met"
        )
        note = "; bytes are those of sizes such as calls often have"
    else:
        least, note = f"{best.arena} can be met, {_proof(function, best.arena)}", ""
    return BudgetError(
        f"{function.name} cannot run within a memory_budget of {most:,} bytes: "
        f"the least that was found is {best.arena:,}, of which\n" + "\n".join(lines),
        location=largest,
        hint=f"memory_budget={least}; smaller batches take less{note}",
    )


def _proof(function: Function, found: int) -> str:
    """What is certain of smaller budgets."""
    bound, op = least_bytes(function)
    if bound == found:
        return "which is proven to be the least"
    place = None if op is None else op.location
    needed = "" if place is None else f", for {place.file}:{place.line}"
    return f"and none below {bound:,} can{needed}"


def _line(value: Value) -> str:
    """A value and the line that makes it."""
    place = None if value.op is None else value.op.location
    where = "" if place is None else f"  {place.describe()}"
    return f"  {typical(value.tensor.bytes):>14,} bytes  {value.type}{where}"
