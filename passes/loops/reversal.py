"""How to go back through a chain of steps with few of its states at hand: the fewest steps that are run again.

Step number i takes state i - 1 to state i; going back through it needs state i - 1. State 0 is always there, so many
others as there are slots may be kept, and what is not kept is computed again from the nearest one before it. The best
way keeps some state m, goes back through the steps behind it with one slot less, then through those before it.

All of this is in closed form. With s slots, chains of up to `longest` (s + 1, r) = (s + 1 + r)! / ((s + 1)! r!) steps
need no step more than r times (Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse
automatic differentiation", 1992); how many runs that makes, and which states are best, is in Griewank and Walther,
"Algorithm 799: revolve", ACM TOMS 26 (2000), propositions 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import comb
from typing import Literal, NamedTuple


class Action(NamedTuple):
    """``advance`` from one state to a later one; ``keep`` a state or ``forget`` it; go ``back`` through a step."""

    kind: Literal["advance", "keep", "forget", "back"]
    first: int
    last: int


def longest(states: int, runs: int) -> int:
    """The longest chain whose steps run so many times at most, with room for ``states`` beside the first one."""
    return comb(states + runs, states) if runs >= 0 else 0


def repetitions(steps: int, states: int) -> int:
    """How often a step is run at most; ``states`` is at least 1: where one that is on its way is kept as well."""
    runs, length = 0, 1
    while length < steps:
        runs += 1
        length = length * (states + runs) // runs
    return runs


def advances(steps: int, slots: int) -> int:
    """How many steps are run forwards at least, those of the way there among them.

    Not counted is what going back through a step computes of that step itself.
    """
    if steps <= 1:
        return 0
    runs = repetitions(steps, slots + 1)
    return runs * steps - comb(slots + 1 + runs, runs - 1)


def state_to_keep(steps: int, slots: int) -> int:
    """Which state to keep first, of so many steps: of the best ones the last, so that there are few parts."""
    states = slots + 1
    runs = repetitions(steps, states)
    return min(longest(states, runs - 1), steps - longest(states - 1, runs - 1))


def actions(steps: int, slots: int, first: int = 0) -> Iterator[Action]:
    """What to do, one after the other, to go back through so many steps behind a state that is kept."""
    if steps == 1:
        yield Action("back", first + 1, first + 1)
    elif steps and slots:
        kept = first + state_to_keep(steps, slots)
        yield Action("advance", first, kept)
        yield Action("keep", kept, kept)
        yield from actions(first + steps - kept, slots - 1, kept)
        yield Action("forget", kept, kept)
        yield from actions(kept - first, slots, first)
    else:
        for last in range(first + steps, first, -1):
            if last - 1 > first:
                yield Action("advance", first, last - 1)
            yield Action("back", last, last)


# ---- for a stack of states


class Advance(NamedTuple):
    """So many steps from the state in the row ``row`` of a stack, which is number ``first``, to the row behind it."""

    row: int
    first: int
    steps: int


class Stretch(NamedTuple):
    """Steps gone back through in one go: all of their states are in the stack, the first one in ``row``.

    ``advances`` lead to the first one; if ``runs``, the others are made from it, else they are there.
    """

    advances: tuple[Advance, ...]
    row: int
    first: int
    steps: int
    runs: bool


@dataclass
class Schedule:
    """How to go back through so many steps with a stack of ``rows`` states, of which the first is in row 0.

    Attributes:
        kept: on the way there, the states to put in rows 0, 1, ... of the stack.
        stretches: what to do then.
    """

    steps: int
    rows: int
    kept: list[int] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def forwards(self) -> int:
        """Steps run forwards: on the way there all but the last, which needs no state behind it, and then again."""
        again = sum(a.steps for s in self.stretches for a in s.advances)
        return self.steps - 1 + again + sum(s.steps - 1 for s in self.stretches if s.runs)


def schedule(steps: int, rows: int) -> Schedule:
    """The best one: as many steps are run forwards as `advances` tells for ``rows - 2`` slots.

    The state that is on its way has a row too. ``steps`` is at least 1, ``rows`` at least 2.
    """
    found = Schedule(steps, rows)
    #: The states that are in the stack, by number.
    stack = [0]
    end = steps
    while stack:
        way = _way(stack, end, rows)
        first, count = stack[-1], end - stack[-1]
        if end == steps:  # the way there
            found.kept = [*stack, *range(first + 1, end)]
            way, runs = (), False
        else:
            runs = count > 1
        found.stretches.append(Stretch(way, len(stack) - 1, first, count, runs))
        end = stack.pop()
    return found


def _way(stack: list[int], end: int, rows: int) -> tuple[Advance, ...]:
    """Put states into a stack until those of all steps up to ``end`` have room behind the last of them."""
    found = []
    while (left := end - stack[-1]) > (room := rows - len(stack)) + 1:
        steps = state_to_keep(left, room - 1)
        found.append(Advance(len(stack) - 1, stack[-1], steps))
        stack.append(stack[-1] + steps)
    return tuple(found)
