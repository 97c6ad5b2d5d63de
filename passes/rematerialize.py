"""Hold a function to a budget of memory: what does not fit is computed again.

The budget is the attribute ``memory_budget`` of the function: bytes of its arena, or a part of those that it takes
without (what these were, `tapec.passes.loops.checkpoint` tells if it cut loops). Sums of everything get kernels of
their own first: what one adds up then waits for no other. Ways to save are tried in the order of what they cost, and
the first that fits is taken: cheap operations again, then sums as well, then whole steps, with fewer and fewer states
kept (`tapec.passes.memory.recomputation`), and at last single kernels (`tapec.passes.memory.eviction`). What each
takes is not guessed: a copy is fused and planned. If none fits, all are tried again on what came out smallest, as
long as that helps, and before much was planned.

After `cse`, which would merge what is to be computed twice; it leaves what has the mark ``recompute`` apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tapec.ir.core import Function, Module, Operation, clone_function
from tapec.ir.errors import BudgetError
from tapec.passes import dce
from tapec.passes.fusion.grouping import SUMS_APART
from tapec.passes.memory.eviction import with_reruns
from tapec.passes.memory.footprint import Footprint, Occupant, footprint
from tapec.passes.memory.least import Least, least_bytes
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
#: What is left of the room for kernels that run again, when it is made less for the first time; then twice as much goes
#: each time. What a plan copies at the end is none of theirs, so they may fit into no room at all.
_SHRUNK, _SHRINKS = 0.985, 9
#: Operations that are planned, of all that is tried, before no other round of tries begins.
_MOST_PLANNED = 12_000


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


@dataclass(eq=False)
class _Attempt:
    """What a way made of a function."""

    function: Function
    footprint: Footprint

    @cached_property
    def least(self) -> Least:
        """What the function takes at least, whatever is done."""
        return least_bytes(self.function)


def _within(function: Function, budget: float) -> Function:
    """The function, or a copy that computes some values again."""
    plain = _Attempt(function, footprint(function))
    if plain.footprint.is_open and isinstance(budget, int):
        raise BudgetError(
            f"{function.name} has sizes that only a call tells, so its memory has no bound to compare with a "
            f"memory_budget of {budget:,} bytes",
            hint='declare a bound, dims={"x": ("N<=128", 784)}, or give the budget as a part, memory_budget=0.5',
        )
    most = function.attrs.get("budget_bytes", limit(budget, plain.footprint))
    found = _saving(plain, most)
    if found.footprint.arena > most:
        raise _too_small(plain, budget, most, found.footprint)
    return found.function


def fits(function: Function, most: int) -> bool:
    """Whether there is a way to take no more than so many bytes."""
    return _saving(_Attempt(function, footprint(function)), most).footprint.arena <= most


def _saving(plain: _Attempt, most: int) -> _Attempt:
    """What the first way makes that takes no more than ``most`` bytes, or that which takes least if none does."""
    if plain.footprint.arena <= most:
        return plain
    tried, last = _Tries(_with_sums_apart(plain.function), most), None
    while tried.best is not last and tried.planned < _MOST_PLANNED:
        # What needs least so far may have another peak, around which the same ways save more.
        last = tried.best
        for ways, start in (
            (_saved, last),
            (_saved, _in_order(last)),
            (_by_eviction, None),
            (_by_eviction, last),
        ):
            found = ways(tried, start or tried.best)
            if found is not None:
                return found
            if tried.best.footprint.arena <= plain.least.bytes:
                return tried.best
    return tried.best


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


def _saved(tried: _Tries, start: _Attempt) -> _Attempt | None:
    """What the first of all ways makes that fits."""
    tried.begin_in_steps(start)
    return (
        tried.first([_Way(may=is_cheap)])
        or tried.first([_Way(may=is_no_product)])
        or _by_states(tried, tried.steps - 1)
    )


def _by_eviction(tried: _Tries, start: _Attempt) -> _Attempt | None:
    """A copy whose kernels run again, for which less and less room is reckoned with.

    What takes least of these has another peak, so the same is done to that.
    """
    while start not in tried.evicted:
        tried.begin(start)
        tried.evicted.add(start)
        found = tried.first(_Way(shrinks=number) for number in range(1, _SHRINKS + 1))
        if found is not None or tried.planned >= _MOST_PLANNED:
            return found
        start = tried.least
    return None


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
        # Where few states are kept, cheap operations save little more.
        return tried.first(_Way(number, is_cheap) for number in numbers[:2])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tried.first([_Way(middle)]) else (low, middle)
    return tried.first([_Way(low)])


class _Way(NamedTuple):
    """A way to save memory.

    Attributes:
        slots: the states between steps to keep; None if no steps are to run again.
        may: which operations run again after that, if any.
        shrinks: how often room was made less for kernels that run again; 0 if none is to.
    """

    slots: int | None = None
    may: Callable[[Operation], bool] | None = None
    shrinks: int = 0


class _Tries:
    """Tries ways to save memory on copies of a function.

    Attributes:
        best: what takes least of all that was tried.
        planned: operations of all functions that were planned for it.
        evicted: that with which ways have begun that let kernels run again.
        steps: the number of steps of the function that ways begin with.
    """

    def __init__(self, best: _Attempt, most: int) -> None:
        """``most`` bytes may be taken; ``best`` takes least so far."""
        self.best, self._most = best, most
        self.planned = self.steps = 0
        self.evicted: set[_Attempt] = set()
        #: What came of each way; plans take most of the time, so none is made twice.
        self._made: dict[_Way, _Attempt | None] = {}

    def begin(self, start: _Attempt) -> None:
        """Let ways begin with a function."""
        self._made = {_Way(): start}

    def begin_in_steps(self, start: _Attempt) -> None:
        """Let ways begin with a function that is put in the order of its steps."""
        copy = clone_function(start.function)
        before = list(copy.block.ops)
        self.steps = len(steps_of(Parts(copy, start.footprint.of_copy(start.function, copy))))
        self._made = {_Way(): start if copy.block.ops == before else self._planned(copy)}

    @property
    def least(self) -> _Attempt:
        """What takes least of what ways have made since they began with a function, or that itself."""
        made = [attempt for attempt in self._made.values() if attempt is not None]
        return min(made, key=lambda attempt: attempt.footprint.arena)

    def _planned(self, function: Function) -> _Attempt:
        self.planned += len(function.block.ops)
        return _Attempt(function, footprint(function))

    def first(self, ways: Iterable[_Way]) -> _Attempt | None:
        """What the first way makes that fits; None if none does before there is a way that leads nowhere."""
        for way in ways:
            attempt = self._attempt(way)
            if attempt is None:
                break
            if attempt.footprint.arena < self.best.footprint.arena:
                self.best = attempt
            if attempt.footprint.arena <= self._most:
                return attempt
        return None

    def _attempt(self, way: _Way) -> _Attempt | None:
        """What comes of a way, or None if it leads nowhere."""
        if way not in self._made:
            made = self._changed(way)
            self._made[way] = None if made is None else self._planned(made)
        return self._made[way]

    def _changed(self, way: _Way) -> Function | None:
        """What comes of the first part of a way, with its last part done as well."""
        before = self._attempt(_Way() if way.may is None else way._replace(may=None))
        assert before is not None
        if way.shrinks:
            room = int(before.footprint.arena * _SHRUNK ** (1 << way.shrinks - 1))
            return with_reruns(before.function, before.footprint.kernels, room)
        copy = clone_function(before.function)
        parts = Parts(copy, before.footprint.of_copy(before.function, copy))
        if way.may is not None:
            repeat_cheap(parts, way.may)
        elif way.slots is not None:
            repeat_steps(parts, steps_of(parts), way.slots)
        dce.sweep(copy.block)
        return copy


def limit(budget: float, plain: Footprint) -> int:
    """A budget in bytes; a float is a part of what a program takes without."""
    return budget if isinstance(budget, int) else int(budget * plain.arena)


def _too_small(plain: _Attempt, budget: float, most: int, best: Footprint) -> BudgetError:
    """The error, with the smallest budget, the lines that own it, and what can be proven of any other.

    ``plain`` is what was to be held to it; ``most`` bytes are what the budget comes to.
    """
    lines = [_line(part) for part in best.alive[:_NAMED]]
    if len(best.alive) > _NAMED:
        rest = sum(part.bytes for part in best.alive[_NAMED:])
        lines.append(f"  {rest:>14,} bytes in {len(best.alive) - _NAMED} more")
    largest = next((part.line for part in best.alive if part.line is not None), None)
    if best.is_open:  # bytes would be refused; what they come to is a guess
        least = (
            f"{min(1.0, math.ceil(1000 * budget * best.arena / max(most, 1)) / 1000)} can be met"
        )
        note = "; bytes are those of sizes such as calls often have"
    else:
        least, note = f"{best.arena} can be met, {_proof(plain.least, best.arena)}", ""
    return BudgetError(
        f"{plain.function.name} cannot run within a memory_budget of {most:,} bytes: "
        f"the least that was found is {best.arena:,}, of which\n" + "\n".join(lines),
        location=largest,
        hint=f"memory_budget={least}; smaller batches take less{note}",
    )


def _proof(least: Least, found: int) -> str:
    """What is certain of smaller budgets."""
    bound, op = least
    if bound == found:
        return "which is proven to be the least"
    place = None if op is None else op.location
    needed = "" if place is None else f", for {place.file}:{place.line}"
    return f"and none below {bound:,} can{needed}"


def _line(part: Occupant) -> str:
    """What is in memory, and the line that makes it."""
    where = "" if part.line is None else f"  {part.line.describe()}"
    return f"  {part.bytes:>14,} bytes  {part.type}{where}"
