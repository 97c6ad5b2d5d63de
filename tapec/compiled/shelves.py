"""Where a compiled function keeps its programs: those for one object hang on that object, so that they end with it.

A call whose arguments have an object that is a key by itself (a model, whose method is compiled; a function; a
Variable) has programs of its own for it. What these rest on refers to the object, so nothing outside of it may hold
them: they would keep it, and all its Variables, for as long as the function lives. They hang on the object, and Python
collects them together.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tapec.variable import Variable

if TYPE_CHECKING:
    from tapec.compiled.dimensions import Family
    from tapec.compiled.program import Program
    from tapec.compiled.variants import Variants
    from tapec.traces.outcomes import Outcome

#: The entry of an object's ``__dict__`` under which programs hang.
ENTRY = "_tapec_programs"

_serials = count()


class Shelf:
    """Programs of one function.

    Attributes:
        programs: by the key of a call; see `tapec.compiled.keys`.
        families: calls that differ in sizes at most, by what they share.
        path: what conditions are that decide about shapes, for all of them.
    """

    __slots__ = ("__weakref__", "families", "path", "programs")

    def __init__(self, path: tuple[Outcome, ...] = ()) -> None:
        """Nothing yet."""
        self.path = path
        self.programs: dict[Any, Variants] = {}
        self.families: dict[Any, Family] = {}

    def used(self) -> Iterator[Program]:
        """The programs that calls may find here, and behind the conditions that some of these compute."""
        for variants in self.programs.values():
            for program in variants.programs:
                yield program.general
                if program.decision is not None:
                    for shelf in program.decision.choices.values():
                        yield from shelf.used()


class _Hook:
    """What hangs on an object: a shelf for each function, by the serial number of its `Shelves`."""

    __slots__ = ("__weakref__", "owner", "shelves")

    def __init__(self, owner: Any = None) -> None:
        #: On which it hangs: a copy of an object has its entries, but not its programs.
        self.owner = owner
        self.shelves: dict[int, Shelf] = {}

    def __deepcopy__(self, memo: object) -> _Hook:
        return _Hook()

    def __reduce__(self) -> Any:
        return _Hook, ()


def _entries(thing: Any) -> dict[str, Any] | None:
    """Where something can hang on an object; None if nowhere: it has no ``__dict__``, or lives as long as a module."""
    if isinstance(thing, ModuleType | type | threading.local):
        return None
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def _hook_on(thing: Any) -> _Hook | None:
    if isinstance(thing, Variable):
        hook = thing.programs
    else:
        try:
            hook = object.__getattribute__(thing, "__dict__").get(ENTRY)
        except AttributeError:
            return None
    return hook if hook is not None and hook.owner is thing else None


class Shelves:
    """All programs of one function."""

    def __init__(self) -> None:
        """None yet."""
        self._serial = next(_serials)
        #: For calls with no object on which programs can hang.
        self.own = Shelf()
        self._hooks: weakref.WeakSet[_Hook] = weakref.WeakSet()
        # Objects that live on let go of the programs of a function that is gone.
        weakref.finalize(self, _drop, self._serial, self._hooks).atexit = False

    def find(self, key: Any, objects: Sequence[Any]) -> Variants | None:
        """What is kept under the key of a call with these objects among its arguments."""
        for thing in objects:
            shelf = self._shelf_on(thing)
            if shelf is not None and (found := shelf.programs.get(key)) is not None:
                return found
        return self.own.programs.get(key)

    def home(self, objects: Sequence[Any], family: Any) -> Shelf:
        """Where the program of a call belongs: to others of its family, or on the one of its objects that is new.

        That is likely to end first.
        """
        places = [thing for thing in objects if _can_hold(thing)]
        fresh = []
        for thing in places:
            shelf = self._shelf_on(thing)
            if shelf is None:
                fresh.append(thing)
            elif family in shelf.families:
                return shelf
        if not places or family in self.own.families:
            return self.own
        return self._new_shelf_on((fresh or places)[0])

    def __iter__(self) -> Iterator[Shelf]:
        yield self.own
        for hook in list(self._hooks):
            yield hook.shelves[self._serial]

    def _shelf_on(self, thing: Any) -> Shelf | None:
        hook = _hook_on(thing)
        return None if hook is None else hook.shelves.get(self._serial)

    def _new_shelf_on(self, thing: Any) -> Shelf:
        hook = _hook_on(thing)
        if hook is None:
            hook = _Hook(thing)
            if isinstance(thing, Variable):
                thing.programs = hook
            else:
                entries = _entries(thing)
                assert entries is not None
                entries[ENTRY] = hook
        self._hooks.add(hook)
        return hook.shelves.setdefault(self._serial, Shelf())


def _can_hold(thing: Any) -> bool:
    return isinstance(thing, Variable) or _entries(thing) is not None


def _drop(serial: int, hooks: Iterable[_Hook]) -> None:
    for hook in list(hooks):
        hook.shelves.pop(serial, None)
