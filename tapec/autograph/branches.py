"""``if`` and ``x if c else y`` of converted code: Python's, or `tapec.cond` over the variables that branches change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tapec.autograph.buffers import Buffer, Image
from tapec.autograph.containers import End, Held, held_by
from tapec.autograph.expressions import is_traced, predicate
from tapec.autograph.merging import merged
from tapec.autograph.places import UNBOUND, Path, Place, places_of
from tapec.control.regions import Merged, one_of
from tapec.tensor import Tensor

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
        TypeError, ValueError: see `tapec.autograph.merging.merged` and `tapec.autograph.containers.Held.pairs`.
    """
    if not is_traced(test):
        if test:
            body()
        else:
            orelse()
        return
    places = places_of((body, orelse), names, paths, branches=True)
    held = held_by((body, orelse), paths, places)
    choose(predicate(test, "if statement"), body, orelse, places, held, names, later)


def choose(
    condition: Tensor,
    body: Callable[[], None],
    orelse: Callable[[], None],
    places: Sequence[Place],
    held: Sequence[Held | Buffer],
    names: Collection[str],
    later: Collection[str],
) -> None:
    """A branch of the program, and what is in the places and containers behind it."""
    wanted = [p for p in places if p.name in later or p.name not in names]
    before = [p.get() for p in places]
    changed: list[tuple[Any, End | Image]] = []

    def side(branch: Callable[[], None]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            restore(places, before)
            branch()
            # All are looked at before one is put back: arrays may be views of the same memory.
            found, ends = [p.get() for p in wanted], [h.look() for h in held]
            for holder, end in zip(held, ends, strict=True):
                if not end.stays:
                    holder.put_back()
            return [*found, *ends]

        return run

    def merge(one: list[Any], other: list[Any]) -> Merged:
        names = [p.name for p in wanted]
        values = list(zip(names, one, other, strict=False))
        ends = zip(held, one[len(wanted) :], other[len(wanted) :], strict=True)
        changed[:] = []
        for holder, first, second in ends:
            if not (first.stays and second.stays):
                changed.append((holder, first))
                values += holder.pairs(first, second)
        return merged(values)

    try:
        found = one_of(condition, side(body), side(orelse), merge)
    except RecursionError as error:
        if not getattr(error, "__notes__", ()):
            error.add_note(_ENDLESS)
        raise
    finally:
        restore(places, before)
    rest = iter(found[len(wanted) :])
    restore(wanted, found[: len(wanted)])
    for holder, end in changed:
        holder.settle(end, rest)


class _Result:
    """The place of an expression's value."""

    name = "the value"
    surely = True
    _value: Any = UNBOUND

    def get(self) -> Any:
        return self._value

    def set(self, value: Any) -> None:
        self._value = value


def if_exp(test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """``body if test else orelse``."""
    if not is_traced(test):
        return body() if test else orelse()
    result = _Result()

    def giving(branch: Callable[[], Any]) -> Callable[[], None]:
        return lambda: result.set(branch())

    held = held_by((body, orelse), (), ())
    condition = predicate(test, "if expression")
    choose(condition, giving(body), giving(orelse), [result], held, (), ())
    return result.get()


def nothing() -> None:
    """The other branch of an ``if`` without ``else``."""


def restore(places: Sequence[Place], values: Sequence[Any]) -> None:
    """Put values where they were."""
    for place, value in zip(places, values, strict=True):
        place.set(value)
