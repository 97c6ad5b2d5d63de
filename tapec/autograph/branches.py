"""``if`` of converted code: Python's, or `tapec.cond` over the variables that its branches change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tapec.autograph.expressions import is_traced, predicate
from tapec.autograph.merging import merged
from tapec.autograph.places import Path, Place, places_of
from tapec.control.regions import Merged, one_of
from tapec.tensor import Tensor


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
        TypeError, ValueError: see `tapec.autograph.merging.merged`.
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
    """A branch of the program, and what is in the places behind it."""
    wanted = [p for p in places if p.name in later or p.name not in names]
    before = [p.get() for p in places]

    def side(branch: Callable[[], None]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            restore(places, before)
            branch()
            return [p.get() for p in wanted]

        return run

    def merge(one: list[Any], other: list[Any]) -> Merged:
        return merged([(p.name, a, b) for p, a, b in zip(wanted, one, other, strict=True)])

    try:
        found = one_of(condition, side(body), side(orelse), merge)
    finally:
        restore(places, before)
    restore(wanted, found)


def nothing() -> None:
    """The other branch of an ``if`` without ``else``."""


def restore(places: Sequence[Place], values: Sequence[Any]) -> None:
    """Put values where they were."""
    for place, value in zip(places, values, strict=True):
        place.set(value)
