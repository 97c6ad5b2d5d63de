"""Python state that code of installed packages reads while a function is traced: a layer's rate, a package's setting.

Such code is looked at where it runs (see `trails`): each attribute that it loads of an object that was there before,
each global, each container that it goes over. What the trace itself changes (caches, counters, what is built when it
is first asked for) is the package's own affair, and objects that the trace makes are of no later call.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from abc import ABCMeta
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from types import (
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from tapec.compiled.guards import places
from tapec.compiled.guards.classes import ClassNames, Registry, is_made, may_change
from tapec.compiled.guards.entries import Entry, Gap, Member
from tapec.compiled.guards.instances import Held, Unset
from tapec.compiled.guards.objects import (
    GETTERS,
    cell_of,
    function_behind,
    is_filled,
    own_attributes,
)
from tapec.compiled.guards.ownership import Sort, sort_of
from tapec.compiled.guards.places import Place, text_of
from tapec.compiled.guards.reads import reads_of
from tapec.compiled.guards.running import function_of
from tapec.compiled.guards.runs import MOST, Hearing, Run, held_under, inherited
from tapec.compiled.guards.trails import Trail
from tapec.compiled.retraces import Cause, RetraceWarning
from tapec.frames import depth, is_ours
from tapec.runtime.cpu.guards.looks import NOTHING
from tapec.tensor import Tensor
from tapec.tracing import TracedTensor
from tapec.variable import Variable

#: Containers whose items count where code goes over them.
_CONTAINERS = (list, dict, set, deque, bytearray, MappingProxyType)
#: What has no attributes that matter, unless a class that is derived from it gives them; and what has none at all.
_LEAVES = (int, float, complex, str, bytes, tuple, frozenset, type(None))
_OURS = (Tensor, Variable)
#: Places of what is in a container.
_OF_ITEMS = (places.Contents, Entry, Gap, Member)
#: Up to so many items of a container are told apart, of those that a call has made for its arguments.
_FEW = 8
#: Modules of Python whose classes packages register their own with, when they are imported.
_SHARED = {"collections.abc", "numbers", "os", "io", "typing", "contextlib", "importlib.abc"}


class _Running(NamedTuple):
    """A frame that is followed: what its code may load, arguments, and what calls gave, by instruction."""

    trail: Trail
    local: dict[str, Any]
    results: dict[int, list[Any]]
    function: FunctionType | None


class Library(Hearing):
    """What code of installed packages read during one trace.

    Attributes:
        running: by the ``id`` of frames that are followed, what is known of them.
        passed: the ``id`` of code of which nobody has to tell that it is entered: most that runs is tapec's.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        #: By the ``id`` of code: how far it is followed, and what it may load.
        self._sorts: dict[int, Sort] = {}
        self._trails: dict[int, Trail] = {}
        self.running: dict[int, _Running] = {}
        self.passed: set[int] = set()
        #: Frames that are looked at once more when they end, by ``id``.
        self._waiting: set[int] = set()
        #: What was looked at: code with what it was handed, code of methods with a class, what was read of what.
        self._looked: set[tuple[Any, ...]] = set()
        self._methods: set[tuple[int, int]] = set()
        self._told: set[tuple[int, str]] = set()
        #: What has been seen, by ``id``, kept alive; and what the trace made.
        self._alive: dict[int, Any] = {}
        self._made: set[int] = set()
        self._ends: dict[int, weakref.ref[Any]] = {}
        self._places: dict[tuple[int, type, Any], Place] = {}
        #: What containers of the user's held, by ``id``, before the trace changed them by code of Python's.
        self._users: dict[int, places.Contents] = {}
        self._kinds: dict[type, dict[str, Any]] = {}
        #: Which function runs whose code is looked at.
        self._function: FunctionType | None = None
        #: What was found, and so was there before.
        self._found: dict[int, Any] = {}
        #: Code of which not all values were looked at.
        self._left_out: dict[CodeType, None] = {}

    # -- hearing of functions

    def entered(self, frame: FrameType) -> None:
        """Hear of a call."""
        code, sort = frame.f_code, self._sort_of(frame)
        if code.co_name == "<module>" and id(frame.f_back) in self.running:
            sort = Sort.PACKAGE  # a text that it evaluates
        if sort in (Sort.CORE, Sort.IMPORT):
            self.passed.add(id(code))
            return
        if code.co_name == "__init__" and code.co_argcount:
            self._hear_of_new(frame)
        if sort in (Sort.USER, Sort.ENGINE) or not self._is_followed(sort, frame.f_back):
            return
        trail = self._trails.get(id(code))
        if trail is None:
            trail = self._trails[id(code)] = _trail_of(code, _applies(code, frame.f_globals))
            if frame.f_globals.get("__name__", "").startswith("optree"):
                self.items_read(sys.modules["optree.registry"]._NODETYPE_REGISTRY)
        local: dict[str, Any] = {}
        if trail.local:
            held = frame.f_locals
            local = {name: held[name] for name in trail.local if name in held}
            self._hear_of_method(code, local)
        function = function_of(frame)
        if function is not None and self._is_news(function, "__defaults__"):
            self._defaults_read(function)
        running = self.running[id(frame)] = _Running(trail, local, {}, function)
        self._look(frame, running)

    def left(self, frame: FrameType, result: Any) -> list[Any]:
        """Hear of the end of a call, and note for who called what it gave.

        Returns:
            What the user's code got that was there before.
        """
        found = self.running.pop(id(frame), None)
        if found is not None and (found.results or id(frame) in self._waiting):
            self._waiting.discard(id(frame))
            self._look(frame, found, is_over=True)
        caller = frame.f_back
        waiting = None if caller is None else self.running.get(id(caller))
        if caller is None or waiting is None:
            is_users = caller is not None and self._sort_of(caller) is Sort.USER
            parts = result if type(result) in (tuple, list) else (result,)
            return [part for part in parts if id(part) in self._found] if found and is_users else []
        number = waiting.trail.number(caller.f_lasti)
        trail = waiting.trail
        if number in trail.asking or (number in trail.leading and self._may_lead(result)):
            given = waiting.results.setdefault(number, [])
            if not any(result is other for other in given):
                given.append(result)
        return []

    def listens(self, frame: FrameType) -> bool:
        """Whether what a frame asks matters: the user's does, and what is followed."""
        return id(frame) in self.running or self._sort_of(frame) is Sort.USER

    def _hear_of_new(self, frame: FrameType) -> None:
        made = frame.f_locals.get(frame.f_code.co_varnames[0])
        identity = id(made)
        self._made.add(identity)
        try:  # it may end as soon as nobody else holds it
            self._ends[identity] = weakref.ref(made, lambda _: self._made.discard(identity))
        except TypeError:
            self._alive[identity] = made

    def _look(self, frame: FrameType, running: _Running, is_over: bool = False) -> None:
        """Look at what the code loads, unless it ran with these very objects before."""
        trail, local, results, self._function = running
        names = (*trail.parameters, *frame.f_code.co_freevars)
        given = [local[name] for name in names if name in local]
        given += [result for found in results.values() for result in found]
        leading = [part for thing in given for part in _parts(thing) if self._tells(part)]
        asked = [local[name] for name in trail.keyed if name in local]
        asked += [result for n, found in results.items() if n in trail.asking for result in found]
        key = (
            id(frame.f_code),
            id(self._function),
            is_over,
            *map(_mark, leading),
            *map(_mark, asked),
        )
        if key in self._looked:
            return
        if trail.waits and not is_over:
            self._waiting.add(id(frame))
        self._looked.add(key)
        for thing in (*leading, *asked, self._function):
            self._alive[id(thing)] = thing
        Run(trail, frame.f_globals, local, results, self, is_over).look()

    def _tells(self, thing: Any) -> bool:
        """Whether another thing may lead elsewhere; a text may name an attribute."""
        return isinstance(thing, str) or self._may_lead(thing)

    def _may_lead(self, thing: Any) -> bool:
        """Whether state may be found through a thing: not through numbers and tensors, nor what the trace made."""
        return id(thing) not in self._made and (
            isinstance(thing, tuple | frozenset) or not _is_leaf(type(thing))
        )

    def _sort_of(self, frame: FrameType) -> Sort:
        code = frame.f_code
        known = self._sorts.get(id(code))
        if known is None:
            self._alive[id(code)] = code
            known = self._sorts[id(code)] = sort_of(code, frame.f_globals)
        return known

    def _is_followed(self, sort: Sort, caller: FrameType | None) -> bool:
        if caller is None:
            return False
        above = self._sort_of(caller)
        if above is Sort.USER:
            return True
        if above in (Sort.CORE, Sort.ENGINE):
            return sort is Sort.PACKAGE
        followed = id(caller) in self.running
        if sort is Sort.MACHINERY:
            return followed and above is Sort.MACHINERY
        return followed or (above is Sort.MACHINERY and sort is Sort.PACKAGE)

    def _hear_of_method(self, code: CodeType, local: Mapping[str, Any]) -> None:
        """Watch the class that has a method which was found by the class alone."""
        if not code.co_argcount:
            return
        first = local.get(code.co_varnames[0], NOTHING)
        kind = first if isinstance(first, type) else type(first)
        if (id(code), id(kind)) in self._methods:
            return
        self._methods.add((id(code), id(kind)))
        self._alive[id(kind)] = kind
        for name in (code.co_name, "__new__"):
            function = function_behind(inherited(kind, name))
            if isinstance(function, FunctionType) and function.__code__ is code:
                self._class_read(kind, name)
                if kind is not first:
                    self.class_read(first)
                self._defaults_read(function)
                return

    def _defaults_read(self, function: Any) -> None:
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value is not None:
                path = f"{function.__module__}.{function.__qualname__}.{name}"
                self._put(places.Attribute(function, name, value, path, Cause.CONTENTS))
                parts = value.values() if isinstance(value, dict) else value
                for part in () if name == "__code__" else (value, *parts):
                    if self.has_items(part):
                        self.items_read(part)

    # -- what code reads

    def global_read(self, space: Mapping[str, Any], name: str) -> None:
        """A global."""
        if name not in space or type(space) is not dict or not self._is_news(space, name):
            return
        value = space[name]
        path = f"{space.get('__name__', '')}.{name}"
        self._put(Entry(space, name, value, path, Cause.GLOBAL))
        if isinstance(value, ContextVar):
            self._put(places.Current(value, path))
        function = function_behind(value)
        if isinstance(function, FunctionType):
            self._defaults_read(function)
        if isinstance(value, ABCMeta):
            self._put(Registry(value, users=value.__module__ in _SHARED))

    def attribute_read(self, thing: Any, name: str) -> None:
        """An attribute, or that there is none."""
        if name.startswith("__") or id(thing) in self._made or _is_leaf(type(thing)):
            return
        if not self._is_news(thing, name):
            return
        if isinstance(thing, ModuleType):
            if not is_ours(thing.__name__):
                self.global_read(vars(thing), name)
            return
        if isinstance(thing, type):
            self._class_read(thing, name)
            return
        kind = type(thing)
        if is_ours(kind.__module__) and not kind.__module__.startswith("tapec.keras"):
            return
        self.class_read(thing)
        self._class_read(kind, name)
        given = inherited(kind, name)
        getter = given.fget if isinstance(given, property) else None
        if isinstance(getter, FunctionType) and is_ours(getter.__module__):
            for read in reads_of(getter.__code__).names[
                "attribute"
            ]:  # our own code is not followed
                self.attribute_read(thing, read)
            return
        path = f"{_called(thing)}.{name}"
        if isinstance(given, MemberDescriptorType):
            value = held_under(thing, name)
            if value is not NOTHING:
                self._put(places.Attribute(thing, name, value, path, Cause.ATTRIBUTE))
            return
        if hasattr(type(given), "__set__"):
            return  # whose code is followed, if it has any
        own = own_attributes(thing)
        if type(own) is not dict:
            return
        if name in own:
            self._put(Held(thing, name, own[name], path))
        elif kind.__dictoffset__ and own is own_attributes(thing):
            # Not a dict that was made to say that there is none.
            self._put(Unset(thing, name, path))
        if isinstance(own.get(name), ContextVar):
            self._put(places.Current(own[name], path))

    def _is_news(self, thing: Any, name: str) -> bool:
        """Whether it is heard for the first time that something is read of a thing."""
        key = id(thing), name
        if key in self._told:
            return False
        self._told.add(key)
        self._alive[id(thing)] = thing
        return True

    def _class_read(self, kind: type, name: str) -> None:
        if may_change(kind):
            self._alive[id(kind)] = kind
            known = self._kinds.setdefault(kind, {})
            if name not in known:
                known[name] = inherited(kind, name)

    def entry_read(self, thing: dict[Any, Any], key: Any) -> None:
        """An entry of a dict, or that there is none."""
        if id(thing) in self._made:
            return
        if type(thing).__getitem__ is not dict.__getitem__:
            self.items_read(thing)
            return
        path = f"{text_of(key)} in a dict of {len(thing)}"
        if key in thing:
            self._put(Entry(thing, key, dict.get(thing, key), path, Cause.ENTRY))
        else:
            self._put(Gap(thing, key, None, path, Cause.ENTRY))

    def member_read(self, thing: Any, key: Any) -> None:
        """Whether a dict or a set has a key."""
        if id(thing) in self._made:
            return
        if type(thing).__contains__ in (dict.__contains__, set.__contains__):
            self._put(Member(thing, key, f"a {type(thing).__name__} of a package"))
        else:
            self.items_read(thing)

    def items_read(self, thing: Any) -> None:
        """The items of a container."""
        if id(thing) not in self._made:
            path = f"a {type(thing).__name__} of a package"
            key = (id(thing), places.Contents, None)
            if key not in self._places:
                self._put(places.Contents(thing, path))

    def seen(self, value: Any) -> None:
        """What was found on the way, and so was there before."""
        if self._may_lead(value) and not isinstance(value, FunctionType | ModuleType | type):
            self._found[id(value)] = value

    def closed_read(self, name: str) -> None:
        """A closure variable of the function that runs."""
        function = self._function
        cell = None if function is None or name == "__class__" else cell_of(function, name)
        if function is not None and cell is not None and is_filled(cell):
            path = f"{function.__module__}.{function.__qualname__}.{name}"
            self._put(places.Closed(cell, name, cell.cell_contents, path, Cause.CLOSURE))

    def class_read(self, thing: Any) -> None:
        """Of which class an object is, if that can change."""
        kind = type(thing)
        if may_change(kind) and not issubclass(kind, type) and id(thing) not in self._made:
            path = f"{_called(thing)}.__class__"
            self._put(places.Attribute(thing, "__class__", kind, path, Cause.ATTRIBUTE))

    def whole_read(self, thing: Any) -> Iterable[str]:
        """All attributes of a thing, one of which is asked for by a name that is not known."""
        own = own_attributes(thing)
        if own and id(thing) not in self._made and not isinstance(thing, ModuleType | type):
            self._put(places.Names(thing, _called(thing), frozenset()))
        kinds = thing.__mro__ if isinstance(thing, type) else type(thing).__mro__
        return {*own, *(name for kind in kinds if is_made(kind) for name in vars(kind))}

    def users(self, container: Any, path: str) -> None:
        """Hear of what a container of the user's keeps its items in, for code of Python's."""
        self._users.setdefault(id(container), places.Contents(container, path))

    def left_out(self, code: CodeType) -> None:
        """That not all values were looked at."""
        self._left_out[code] = None

    def has_items(self, thing: Any) -> bool:
        """Whether a thing is a container whose items may change."""
        return isinstance(thing, _CONTAINERS) or (
            isinstance(thing, np.ndarray) and not thing.dtype.hasobject
        )

    def _put(self, place: Place) -> None:
        key = (id(place.owner), type(place), place.key)
        if key not in self._places and not isinstance(place.value, TracedTensor):
            self._alive[id(place.owner)] = place.owner
            self._places[key] = place

    # -- the end

    def tell(self, name: str) -> None:
        """Warn if code goes over so much that not all of it is watched."""
        for code in self._left_out:
            warnings.warn(
                f"{name} is traced through {code.co_qualname} of an installed package, which goes over more than "
                f"{MOST} objects: what changes in those behind is not noticed\n  {code.co_filename}:"
                f"{code.co_firstlineno}\n  remedy: call it outside of the function, and pass what it gives",
                RetraceWarning,
                stacklevel=depth(),
            )

    def places(self, taken: Sequence[Any]) -> Iterator[Place]:
        """What to look at before each call; ``taken``: arrays that the program takes as inputs."""
        inputs = {id(thing) for thing in taken}
        self._looked.clear()
        self._methods.clear()
        self._told.clear()
        self.running.clear()
        made, self._alive = self._made, {}
        for place in list(self._places.values()):
            owner = place.owner
            if id(owner) in made or id(owner) in inputs or id(place.value) in made:
                continue
            if place.stayed():
                yield place
            elif isinstance(place, _OF_ITEMS) and id(owner) in self._users:
                yield self._users[id(owner)]
        for kind, names in self._kinds.items():
            found = ClassNames(kind, names)
            if found.holds():
                yield found


@lru_cache(4096)
def _trail_of(code: CodeType, applies: bool) -> Trail:
    return Trail(code, applies)


def _applies(code: CodeType, space: Mapping[str, Any]) -> bool:
    """Whether code calls getters that Python made in C."""
    made = not {kind.__name__ for kind in GETTERS}.isdisjoint(code.co_names)
    return made or any(isinstance(space.get(name), GETTERS) for name in code.co_names)


def _parts(thing: Any) -> Sequence[Any]:
    """What tells apart a thing that may be made at each call."""
    if type(thing) in (tuple, list) and len(thing) <= _FEW:
        return tuple(thing)
    if type(thing) is dict and len(thing) <= _FEW:
        return tuple(thing.values())
    return (thing,)


def _is_leaf(kind: type) -> bool:
    """Whether objects of a class have no attributes that matter."""
    return issubclass(kind, _OURS) or (issubclass(kind, _LEAVES) and not kind.__dictoffset__)


def _mark(thing: Any) -> Any:
    """What tells one value from another: of keys, the value."""
    kind = type(thing)
    return (kind, thing) if kind in (str, int, bool, bytes) else id(thing)


def _called(thing: Any) -> str:
    """How messages call an object of a package."""
    kind = type(thing).__qualname__
    own = own_attributes(thing)
    name = next((own[n] for n in ("name", "_name") if isinstance(own.get(n), str)), None)
    return f"{kind} object" if name is None else f"{kind} {name!r}"
