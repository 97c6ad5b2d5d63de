"""Guards: whether the Python state that a program was traced with is still what it was.

Native code looks at most places, some nanoseconds each (`tapec.runtime.cpu.guards.lookout`); at the rest a function
does that is compiled from source written for them. Both compare identities first. What is not the same object is then
compared by value, place by place; if it makes no difference, the next look is for the new objects.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

from tapec.compiled.guards import classes
from tapec.compiled.guards.entries import Entry
from tapec.compiled.guards.equality import same
from tapec.compiled.guards.places import COMPARISONS, Place, spaces_of
from tapec.compiled.retraces import Change, RetraceWarning
from tapec.compiler import cache
from tapec.frames import depth
from tapec.ir.errors import TargetError
from tapec.runtime.cpu.guards.lookout import lookout
from tapec.runtime.cpu.guards.looks import Kind, Look, Snapshot
from tapec.runtime.cpu.guards.versions import dicts_have_versions, version_of
from tapec.tensor import EagerTensor

#: How often places are looked at one by one before code is made that does it: many programs run once.
_PATIENCE = 3
#: How often a place may hold another object that is equal, before native code leaves it to Python.
_RESTLESS = 3


class Guard:
    """What one program rests on.

    Attributes:
        places: where the trace read Python state, and what it found.
    """

    def __init__(self, places: Sequence[Place], name: str, native: bool = True) -> None:
        """``name``: of the function, for messages; ``native``: whether native code may look."""
        self.places = list(places)
        self._name = name
        self._is_native = native
        self._looks: Callable[[], bool] = _never if self.places else _always
        self._turns = 0
        #: How often a place, by its number, had another object that was equal.
        self._moved: Counter[int] = Counter()

    def holds(self) -> bool:
        """Whether all of it is still so."""
        return self._looks() or self._hold_after_all()

    def _hold_after_all(self) -> bool:
        """Look at places one by one."""
        if not all(place.holds() for place in self.places):
            return False
        self._turns += 1
        if self._turns > _PATIENCE:
            self._looks = self._made()
        return True

    def _made(self) -> Callable[[], bool]:
        """One function that looks at all places as they are now."""
        looks: list[Look] = []
        rest = []
        groups = _Groups()
        for i, place in enumerate(self.places):
            self._moved[i] += place.follow()
            look = place.native() if self._is_native and self._moved[i] < _RESTLESS else None
            if look is None:
                rest.append(place)
            elif not groups.add(look):
                looks.append(look)
        looks += groups.looks()
        if not looks:
            return _compiled(rest)
        try:
            first = lookout(looks, cache())
        except TargetError:  # there is no native code here
            self._is_native = False
            return _compiled(self.places)
        if not rest:
            return first
        second = _compiled(rest)
        return lambda: first() and second()

    def changes(self) -> list[Change]:
        """What is not as it was."""
        found = [(place, place.change()) for place in self.places if not place.holds()]
        # Of a class, only what no other place tells, which says better how the program comes to read it.
        told = {_what(c) for place, c in found if not isinstance(place, classes.ClassState)}
        return [
            change
            for place, change in found
            if not isinstance(place, classes.ClassState) or _what(change) not in told
        ]

    def forgive(self) -> bool:
        """Take over global Tensors that were replaced by others of their type: Tensors are captured by value.

        So TensorFlow has it. Says so once for each.

        Returns:
            Whether all is well then.
        """
        changed = [place for place in self.places if not place.holds()]
        if not changed or not all(map(_is_by_value, changed)):
            return not changed
        for place in changed:
            place.value = place.now()
            warnings.warn(
                f"{self._name} goes on with the Tensor that {place.path} was when it was traced: a Tensor is taken "
                "by value, as in TensorFlow, and the name means another one now\n"
                "  remedy: pass it as an argument, or keep it in a tapec.Variable",
                RetraceWarning,
                stacklevel=depth(),
            )
        return True


def _what(change: Change) -> tuple[str, str]:
    """The name that means something else, and what."""
    return change.path.rpartition(".")[2], change.new


def _always() -> bool:
    return True


def _never() -> bool:
    return False


#: Objects with dicts that are found in other ways.
_OTHERS = (type, ModuleType, FunctionType, threading.local)


class _Groups:
    """What is told by one dict each: if that is as it was, nothing of it needs a look."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._looks: dict[int, list[Look]] = {}
        self._spaces: dict[int, dict[Any, Any]] = {}
        #: The objects whose attributes some of these dicts hold.
        self._objects: dict[int, Any] = {}

    def add(self, look: Look) -> bool:
        """Take a look that an unchanged dict makes needless; whether it is one."""
        owner = look.owner
        if look.kind in (Kind.ENTRY, Kind.ENTRIES):
            if not dicts_have_versions():
                return False
            if look.of is not None:
                if not version_of(type(look.of)):
                    return False
                self._objects[id(owner)] = look.of
            own = owner
        elif look.kind not in (Kind.ATTRIBUTE, Kind.NAMES) or isinstance(owner, _OTHERS):
            return False
        else:
            own = spaces_of(owner)
            if type(own) is not dict or not version_of(type(owner)):
                return False
            if look.kind is Kind.ATTRIBUTE and own.get(look.key) is not look.held:
                return False
            self._objects[id(own)] = owner
        self._looks.setdefault(id(own), []).append(look)
        self._spaces[id(own)] = own
        return True

    def looks(self) -> Iterator[Look]:
        """All of them, behind what lets them be left out; a class may come to have a property of that name."""
        for kind in {type(thing) for thing in self._objects.values()}:
            yield Look(Kind.VERSION, kind, None, version_of(kind))
        for identity, looks in self._looks.items():
            own, thing = self._spaces[identity], self._objects.get(identity)
            rows = len(looks) + 1
            if thing is None:
                snapshot = Snapshot(own, rows, entries=False)
                yield Look(Kind.DICT, own, None, snapshot)
            else:
                snapshot = Snapshot(own, rows)
                yield Look(Kind.OBJECT, thing, own, snapshot)
            yield from looks
            yield Look(Kind.SEAL, own, None, snapshot)


def _is_by_value(place: Place) -> bool:
    old = place.value
    if type(place) is not Entry or not isinstance(old, EagerTensor):
        return False
    new = place.owner.get(place.key)
    return isinstance(new, EagerTensor) and new.type == old.type


def _compiled(places: Sequence[Place]) -> Callable[[], bool]:
    """One function that looks at all places; what it needs are its parameters' defaults, the fastest names."""
    bound: dict[str, Any] = {
        "same": same,
        "object_get": object.__getattribute__,
        **COMPARISONS,
        **classes.COMPARISONS,
    }
    names: dict[int, str] = {}
    conditions = []
    for i, place in enumerate(places):
        owner = names.setdefault(id(place.owner), f"o{i}")
        bound[owner], bound[f"v{i}"] = place.owner, place.bound
        conditions.append(place.source(owner, f"v{i}"))
    body = "\n            and ".join(conditions) or "True"
    text = f"""def holds({", ".join(f"{n}={n}" for n in bound)}):
    try:
        return (
            {body}
        )
    except (LookupError, AttributeError, ValueError):
        return False
"""
    space: dict[str, Any] = dict(bound)
    exec(compile(text, "<tapec guards>", "exec"), space)
    holds: Callable[[], bool] = space["holds"]
    return holds
