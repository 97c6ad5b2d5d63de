"""Python state that code of installed packages reads while a function is traced: a layer's rate, a package's setting.

Such code is looked at where it runs (see `trails`): each attribute that it loads of an object that was there before,
each global, each container that it goes over. What the trace itself changes (caches, counters, what is built when it
is first asked for) is the package's own affair, and objects that the trace makes are of no later call.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum, auto
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

from tapec.autograph.conversion import original_code
from tapec.compiled.guards import places
from tapec.compiled.guards.classes import ByVersion
from tapec.compiled.guards.entries import Entry, Gap, Member
from tapec.compiled.guards.equality import is_or_same
from tapec.compiled.guards.instances import Held, Unset
from tapec.compiled.guards.objects import NOTHING, function_behind, own_attributes
from tapec.compiled.guards.ownership import is_users_code
from tapec.compiled.guards.places import Place, text_of
from tapec.compiled.guards.reads import reads_of
from tapec.compiled.guards.trails import Hearing, Run, Trail, held_under, inherited
from tapec.compiled.retraces import Cause, Change
from tapec.frames import is_ours
from tapec.tensor import Tensor
from tapec.tracing import TracedTensor
from tapec.variable import Variable

#: Python's own modules that are about code and objects in general, not about settings of anybody's: followed only
#: where the user calls them.
_MACHINERY = set(
    "_collections_abc _weakrefset abc ast asyncio bdb codecs collections concurrent contextlib copy copyreg dis "
    "encodings functools genericpath importlib inspect io keyword linecache multiprocessing ntpath opcode operator os "
    "pathlib pdb pprint posixpath re reprlib selectors shutil site subprocess sysconfig tempfile textwrap threading "
    "timeit token tokenize traceback types typing typing_extensions unittest warnings weakref zipimport".split()
)
#: What tapec itself is made with: followed where others call it.
_OWN = {"ml_dtypes", "networkx", "numpy", "optree", "scipy", "llvmlite", "numba", "rich"}
#: Containers whose items count where code goes over them.
_CONTAINERS = (list, dict, set, deque, bytearray, MappingProxyType)
#: What has no attributes that matter.
_LEAVES = (int, float, complex, str, bytes, tuple, frozenset, type(None), Tensor, Variable)
#: Through which no state is found.
_NO_WAY = (int, float, complex, str, bytes, type(None), Tensor, Variable)
#: Up to so many items of a container are told apart, of those that a call has made for its arguments.
_FEW = 8
#: Places of a container that the trace itself filled would be as many as it has items.
_LARGEST = 4096


class _Sort(Enum):
    """How far code is followed."""

    #: Tapec's, and what it has for packages that run on it: not at all, but for objects that the latter makes.
    CORE = auto()
    ENGINE = auto()
    #: Python's import, and who finds modules for it: what was imported is told by names.
    IMPORT = auto()
    #: The user's: in another way.
    USER = auto()
    #: A package's, whoever calls it; Python's and what tapec is made with, where code that is followed does.
    PACKAGE = auto()
    MACHINERY = auto()
    OWN = auto()


class _Running(NamedTuple):
    """A frame that is followed: what its code may load, arguments, and what calls gave, by instruction."""

    trail: Trail
    local: dict[str, Any]
    results: dict[int, list[Any]]


class Library(Hearing):
    """What code of installed packages read during one trace.

    Attributes:
        running: by the ``id`` of frames that are followed, what is known of them.
        passed: the ``id`` of code of which nobody has to tell that it is entered: most that runs is tapec's.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        #: By the ``id`` of code: how far it is followed, and what it may load.
        self._sorts: dict[int, _Sort] = {}
        self._trails: dict[int, Trail] = {}
        self.running: dict[int, _Running] = {}
        self.passed: set[int] = set()
        #: What was looked at: code with what it was handed, code of methods with a class, what was read of what.
        self._looked: set[tuple[int, ...]] = set()
        self._methods: set[tuple[int, int]] = set()
        self._told: set[tuple[int, str]] = set()
        #: What has been seen, by ``id``, kept alive; and what the trace made.
        self._alive: dict[int, Any] = {}
        self._made: set[int] = set()
        self._places: dict[tuple[int, type, Any], Place] = {}
        self._kinds: dict[type, dict[str, Any]] = {}

    # -- hearing of functions

    def entered(self, frame: FrameType) -> None:
        """Hear of a call."""
        code, sort = frame.f_code, self._sort_of(frame)
        if sort in (_Sort.CORE, _Sort.IMPORT):
            self.passed.add(id(code))
            return
        if code.co_name == "__init__" and code.co_argcount:
            self._hear_of_new(frame)
        if sort in (_Sort.USER, _Sort.ENGINE) or not self._is_followed(sort, frame.f_back):
            return
        trail = self._trails.get(id(code))
        if trail is None:
            trail = self._trails[id(code)] = _trail_of(code)
            if frame.f_globals.get("__name__", "").startswith("optree"):
                self.items_read(sys.modules["optree.registry"]._NODETYPE_REGISTRY)
        local: dict[str, Any] = {}
        if trail.local:
            held = frame.f_locals
            local = {name: held[name] for name in trail.local if name in held}
            self._hear_of_method(code, local)
        running = self.running[id(frame)] = _Running(trail, local, {})
        self._look(frame, running)

    def left(self, frame: FrameType, result: Any) -> None:
        """Hear of the end of a call, and note for who called what it gave."""
        found = self.running.pop(id(frame), None)
        if found is not None and found.results:
            self._look(frame, found)
        caller = frame.f_back
        waiting = None if caller is None else self.running.get(id(caller))
        if caller is None or waiting is None:
            return
        number = waiting.trail.number(caller.f_lasti)
        if number in waiting.trail.leading and self._may_lead(result):
            given = waiting.results.setdefault(number, [])
            if not any(result is other for other in given):
                given.append(result)

    def listens(self, frame: FrameType) -> bool:
        """Whether what a frame asks matters: the user's does, and what is followed."""
        return id(frame) in self.running or self._sort_of(frame) is _Sort.USER

    def _hear_of_new(self, frame: FrameType) -> None:
        made = frame.f_locals.get(frame.f_code.co_varnames[0])
        self._alive[id(made)] = made
        self._made.add(id(made))

    def _look(self, frame: FrameType, running: _Running) -> None:
        """Look at what the code loads, unless it ran with these very objects before."""
        trail, local, results = running
        names = (*trail.parameters, *frame.f_code.co_freevars)
        given = [local[name] for name in names if name in local]
        given += [result for found in results.values() for result in found]
        leading = [part for thing in given for part in _parts(thing) if self._tells(part)]
        key = (id(frame.f_code), *(hash(t) if type(t) is str else id(t) for t in leading))
        if key in self._looked:
            return
        self._looked.add(key)
        for thing in leading:
            self._alive[id(thing)] = thing
        Run(trail, frame.f_globals, local, results, self).look()

    def _tells(self, thing: Any) -> bool:
        """Whether another thing may lead elsewhere; a text may name an attribute."""
        return isinstance(thing, str) or self._may_lead(thing)

    def _may_lead(self, thing: Any) -> bool:
        """Whether state may be found through a thing: not through numbers and tensors, nor what the trace made."""
        return id(thing) not in self._made and not issubclass(type(thing), _NO_WAY)

    def _sort_of(self, frame: FrameType) -> _Sort:
        code = frame.f_code
        known = self._sorts.get(id(code))
        if known is None:
            self._alive[id(code)] = code
            known = self._sorts[id(code)] = _sort(code, frame.f_globals)
        return known

    def _is_followed(self, sort: _Sort, caller: FrameType | None) -> bool:
        if caller is None:
            return False
        above = self._sort_of(caller)
        if above is _Sort.USER:
            return True
        if above in (_Sort.CORE, _Sort.ENGINE):
            return sort is _Sort.PACKAGE
        followed = id(caller) in self.running
        if sort is _Sort.MACHINERY:
            return followed and above is _Sort.MACHINERY
        return followed or (above is _Sort.MACHINERY and sort is _Sort.PACKAGE)

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
                self._defaults_read(function)
                return

    def _defaults_read(self, function: Any) -> None:
        for name in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value is not None:
                path = f"{function.__module__}.{function.__qualname__}.{name}"
                self._put(places.Attribute(function, name, value, path, Cause.CONTENTS))
                if isinstance(value, dict):
                    self.items_read(value)

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

    def attribute_read(self, thing: Any, name: str) -> None:
        """An attribute, or that there is none."""
        if name.startswith("__") or id(thing) in self._made or isinstance(thing, _LEAVES):
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
        elif kind.__dictoffset__ and own is object.__getattribute__(thing, "__dict__"):
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
        if kind.__flags__ & (1 << 9) and not is_ours(
            kind.__module__
        ):  # made by Python code: it may change
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
            self._put(Entry(thing, key, thing[key], path, Cause.ENTRY))
        elif type(thing) is dict:
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
        if id(thing) not in self._made and (
            isinstance(thing, np.ndarray) or len(thing) <= _LARGEST
        ):
            path = f"a {type(thing).__name__} of a package"
            key = (id(thing), places.Contents, None)
            if key not in self._places:
                self._put(places.Contents(thing, path))

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
            if _stayed(place):
                yield place
        for kind, names in self._kinds.items():
            found = ClassNames(kind, names)
            if found.holds():
                yield found


def _stayed(place: Place) -> bool:
    """Whether a place is as it was when it was read first: else the trace itself changes it."""
    try:
        if isinstance(place, places.Contents | Gap | Member | Unset):
            return place.holds()
        return place.now() is place.value
    except (LookupError, AttributeError, ValueError, RuntimeError):
        return False


class ClassNames(ByVersion):
    """What a class of a package has under some names, of its own or from those that it is derived from."""

    def __init__(self, owner: type, names: Mapping[str, Any]) -> None:
        """``names``: with what was under them."""
        super().__init__(owner, None, dict(names), owner.__qualname__, Cause.ATTRIBUTE)

    def now(self) -> Any:
        """The same of now."""
        return {name: inherited(self.owner, name) for name in self.value}

    def _holds(self) -> bool:
        now = self.now()
        return all(is_or_same(now[name], held) for name, held in self.value.items())

    def change(self) -> Change:
        """The first name under which something else is."""
        now = self.now()
        name = next(n for n, held in self.value.items() if not is_or_same(now[n], held))
        old, new = (
            "nothing" if held is NOTHING else text_of(held)
            for held in (self.value[name], now[name])
        )
        return Change(f"{self.path}.{name}", self.cause, old, new)


@lru_cache(4096)
def _trail_of(code: CodeType) -> Trail:
    return Trail(code)


def _sort(code: CodeType, space: dict[str, Any]) -> _Sort:
    module = space.get("__name__") or ""
    root = module.partition(".")[0]
    if root == "tapec":
        return _Sort.ENGINE if module.startswith("tapec.keras") else _Sort.CORE
    if is_users_code(original_code(code), space):
        return _Sort.USER
    if code.co_filename.startswith("<frozen importlib"):
        return _Sort.IMPORT
    if root in _MACHINERY or code.co_filename.startswith("<frozen") or not root:
        return _Sort.MACHINERY
    return _Sort.OWN if root in _OWN or root in sys.stdlib_module_names else _Sort.PACKAGE


def _parts(thing: Any) -> Sequence[Any]:
    """What tells apart a thing that may be made at each call."""
    if type(thing) in (tuple, list) and len(thing) <= _FEW:
        return tuple(thing)
    if type(thing) is dict and len(thing) <= _FEW:
        return tuple(thing.values())
    return (thing,)


def _called(thing: Any) -> str:
    """How messages call an object of a package."""
    kind = type(thing).__qualname__
    own = own_attributes(thing)
    name = next((own[n] for n in ("name", "_name") if isinstance(own.get(n), str)), None)
    return f"{kind} object" if name is None else f"{kind} {name!r}"
