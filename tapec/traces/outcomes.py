"""Conditions over tensors whose branches give different shapes: a program is for one outcome of each.

The types in a program do not depend on values, so no operation chooses between two shapes. Where the branches of a
condition disagree about one, the trace ends (`Undecided`), and what was traced up to there becomes a program that
computes the condition alone. The function is traced again for the outcome, with that branch in the condition's place.
See `tapec.compiled.decisions` for who runs what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tapec.errors import NotImplementedError, RuntimeError
from tapec.frames import here
from tapec.ir.core import Function, Value
from tapec.ir.location import Location
from tapec.ir.ops.host import Notify
from tapec.passes.dce import sweep
from tapec.recording import current_trace

if TYPE_CHECKING:
    from tapec.tensor import Tensor


class Outcome(NamedTuple):
    """What one condition of a program is.

    Attributes:
        number: of the condition, among those outside of branches and loops, as they are met.
        location: the user's line.
        value: what it is.
    """

    number: int
    location: Location | None
    value: bool


class Undecided(BaseException):
    """The outcome of a condition decides about shapes, and is not known; this never reaches the user.

    It is no ``Exception``, so that the user's handlers do not take it for theirs.
    """

    def __init__(self, condition: Tensor, number: int, location: Location | None) -> None:
        """``number`` and ``location``: see `Outcome`."""
        super().__init__()
        self.condition = condition
        self.number = number
        self.location = location


class Outcomes:
    """The conditions that a trace meets, and the outcomes that it is for.

    Attributes:
        met: how many there were.
        location: the user's line of the latest.
    """

    def __init__(self, path: Sequence[Outcome]) -> None:
        """None is met yet."""
        self.met = 0
        self.location: Location | None = None
        self._known: dict[Value, bool] = {}
        self._left = {outcome.number: outcome for outcome in path}

    def next(self, condition: Value) -> bool | None:
        """What the next condition is, if that is known."""
        if condition in self._known:
            return self._known[condition]
        self.met += 1
        self.location = here()
        found = self._left.get(self.met)
        if found is None or found.location != self.location:
            return None
        self._known[condition] = self._left.pop(self.met).value
        return self._known[condition]

    def require_all(self, name: str) -> None:
        """Hold a function to come by all conditions that it was traced for.

        Raises:
            RuntimeError: it took another way, by something that each trace finds changed.
        """
        for outcome in self._left.values():
            raise RuntimeError(
                f"{name} did not come by this condition when it was traced again, for one outcome of it",
                location=outcome.location,
                hint="Python state that the function itself changes must not decide which way it takes",
            )


def decided(condition: Tensor) -> bool | None:
    """What a condition is that the current trace meets; None if both branches are to be traced."""
    trace = current_trace()
    assert trace is not None
    if trace.parent is not None or trace.outcomes is None:
        return None
    return trace.outcomes.next(trace.value_of(condition))


def undecided(condition: Tensor) -> Undecided | None:
    """How to end a trace in which a condition decides about shapes; None if its program has to serve both outcomes.

    Within branches it is the outermost condition that is decided first.
    """
    trace = current_trace()
    assert trace is not None
    while trace.parent is not None:
        if trace.condition is None:
            return None  # a loop, or a function of all rows at once
        condition, trace = trace.condition, trace.parent
    outcomes = trace.outcomes
    return None if outcomes is None else Undecided(condition, outcomes.met, outcomes.location)


def keep_condition(function: Function, location: Location | None) -> None:
    """Drop from a program what its results do not need: above all what it tells Python, which another one will.

    Checks stay. They are in front of what rests on them.

    Raises:
        NotImplementedError: the results rest on what Python gives back, and would ask for that twice.
    """
    block = function.block
    sweep(block)
    while _drop_unread(function):
        sweep(block)
    if any(isinstance(op.defn, Notify) for op in function.walk()):
        raise NotImplementedError(
            "what this condition rests on comes from Python, and its branches give different shapes",
            location=location,
            hint="compute the condition outside of the compiled function, or give both branches one shape",
        )


def _drop_unread(function: Function) -> bool:
    """Drop calls of Python whose results nobody reads; return whether there were any."""
    told = [op for op in function.walk() if isinstance(op.defn, Notify)]
    unread = [op for op in told if not any(r.users for r in op.results)]
    for op in unread:
        op.erase()
    return bool(unread)
