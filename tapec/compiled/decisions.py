"""Which program a call runs where the branches of a condition give different shapes.

There is no program for both outcomes. A call runs one that computes the condition alone and changes nothing, then the
one for its outcome, on whose shelf there may be such conditions again. So what a condition rests on is computed twice.

No other thread may step in between. A call guesses that conditions are as they were, and gets at the Variables of the
program that this leads to; then it looks at the conditions and, if they are so, runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tapec.compiled.retraces import Cause, Change
from tapec.compiled.shelves import Shelf
from tapec.traces.outcomes import Outcome, Undecided

if TYPE_CHECKING:
    from tapec.compiled.call import Call
    from tapec.compiled.variants import Found


class Decision:
    """A condition that a program computes.

    Attributes:
        location: the user's line.
        choices: the programs for what it is, by that.
        latest: what it was when it was last looked at.
    """

    def __init__(self, path: Sequence[Outcome], end: Undecided) -> None:
        """``path``: what the conditions before it are, where these decide about shapes."""
        self.location = end.location
        self.choices = {
            value: Shelf((*path, Outcome(end.number, end.location, value)))
            for value in (False, True)
        }
        self.latest: bool | None = None


class Programs(Protocol):
    """A compiled function, which has programs for calls."""

    def find(self, call: Call, shelf: Shelf | None = None) -> Found | None:
        """The program for a call on a shelf, by its key; by default where the function keeps those of such calls."""

    def program_for(self, call: Call, shelf: Shelf | None = None) -> Found:
        """The same; made if there is none."""


def run(programs: Programs, call: Call) -> Any:
    """What a call gives."""
    found = programs.program_for(call)
    if found[0].decision is None:
        return found[0].run(call.tensors, found[1])
    seen: dict[Decision, bool] = {}
    while True:
        (program, numbers), guessed = _followed(programs, call, found, seen)

        def attempt() -> tuple[bool, Any]:
            if not all(_is_still(decided, value, call, seen) for decided, value in guessed):  # noqa: B023
                return False, None
            return True, program.run(call.tensors, numbers)  # noqa: B023

        done, result = program.hold(attempt)
        if done:
            return result


def settled(programs: Programs, call: Call) -> Found:
    """The program that a call would run."""
    found = programs.program_for(call)
    while (decision := found[0].decision) is not None:
        value = found[0].outcome(call.tensors, found[1])
        found = programs.program_for(call, decision.choices[value])
    return found


def _followed(
    programs: Programs, call: Call, found: Found, seen: dict[Decision, bool]
) -> tuple[Found, list[tuple[Found, bool]]]:
    """The program behind all conditions, and those that were guessed, or may have changed since they were ``seen``."""
    guessed = []
    while (decision := found[0].decision) is not None:
        value = seen.get(decision)
        if value is None:
            value = decision.latest if found[0].reads_variables else None
            if value is None or programs.find(call, decision.choices[value]) is None:
                value = seen[decision] = found[0].outcome(call.tensors, found[1])
        if found[0].reads_variables:
            guessed.append((found, value))
        found = programs.program_for(call, decision.choices[value])
    return found, guessed


def _is_still(found: Found, value: bool, call: Call, seen: dict[Decision, bool]) -> bool:
    """Whether a condition is what it was taken for."""
    program, numbers = found
    assert program.decision is not None
    now = program.outcome(call.tensors, numbers)
    program.decision.latest = seen[program.decision] = now
    return now == value


def other_outcomes(path: Sequence[Outcome], wanted: Sequence[Outcome]) -> list[Change]:
    """The first condition that is something else for one program than for another."""
    for old, new in zip(path, wanted, strict=False):
        if old != new:
            text = "a condition" if old.location is None else old.location.text.rstrip(":")
            return [Change(text, Cause.OUTCOME, str(old.value), str(new.value), new.location)]
    return []
