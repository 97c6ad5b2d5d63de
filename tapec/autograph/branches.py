"""``if`` and ``x if c else y`` of converted code: Python's, or `tapec.cond` over the variables that branches change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tapec.autograph.aliases import Snapshot, note
from tapec.autograph.expressions import goes_on_by, is_traced, predicate
from tapec.autograph.merging import merged
from tapec.autograph.places import UNBOUND, Path, Place, places_of
from tapec.autograph.reach import Ends, Reach
from tapec.compiled.guards.beginnings import rest_on
from tapec.control.regions import Merged, one_of
from tapec.tensor import Tensor
from tapec.traces.outcomes import decided

#: What a RecursionError that comes out of a branch is told.
_ENDLESS = (
    "both branches over a tensor are traced, so a function that calls itself in one of them never ends: use a while "
    "loop, or let a Python number say how deep it goes"
)


def if_stmt(
    test: Any,
    body: Callable[[], None],
    orelse: Callable[[], None],
    names: Sequence[str],
    later: Collection[str],
    paths: Sequence[Path],
) -> None:
    """Run one of two branches, or make both part of the program.

    Args:
        test: the condition.
        body: the first branch, a function that shares its variables with the code around it.
        orelse: the second branch.
        names: the variables that they bind.
        later: those of them that are read behind the statement.
        paths: the attributes and items that they assign.

    Raises:
        TypeError, ValueError: see `tapec.autograph.merging.merged` and `tapec.autograph.reach.Reach.pairs`.
    """
    if not is_traced(test):
        if test:
            body()
        else:
            orelse()
        return
    places = places_of((body, orelse), names, paths, branches=True)
    choose(predicate(test, "if statement"), body, orelse, places, names, later)


def choose(
    condition: Tensor,
    body: Callable[[], None],
    orelse: Callable[[], None],
    places: Sequence[Place],
    names: Collection[str],
    later: Collection[str],
) -> None:
    """A branch of the program, and what is behind it in the places, and in all else that it can reach.

    Raises:
        TypeError, ValueError, Undecided: see `if_stmt` and `tapec.control.regions.one_of`.
    """
    known = decided(condition)
    if known is not None:
        (body if known else orelse)()
        return
    wanted = [p for p in places if p.name in later or p.name not in names]
    before = [p.get() for p in places]
    held = {p.identity: value for p, value in zip(places, before, strict=True)}
    reach = Reach((body, orelse), places)
    returned = goes_on_by(condition)
    chosen: list[tuple[Any, Any]] = []

    def side(branch: Callable[[], None]) -> Callable[[], tuple[list[Snapshot], Ends]]:
        def run() -> tuple[list[Snapshot], Ends]:
            restore(places, before)
            with reach.watching():
                branch()
            left = [Snapshot.of(p.get()) for p in wanted]
            _restore_variables(places, before, names)  # what they had counts as what is read
            return left, reach.take()

        return run

    def merge(one: tuple[list[Snapshot], Ends], other: tuple[list[Snapshot], Ends]) -> Merged:
        restore(places, before)
        chosen[:] = [(a.thing, b.thing) for a, b in zip(one[0], other[0], strict=True)]
        for place, (first, second) in zip(wanted, chosen, strict=True):
            if (first is held[place.identity]) != (second is held[place.identity]):
                go_on_with(place, held[place.identity])
        values = [
            (p.name, *((a.thing, a.thing) if a.thing is b.thing else (a.as_it_was, b.as_it_was)))
            for p, a, b in zip(wanted, one[0], other[0], strict=True)
        ]
        return merged([*values, *reach.pairs(one[1], other[1])], returned)

    try:
        found = one_of(condition, side(body), side(orelse), merge)
    except RecursionError as error:
        if not getattr(error, "__notes__", ()):
            error.add_note(_ENDLESS)
        raise
    finally:
        restore(places, before)
    for place, value, ways in zip(wanted, found[: len(wanted)], chosen, strict=True):
        if ways[0] is not ways[1]:
            note(place, value, ways)
    restore(wanted, found[: len(wanted)])
    reach.settle(iter(found[len(wanted) :]))


class _Result:
    """The place of an expression's value."""

    name = "the value"
    surely = True
    identity = (0, name)
    _value: Any = UNBOUND

    def get(self) -> Any:
        return self._value

    def set(self, value: Any) -> None:
        self._value = value

    def before(self, value: Any) -> None:
        return None


def if_exp(test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """``body if test else orelse``."""
    if not is_traced(test):
        return body() if test else orelse()
    result = _Result()

    def giving(branch: Callable[[], Any]) -> Callable[[], None]:
        return lambda: result.set(branch())

    condition = predicate(test, "if expression")
    choose(condition, giving(body), giving(orelse), [result], (), ())
    return result.get()


def nothing() -> None:
    """The other branch of an ``if`` without ``else``."""


def go_on_with(place: Place, value: Any) -> None:
    """Let the program rest on what was in a place that a branch leaves alone, or a loop that does not turn."""
    before = None if value is UNBOUND else place.before(value)
    if before is not None:
        rest_on(before)


def restore(places: Sequence[Place], values: Sequence[Any]) -> None:
    """Put values where they were."""
    for place, value in zip(places, values, strict=True):
        place.set(value)


def _restore_variables(
    places: Sequence[Place], values: Sequence[Any], names: Collection[str]
) -> None:
    """The same for those places that are variables."""
    for place, value in zip(places, values, strict=True):
        if place.name in names:
            place.set(value)
