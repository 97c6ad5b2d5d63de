"""Numbers of Python's state that change from call to call: while a function is traced, their places hold inputs.

A number that the function reads from outside is a constant, watched like all other state. Once it has changed, the
next trace finds a `HostNumber` in its place (an attribute, a global, a closure variable), so that whatever it is from
then on needs no further program. After the trace every place has its own number again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from tapec.compiled.guards import places
from tapec.compiled.guards.entries import Entry
from tapec.compiled.guards.objects import cell_of
from tapec.compiled.guards.places import Place
from tapec.traces.scalars import HostNumber, is_number

if TYPE_CHECKING:
    from tapec.traces.recipes import Recorder

#: What tells a place from others.
PlaceKey = tuple[int, type, Any]


def key_of(place: Place) -> PlaceKey:
    """What tells a place from others, as long as its owner lives."""
    return id(place.owner), type(place), place.key


def numbers_that_changed(found: Iterable[Place]) -> Iterator[PlaceKey]:
    """Those of the places that had a number, and have another one of its type."""
    for place in found:
        if is_number(place.value) and not place.holds():
            try:
                now = place.now()
            except (LookupError, AttributeError, ValueError):
                continue
            if type(now) is type(place.value):
                yield key_of(place)


class Loans:
    """The places that hold inputs during one trace."""

    def __init__(self, numbers: Recorder, varying: set[PlaceKey]) -> None:
        """None yet.

        Args:
            numbers: whose inputs they hold.
            varying: the places whose numbers have changed before.
        """
        self._numbers = numbers
        self._varying = varying
        self._taken: list[tuple[Place, HostNumber]] = []
        self._is_over = False

    def take(self, place: Place) -> bool:
        """Put an input in the place of a number that varies; whether that is, or was, so."""
        if type(place.value) is HostNumber:
            if self._numbers.owns(place.value):
                return True
            place.value = place.value.value  # lent to a trace in another thread
        key = key_of(place)
        if self._is_over or key not in self._varying or not is_number(place.value):
            return False
        if not place.stayed():  # the trace itself changed it
            return False
        number = self._numbers.source(key, place.value, place.path, place.now, place.cause)
        if not _put(place, number):
            return False
        self._taken.append((place, number))
        return True

    def show(self, frame: FrameType, functions: Sequence[FunctionType]) -> None:
        """Let a function that is being entered see them, after a profiler looked at its frame.

        Python writes closure variables back as they were before the profiler ran.

        Args:
            frame: of the call.
            functions: those that have its code.
        """
        for place, number in self._taken:
            name = place.key
            if type(place) is places.Closed and name in frame.f_code.co_freevars and functions:
                if all(cell_of(function, name) is place.owner for function in functions):
                    frame.f_locals[name] = number

    def give_back(self) -> None:
        """Put plain numbers back: what the place had, or what the function made of it.

        The program is for the very number of a place that does not have its input any more.
        """
        self._is_over = True
        for place, number in reversed(self._taken):
            try:
                now = place.now()
            except (LookupError, AttributeError, ValueError):
                now = None
            if now is not number:
                number.exactly()
            if type(now) is HostNumber:
                _put(place, now.value)


def _put(place: Place, value: Any) -> bool:
    """Give a place another value, past whatever its class does then; whether that can be."""
    if type(place) is Entry:
        place.owner[place.key] = value
    elif type(place) is places.Closed:
        place.owner.cell_contents = value
    else:
        own = getattr(place.owner, "__dict__", None)
        if not isinstance(own, dict) or place.key not in own:
            return False
        own[place.key] = value
    return True
