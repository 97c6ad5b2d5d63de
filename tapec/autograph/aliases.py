"""Lists, dicts and the like that are one on one way through the program and another on the other.

``b = a`` in a branch makes two names of one list, if the run comes by. Behind the branches the program has a list of
its own, whose items are what the run chooses; who writes to it means the other name, too, on one way and not on the
other. That is no program, so it is refused once it is written to: where all has been traced, which is when it shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType, FunctionType
from typing import Any, NamedTuple

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
from tapec.structure import is_record
from tapec.tensor import Tensor
from tapec.variable import Variable

#: How many things are looked at for another name; who has more in reach is not kept waiting.
_MOST = 100_000


class _Image(NamedTuple):
    """What was in a container."""

    thing: Any
    leaves: Sequence[Any]
    spec: Any

    @classmethod
    def of(cls, thing: Any) -> _Image:
        return cls(thing, *leaves_of(thing))

    @property
    def stays(self) -> bool:
        leaves, spec = leaves_of(self.thing)
        same = len(leaves) == len(self.leaves) and spec == self.spec
        return same and all(a is b for a, b in zip(leaves, self.leaves, strict=True))


class _Alias(NamedTuple):
    """A variable whose container may be one that has another name."""

    name: str
    where: Location | None
    images: Sequence[_Image]

    def refuse_writes(self) -> None:
        """For the end of the trace.

        Raises:
            TypeError: one of the containers is not what it was.
        """
        if not all(image.stays for image in self.images):
            raise TypeError(
                f"{called(self.name)} is changed in place, and may be the same "
                f"{type(self.images[0].thing).__name__} as another name has: on one way through the program only",
                location=self.where,
                hint="let it be a copy on both ways, as list(a) or dict(a) make one, or change it before",
            )


def note(place: Place, found: Any, ways: Sequence[Any]) -> None:
    """Keep in mind what a place has behind a branch or loop, which on one way or another was something else.

    Does nothing unless something in that can be changed, and has another name.
    """
    containers = [c for way in ways for c in _containers_in(way)]
    trace = current_trace()
    if trace is None or not containers:
        return
    shared = _named_elsewhere(containers, place)
    if shared:
        images = [_Image.of(found), *map(_Image.of, shared)]
        trace.at_end.append(_Alias(place.name, here(), images).refuse_writes)


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


def _named_elsewhere(containers: Sequence[Any], place: Place) -> list[Any]:
    """Those that the code which runs can get at past a place."""
    wanted = {id(c): c for c in containers}
    found: dict[int, Any] = {}
    seen: set[int] = set()
    asked = list(_named(place))
    while asked and len(seen) < _MOST:
        thing = asked.pop()
        if id(thing) in wanted:
            found[id(thing)] = thing
        if id(thing) not in seen:
            seen.add(id(thing))
            asked += _within(thing, place)
    return list(found.values())


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
    held: Iterable[tuple[Any, Any]] = ()
    spelled = repr
    if isinstance(thing, dict):
        held = list(dict.items(thing))
    elif isinstance(thing, list | tuple | deque):
        held = enumerate(thing)
    elif isinstance(thing, set | frozenset):
        held = enumerate(list(thing))
    elif isinstance(thing, FunctionType):
        return [
            cell.cell_contents
            for _, cell in closed_over(thing)
            if is_filled(cell) and id(cell) != place.identity[0]
        ]
    elif is_users_class(type(thing)) and not isinstance(thing, Tensor | Variable):
        held, spelled = list(own_attributes(thing).items()), ".{}".format
    return [value for key, value in held if (id(thing), spelled(key)) != place.identity]
