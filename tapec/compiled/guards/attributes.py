"""Which places of an object code looks at that names attributes of it, or asks for all of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from tapec.compiled.guards import places
from tapec.compiled.guards.classes import may_change
from tapec.compiled.guards.entries import Entry
from tapec.compiled.guards.equality import is_or_same
from tapec.compiled.guards.instances import Unset
from tapec.compiled.guards.objects import (
    inherited_by,
    is_namespace,
    is_read_by_others,
    kept_in_c,
    looks_up_missing,
    own_attributes,
)
from tapec.compiled.guards.ownership import is_our_class, is_users_class, is_users_module
from tapec.compiled.guards.places import Place
from tapec.compiled.guards.reads import READ, Manner, Reads
from tapec.compiled.guards.runs import inherited
from tapec.compiled.retraces import Cause
from tapec.compiled.shelves import ENTRY
from tapec.frames import is_ours
from tapec.module import Module
from tapec.runtime.cpu.guards.looks import NOTHING
from tapec.variable import Variable

#: Properties of a Module that look for Variables and Modules among its attributes.
_SEARCHES = {"variables", "trainable_variables", "non_trainable_variables", "submodules"}
#: What Python keeps of functions and classes, and lets one assign.
_ABOUT = {
    "__annotations__",
    "__defaults__",
    "__doc__",
    "__kwdefaults__",
    "__module__",
    "__name__",
    "__qualname__",
}


class Attributes:
    """Finds the places of attributes, of whatever object is in reach."""

    def __init__(
        self, reads: Reads, put: Callable[..., None], visit: Callable[[Any, str], None]
    ) -> None:
        """None yet.

        Args:
            reads: what the code does that ran, which grows.
            put: to watch a place that is used in a manner.
            visit: to take a value into reach.
        """
        self._reads = reads
        self._put = put
        self._visit = visit
        #: What objects of a class have from it.
        self._inherited: dict[type, set[str]] = {}

    def watch(self, thing: Any, path: str, names: Mapping[str, Manner]) -> None:
        """Watch those attributes of an object that code names, or all of them."""
        own = own_attributes(thing)
        if isinstance(thing, type | ModuleType | FunctionType):
            if self._reads.spaces:
                self._watch_space(thing, path)
            if isinstance(thing, ModuleType) and is_users_module(thing):
                self._put(
                    places.Attribute(
                        thing, "__class__", type(thing), f"{path}.__class__", Cause.ATTRIBUTE
                    )
                )
        else:
            kind = type(thing)
            if self._reads.kinds and is_users_class(kind):
                where = f"{path}.__class__"
                self._put(places.Attribute(thing, "__class__", kind, where, Cause.ATTRIBUTE))
            if (self._reads.whole and is_users_class(kind)) or is_read_by_others(thing):
                self._watch_whole(thing, path, own)
            if isinstance(thing, Module) and not _SEARCHES.isdisjoint(names):
                self._watch_variables(thing, path, own)
        found = self._names_of(thing, own)
        for name in (found | self._reads.asked) & names.keys():
            self._watch_one(thing, path, name, own, names[name])
        if self._reads.catches or looks_up_missing(thing):
            self._watch_absent(thing, path, {n: m for n, m in names.items() if n not in found})

    def _names_of(self, thing: Any, own: Mapping[str, Any]) -> set[str]:
        """The attributes that an object may have."""
        kind = thing if isinstance(thing, type) else type(thing)
        names = self._inherited.get(kind)
        if names is None:
            owners = (k for k in kind.__mro__ if is_users_class(k) or may_change(k))
            names = {name for owner in owners for name in vars(owner)}
            names |= kept_in_c(kind)
            self._inherited[kind] = names
        found = own.keys() | names
        return found | _ABOUT if isinstance(thing, type | FunctionType) else found

    def _watch_whole(self, thing: Any, path: str, own: Mapping[str, Any]) -> None:
        """Watch all attributes that an object has of its own, and which these are."""
        hidden = getattr(type(thing), "_MEMOS", frozenset()) | {ENTRY}
        for name in own.keys() - hidden:
            self._watch_one(thing, path, name, own, READ)
        if is_users_class(type(thing)) or is_namespace(thing):
            self._put(places.Names(thing, path, hidden))

    def _watch_space(self, thing: Any, path: str) -> None:
        """Watch all that a class, a module or a function of the user has, but for a module's functions and classes."""
        if isinstance(thing, ModuleType) and not is_users_module(thing):
            return
        own = places.spaces_of(thing)
        parts = FunctionType | type | ModuleType if isinstance(thing, ModuleType) else ()
        hidden = {n for n in own if n.startswith("__")} | {ENTRY}
        for name in own.keys() - hidden:
            if not isinstance(own[name], parts):
                self._watch_one(thing, path, name, own_attributes(thing), READ)
        self._put(places.Names(thing, path, hidden))

    def _watch_absent(self, thing: Any, path: str, names: Mapping[str, Manner]) -> None:
        """Watch that attributes stay away that code names, and that neither an object nor its class has."""
        kind = thing if isinstance(thing, type) else type(thing)
        if isinstance(thing, ModuleType):
            owners = [thing] if is_users_module(thing) else []
        else:
            own = [thing] if isinstance(thing, FunctionType) or is_users_class(kind) else []
            owners = own + [owner for owner in _users_classes(kind) if owner is not thing]
        absent = {n for n, manner in names.items() if manner.read and not manner.stored_first}
        absent -= _ABOUT  # a class gets its annotations when somebody asks for them
        for owner in owners:
            where = path if owner is thing else owner.__qualname__
            self._put(places.Absent(owner, where, absent))

    def _watch_variables(self, module: Module, path: str, own: Mapping[str, Any]) -> None:
        """Watch what a Module finds Variables in."""
        for name, value in list(own.items()):
            if isinstance(value, Variable | Module | Mapping | list | tuple | None):
                self._watch_one(module, path, name, own, READ)
        self._put(places.Names(module, path, {ENTRY}))

    def _watch_one(
        self, thing: Any, path: str, name: str, own: Mapping[str, Any], manner: Manner
    ) -> None:
        where = f"{path}.{name}"
        if isinstance(thing, ModuleType):
            self._watch_of_module(thing, name, own, where, manner)
            return
        if name in _ABOUT and isinstance(thing, FunctionType | type) and hasattr(thing, name):
            value = getattr(thing, name)
            self._put(places.Attribute(thing, name, value, where, Cause.ATTRIBUTE), manner)
            return
        kind = thing if isinstance(thing, type) else type(thing)
        if not isinstance(thing, type) and name in kept_in_c(kind):
            self._watch_in_c(thing, name, where, manner)
            return
        given = inherited_by(kind, name)
        is_fixed = hasattr(type(given), "__set__")
        if given is NOTHING and name not in own:
            is_asked = name in self._reads.asked and not is_our_class(kind)
            # What a class of Python's gives, as a function's `__call__`, is there and stays.
            if is_asked and not looks_up_missing(thing) and not hasattr(thing, name):
                self._put(places.Missing(thing, name, None, where, Cause.ATTRIBUTE), manner)
            elif not isinstance(thing, type) and _may_hide(kind, name):
                self._put(Unset(thing, name, where), manner)
        elif name in own and not is_fixed and not isinstance(thing, type):
            own_way = isinstance(kind.__getattribute__, FunctionType)
            place = places.Slot if own_way else places.Attribute
            self._put(place(thing, name, own[name], where, Cause.ATTRIBUTE), manner)
        elif type(given).__name__ == "member_descriptor" and not isinstance(thing, type):
            self._put(_slot(thing, name, where), manner)
        else:
            self._watch_inherited(thing, kind, name, given, where, manner)

    def _watch_in_c(self, thing: Any, name: str, path: str, manner: Manner) -> None:
        """Watch what C code gives of an object, if it gives the same each time."""
        try:
            value = getattr(thing, name)
            is_fixed = is_or_same(value, getattr(thing, name))
        except (AttributeError, ValueError):  # of a closed file
            return
        if is_fixed:
            self._put(places.Attribute(thing, name, value, path, Cause.ATTRIBUTE), manner)

    def _watch_of_module(
        self, module: ModuleType, name: str, own: Mapping[str, Any], path: str, manner: Manner
    ) -> None:
        """Watch what is in a module of the user's or of others."""
        if name in own:
            changes = own[name] is sys.modules and manner.questions is None
            if not changes and not is_ours(module.__name__):
                self._put(Entry(own, name, own[name], path, Cause.GLOBAL), manner)
        elif (
            name in self._reads.asked
            and is_users_module(module)
            and not looks_up_missing(module)
            and not hasattr(module, name)
        ):
            self._put(places.Missing(module, name, None, path, Cause.GLOBAL), manner)

    def _watch_inherited(
        self, thing: Any, kind: type, name: str, given: Any, path: str, manner: Manner
    ) -> None:
        """Watch what an object has from its class."""
        place: Place
        if isinstance(given, FunctionType) and not isinstance(thing, type):
            place = places.Method(thing, name, given, path, Cause.ATTRIBUTE)
        elif isinstance(given, classmethod):
            place = places.Method(thing, name, given.__func__, path, Cause.ATTRIBUTE)
        elif type(given) in (property, functools.cached_property):
            place = places.Attribute(kind, name, given, path, Cause.ATTRIBUTE)
        elif isinstance(given, staticmethod):
            place = places.Attribute(thing, name, given.__func__, path, Cause.ATTRIBUTE)
        elif not hasattr(type(given), "__get__") or isinstance(given, FunctionType):
            place = places.Attribute(thing, name, given, path, Cause.ATTRIBUTE)
        else:
            # A descriptor of the user: its methods are functions like others.
            self._visit(given, path)
            if not isinstance(thing, type | ModuleType) and kind.__dictoffset__:
                self._put(Unset(thing, name, path), manner)  # which would hide it
            return
        self._put(place, manner)


def _users_classes(kind: type) -> Iterator[type]:
    return filter(is_users_class, kind.__mro__)


def _may_hide(kind: type, name: str) -> bool:
    """Whether what a package's class has under a name can be hidden by an attribute of its objects' own."""
    found = inherited(kind, name)
    hides = found is not NOTHING and not hasattr(type(found), "__set__")
    return hides and kind.__dictoffset__ != 0 and may_change(kind)


def _slot(thing: Any, name: str, path: str) -> Place:
    """The place of a slot, which may be empty."""
    if places.lacks(thing, name):
        return places.Lacking(thing, name, None, path, Cause.ATTRIBUTE)
    value = object.__getattribute__(thing, name)
    return places.Attribute(thing, name, value, path, Cause.ATTRIBUTE)
