"""Places of single objects: what their dicts have, or lack, whatever their classes do; and such as keep no object."""

from __future__ import annotations

import copy
import weakref
from threading import local
from typing import Any

from tapec.compiled.guards.asked import Asked
from tapec.compiled.guards.places import Attribute, Place, spaces_of
from tapec.compiled.retraces import Cause
from tapec.runtime.cpu.guards.looks import NOTHING, Kind, Look
from tapec.runtime.cpu.guards.versions import version_of


class Held(Attribute):
    """An attribute in the dict of an object."""

    def __init__(self, owner: Any, key: str, value: Any, path: str) -> None:
        super().__init__(owner, key, value, path, Cause.ATTRIBUTE)

    def now(self) -> Any:
        """What the dict has."""
        return spaces_of(self.owner)[self.key]

    def look(self, owner: str) -> str:
        """Past the class."""
        return f"spaces_of({owner})[{self.key!r}]"

    def native(self) -> Look | None:
        """The entry of the dict; of a plain object with state of each thread's own, the attribute."""
        if type(self.owner) is local:
            return Look(Kind.ATTRIBUTE, self.owner, self.key, self.value)
        return _entry_of(self.owner, self.key, self.value)


class Unset(Place):
    """An attribute that an object does not have of its own: its class gives it, or nobody."""

    is_note = True

    def __init__(self, owner: Any, key: str, path: str) -> None:
        super().__init__(owner, key, None, path, Cause.ATTRIBUTE)

    def now(self) -> Any:
        """What it has of its own."""
        return spaces_of(self.owner).get(self.key)

    def source(self, owner: str, value: str) -> str:
        """Whether it still has none."""
        return f"{self.key!r} not in spaces_of({owner})"

    def holds(self) -> bool:
        """Whether it still has none."""
        return self.key not in spaces_of(self.owner)

    def native(self) -> Look | None:
        """No entry of the dict."""
        return _entry_of(self.owner, self.key, NOTHING)


def _entry_of(owner: Any, name: str, held: Any) -> Look | None:
    """An entry of an object's dict; each thread has another one of its own state."""
    own = spaces_of(owner)
    is_plain = type(own) is dict and type(name) is str and not isinstance(owner, local)
    return (
        Look(Kind.ENTRY, own, name, held, owner) if is_plain and version_of(type(owner)) else None
    )


class Weak(Asked):
    """A place of an object that only weak references lead to: it goes when that goes, and is gone."""

    def __init__(self, place: Place) -> None:
        self._place = place
        owner = weakref.ref(place.owner)
        super().__init__(owner, place.key, place.value, place.path, place.cause)
        self.forget()

    def forget(self) -> None:
        """Hold the object no longer."""
        self._place.owner = None

    def _found(self) -> Place:
        place = copy.copy(self._place)
        place.owner = self.owner()
        if place.owner is None:
            raise ReferenceError(f"{self.path} is gone")
        return place

    def now(self) -> Any:
        """What is there, if the object is."""
        try:
            return self._found().now()
        except ReferenceError:
            raise LookupError from None

    def holds(self) -> bool:
        """Whether the object is there, and the place is as it was."""
        try:
            return self._found().holds()
        except ReferenceError:
            return False


def weakly(place: Place) -> Place:
    """A place that does not keep its owner, if that can be."""
    try:
        return Weak(place)
    except TypeError:
        return place
