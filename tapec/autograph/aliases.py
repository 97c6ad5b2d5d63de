"""Lists, dicts and the like that are one on one way through the program and another on the other.

``b = a`` in a branch makes two names of one list, if the run comes by. Behind the branches the program has a list of
its own, whose items are what the run chooses; who writes to it means the other name, too, on one way and not on the
other. That is no program, so it is refused once it is written to: where all has been traced, which is when it shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from tapec.autograph.jumps import RETURNED
from tapec.autograph.merging import called, leaves_of
from tapec.autograph.places import Place
from tapec.autograph.readers import running_frames
from tapec.compiled.guards.objects import closed_over, is_filled, own_attributes
from tapec.compiled.guards.ownership import is_users_class
from tapec.compiled.guards.reads import parts
from tapec.errors import TypeError
from tapec.frames import here
from tapec.ir.location import Location
from tapec.recording import current_trace
from tapec.records import fields_of
from tapec.structure import is_record, unflatten
from tapec.tensor import Tensor
from tapec.variable import Variable

#: What leads to no container; of these very types there may be very many.
_PLAIN: frozenset[type] = frozenset({bool, int, float, complex, str, bytes, type(None)})
_LEAVES = (*_PLAIN, np.ndarray, np.generic, Tensor, Variable)


class Snapshot(NamedTuple):
    """A value, and what was in it."""

    thing: Any
    leaves: Sequence[Any]
    spec: Any

    @classmethod
    def of(cls, thing: Any) -> Snapshot:
        return cls(thing, *leaves_of(thing))

    @property
    def stays(self) -> bool:
        leaves, spec = leaves_of(self.thing)
        return (
            len(leaves) == len(self.leaves)
            and spec == self.spec
            and all(map(is_, leaves, self.leaves))
        )

    @property
    def as_it_was(self) -> Any:
        """The thing, or one like it with what was in it then."""
        if next(_containers_in(self.thing), None) is None or self.stays:
            return self.thing
        return unflatten(self.spec, list(self.leaves))


class _Alias(NamedTuple):
    """A place with a container behind a branch or loop, which one way or another was one of some others.

    Attributes:
        others: these, as they were.
        named: what had a name there, but for the place.
    """

    place: Place
    where: Location | None
    found: Snapshot
    others: Sequence[Snapshot]
    named: Sequence[Any]

    def refuse_writes(self) -> None:
        """For the end of the trace.

        Raises:
            TypeError: what was written to has another name.
        """
        changed = self.others
        if self.found.stays:
            # What is changed behind a return is changed where it was not returned.
            changed = [o for o in self.others if self.place.name != RETURNED and not o.stays]
        if changed and _reached(self.named, [other.thing for other in changed], self.place):
            raise TypeError(
                f"{called(self.place.name)} is changed in place, and may be the same "
                f"{type(self.found.thing).__name__} as another name has: on one way through the program only",
                location=self.where,
                hint="let it be a copy on both ways, as list(a) or dict(a) make one, or change it before",
            )


def note(place: Place, found: Any, ways: Sequence[Any]) -> None:
    """Keep in mind what a place has behind a branch or loop, which on one way or another was something else.

    Does nothing unless something in that can be changed. Whether it has another name is asked if it is changed: that
    takes a walk over all that code has in reach.
    """
    others = [Snapshot.of(c) for way in ways for c in _containers_in(way)]
    trace = current_trace()
    if trace is not None and others:
        alias = _Alias(place, here(), Snapshot.of(found), others, list(_named(place)))
        trace.at_end.append(alias.refuse_writes)


def _containers_in(value: Any) -> Iterator[Any]:
    """What can be changed of a structure."""
    items: Iterable[Any] = ()
    if isinstance(value, dict):
        items = list(dict.values(value))
    elif isinstance(value, list | tuple | deque):
        items = value
    elif is_record(type(value)):
        items = fields_of(value)[0]
    else:
        return
    if not isinstance(value, tuple):
        yield value
    for item in items:
        yield from _containers_in(item)


def _reached(named: Sequence[Any], containers: Sequence[Any], place: Place) -> set[int]:
    """Those that code can get at from what has a name, past a place, by ``id``."""
    wanted = {id(c) for c in containers}
    seen: dict[int, Any] = {}
    asked = list(named)
    while asked:
        thing = asked.pop()
        if id(thing) not in seen:
            seen[id(thing)] = thing
            found = _within(thing, place)
            if not {*map(type, found)} <= _PLAIN:
                asked += [part for part in found if not isinstance(part, _LEAVES)]
    return wanted & seen.keys()


def _named(place: Place) -> Iterator[Any]:
    """What variables of the code that runs hold, but for the one that a place is."""
    own: FrameType | None = None
    for frame in running_frames():
        own = own or frame
        shares = any(part is own.f_code for part in parts(frame.f_code))
        for name, value in frame.f_locals.items():
            if not (shares and name == place.name):
                yield value
        for name in frame.f_code.co_names:
            if name in frame.f_globals and (id(frame.f_globals), repr(name)) != place.identity:
                yield frame.f_globals[name]


def _within(thing: Any, place: Place) -> list[Any]:
    """What a thing leads to, but for what is in a place."""
    holder, spelled = place.identity
    held: Any = ()
    if isinstance(thing, dict):
        held = dict(thing)
    elif isinstance(thing, list | tuple | deque | set | frozenset):
        held = dict(enumerate(thing)) if id(thing) == holder else list(thing)
    elif isinstance(thing, FunctionType):
        held = [c.cell_contents for _, c in closed_over(thing) if is_filled(c) and id(c) != holder]
    elif is_users_class(type(thing)):
        held = {f".{name}": value for name, value in own_attributes(thing).items()}
    if not isinstance(held, dict):
        return list(held)
    own = id(thing) == holder
    return [v for key, v in held.items() if not (own and spelled in (key, repr(key)))]
