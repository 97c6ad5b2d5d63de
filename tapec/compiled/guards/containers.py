"""Which items of a container a trace rests on: all of them or, of a dict that code asks for single keys, those."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np

from tapec.compiled.guards import places
from tapec.compiled.guards.entries import Entry, Gap, Member
from tapec.compiled.guards.reads import Manner
from tapec.compiled.retraces import Cause

#: What a container may hold without anything more to look at.
_NUMBERS = {bool, int, float, complex, type(None)}


class Containers:
    """Opens the containers that are in reach: watches their items, and takes these into reach."""

    def __init__(
        self,
        put: Callable[..., None],
        visit: Callable[[Any, str], None],
        visit_item: Callable[[Any, str], None],
        found: Mapping[Any, places.Place],
    ) -> None:
        """None yet.

        Args:
            put: to watch a place that is used in a manner.
            visit: to take a value into reach.
            visit_item: to take an item into reach.
            found: the places that are watched, by owner's ``id``, kind and key.
        """
        self._put, self._visit, self._visit_item, self._found = put, visit, visit_item, found
        #: Those whose items all matter, by ``id``.
        self._opened: set[int] = set()

    def open(self, thing: Any, path: str, manner: Manner) -> None:
        """Watch the items of a container; those of one that is only changed may come to matter later."""
        if id(thing) in self._opened:
            return
        if isinstance(thing, np.ndarray):
            self._opened.add(id(thing))
            for item in thing.flat if thing.dtype.hasobject and not thing.dtype.names else ():
                self._visit_item(item, path)
        elif isinstance(thing, ContextVar):
            self._opened.add(id(thing))
            self._put(places.Current(thing, path))
            self._visit(thing.get(None), f"{path}.get()")
        elif manner.read and manner.questions is not None and type(thing) is dict:
            self._put(places.Contents(thing, path), Manner())
            self._ask(thing, path, manner.questions)
        else:
            self._put(places.Contents(thing, path), Manner(manner.read))
            if manner.read:
                self._opened.add(id(thing))
                self._visit_all(thing, path)

    def _ask(
        self, thing: dict[Any, Any], path: str, questions: frozenset[tuple[Any, bool]]
    ) -> None:
        """Watch single keys of a dict: as they were when it was met, whatever the trace changed since."""
        held = self._found[id(thing), places.Contents, None].value
        for key, is_value in questions:
            where = f"{path}[{key!r}]"
            place: places.Place
            if not is_value:
                place = Member(thing, key, path)
                place.value = key in held
            elif key in held:
                place = Entry(thing, key, held[key], where, Cause.ENTRY)
            else:
                place = Gap(thing, key, None, where, Cause.ENTRY)
            self._put(place)

    def _visit_all(self, thing: Any, path: str) -> None:
        if isinstance(thing, defaultdict):
            maker = thing.default_factory
            where = f"{path}.default_factory"
            self._put(places.Attribute(thing, "default_factory", maker, where, Cause.ATTRIBUTE))
        if isinstance(thing, Mapping):
            for key, item in list(thing.items()):
                self._visit(key, path)
                self._visit_item(item, f"{path}[{key!r}]")
        elif not isinstance(thing, places.BUFFERS):
            for i, item in enumerate(list(thing)):
                if type(item) not in _NUMBERS:  # of which there may be many
                    self._visit_item(item, f"{path}[{i}]")
