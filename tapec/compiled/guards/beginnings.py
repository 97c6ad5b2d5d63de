"""What a place held when a trace began that a branch or loop of the program changes: the other way goes on with that.

No code need read such a place in front of the branch: ``if x > 0: self.put(x)`` makes the program choose between what
``put`` stores and what was there. Behind it there is a tensor, so what is there is taken down before code runs that
stores something under that name. What the function itself stored in front of the branch is no beginning.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Collection, Iterable, Iterator
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from tapec.compiled.guards.entries import Entry
from tapec.compiled.guards.equality import is_or_same
from tapec.compiled.guards.instances import Held
from tapec.compiled.guards.objects import closed_over, is_filled, own_attributes
from tapec.compiled.guards.places import Attribute, Closed, Place
from tapec.compiled.guards.reads import parts
from tapec.compiled.retraces import Cause
from tapec.instructions import kept_for
from tapec.recording import current_trace
from tapec.structure import flatten
from tapec.tracing import TracedTensor

_STORES = {f"{verb}_{kind}" for verb in ("STORE", "DELETE") for kind in ("ATTR", "GLOBAL", "DEREF")}


class Before(NamedTuple):
    """A place, with what was there in front of a branch or loop that changes it.

    Attributes:
        place: the place.
        code: of a function that has it, if it is a variable which functions share.
    """

    place: Place
    code: CodeType | None = None


def item_before(space: dict[str, Any], path: Callable[[Any], str], name: str, value: Any) -> Before:
    """A global variable."""
    return Before(Entry(space, name, value, path(name), Cause.GLOBAL))


def attribute_before(owner: Any, path: Callable[[Any], str], name: str, value: Any) -> Before:
    """An attribute; of the object's own, whatever its class does, or what it has from its class."""
    is_own = name in own_attributes(owner) and not isinstance(owner, type)
    if is_own:
        return Before(Held(owner, name, value, path(name)))
    return Before(Attribute(owner, name, value, path(name), Cause.ATTRIBUTE))


def shared_before(code: CodeType, name: str, cell: CellType, value: Any) -> Before:
    """A variable that functions share, one of which has the code."""
    return Before(Closed(cell, name, value, name, Cause.CLOSURE), code)


def rest_on(before: Before) -> None:
    """Let the program that is being traced rest on a place, unless that holds what the program computes."""
    trace = current_trace()
    leaves = flatten(before.place.value)[0]
    if trace is not None and not any(isinstance(leaf, TracedTensor) for leaf in leaves):
        trace.rests_on.append(before)


class Beginnings:
    """What was in places before code ran that stores something there."""

    def __init__(self) -> None:
        """Nothing yet."""
        #: By the ``id`` of an object, a cell or the globals, and the name.
        self._first: dict[tuple[int, Any], Any] = {}
        #: The code that makes other code, by the ``id`` of that.
        self._outer: dict[int, CodeType] = {}

    def entered(
        self, frame: FrameType, things: Iterable[Any], functions: Iterable[FunctionType]
    ) -> None:
        """Hear of code that is going to run.

        Args:
            frame: of the call.
            things: the objects in reach.
            functions: those that have the code.
        """
        for part in parts(frame.f_code):
            self._outer |= {id(c): part for c in part.co_consts if isinstance(c, CodeType)}
        names = stored_by(frame.f_code)
        if not names:
            return
        held = [(frame.f_globals, frame.f_globals), *((t, own_attributes(t)) for t in things)]
        for function in functions:
            held += [(c, {n: c.cell_contents}) for n, c in closed_over(function) if is_filled(c)]
        for owner, values in held:
            for name in values.keys() & names:
                self._first.setdefault((id(owner), name), values[name])

    def places(self, found: Iterable[Before], known: Collection[int]) -> Iterator[Place]:
        """What a program rests on, of the places that branches and loops change.

        Args:
            found: these.
            known: what was in reach when the trace began, by ``id``; the rest it made itself.
        """
        for place, code in found:
            first = self._first.get((id(place.owner), place.key), place.value)
            if is_or_same(first, place.value) and (
                not self._is_made(place.key, code)
                if isinstance(place, Closed)
                else isinstance(place, Entry) or id(place.owner) in known
            ):
                yield place

    def _is_made(self, variable: str, code: CodeType | None) -> bool:
        """Whether a variable is of a call that the trace made."""
        while (outer := self._outer.get(id(code))) is not None:
            if variable in outer.co_cellvars:
                return True
            code = outer
        return False


@kept_for(4096)
def stored_by(code: CodeType) -> frozenset[str]:
    """The attributes, globals and shared variables that code stores or deletes, or functions inside of it."""
    return frozenset(
        i.argval for part in parts(code) for i in dis.get_instructions(part) if i.opname in _STORES
    )
