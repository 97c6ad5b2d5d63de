"""How to go back through a chain of steps with few of its states at hand: the fewest steps that are run again.

Step number i takes state i - 1 to state i; going back through it needs state i - 1. State 0 is always there, so many
others as there are slots may be kept, and what is not kept is computed again from the nearest one before it. The best
way keeps some state m, goes back through the steps behind it with one slot less, then through those before it.
Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic differentiation"
(1992), has the number of steps in closed form, by binomial coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple


class Action(NamedTuple):
    """``advance`` from one state to a later one; ``keep`` a state or ``forget`` it; go ``back`` through a step."""

    kind: Literal["advance", "keep", "forget", "back"]
    first: int
    last: int


@cache
def advances(steps: int, slots: int) -> int:
    """How many steps are run forwards at least, those of the way there among them.

    Not counted is what going back through a step computes of that step itself.
    """
    if steps <= 1:
        return 0
    if slots == 0:
        return steps * (steps - 1) // 2
    return min(_with(steps, slots, kept) for kept in range(1, steps))


@cache
def state_to_keep(steps: int, slots: int) -> int:
    """Which state to keep first, of so many steps."""
    return min(range(1, steps), key=lambda kept: _with(steps, slots, kept))


def _with(steps: int, slots: int, kept: int) -> int:
    """The steps that are run if this state is kept first."""
    return kept + advances(steps - kept, slots - 1) + advances(kept, slots)


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
