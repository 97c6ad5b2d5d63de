"""What a branch or loop of the program can reach and change, and what it did to that.

Python changes lists, arrays and attributes while a branch is traced, whatever the run will find. So all that code can
change is looked at before it runs: of each function of the user's that is entered, the names that it has, and what
these lead to. What was there before a branch is found from the functions that it consists of, from globals and classes;
objects that the branch makes are in reach of none of these, and are its own affair.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from tapec.autograph import fields
from tapec.autograph.buffers import Buffer
from tapec.autograph.containers import KINDS, Held, Pair
from tapec.autograph.conversion import original_code
from tapec.autograph.fields import Fields
from tapec.autograph.holders import buffer_of
from tapec.autograph.places import Place
from tapec.autograph.readers import CONTAINING, Readers, running
from tapec.compiled.guards.beginnings import stored_by
from tapec.compiled.guards.objects import (
    closed_over,
    has_attributes,
    is_filled,
    own_attributes,
    parts_of,
    wrapped_by,
)
from tapec.compiled.guards.ownership import is_our_class, is_users_class, is_users_code
from tapec.compiled.guards.reads import parts
from tapec.errors import TypeError
from tapec.frames import here, is_ours
from tapec.instructions import kept_for
from tapec.recording import current_trace
from tapec.structure import flatten
from tapec.tensor import Tensor
from tapec.traces.hearing import listening, unheard
from tapec.variable import Variable

#: What holds nothing that code could change.
_LEAVES = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    np.generic,
    np.dtype,
    CodeType,
    Tensor,
    Variable,
)
#: Names by which code gets at attributes whose names are values.
_ANY_NAME = {
    "getattr",
    "setattr",
    "delattr",
    "__setattr__",
    "__dict__",
    "vars",
    "globals",
    "attrgetter",
}
#: What Python keeps of a function, and lets code assign.
_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
#: How far functions and objects of ours lead to the user's functions that they call.
_DEEPEST = 4

Holder = Held | Buffer | Fields
#: What became of what was reached, by its number.
Ends = dict[int, Any]


class _Words(NamedTuple):
    """What a piece of code names, and what of that it stores."""

    names: frozenset[str]
    stored: frozenset[str]
    by_any_name: bool


@kept_for(4096)
def _words_of(code: CodeType) -> _Words:
    names: set[str] = set()
    stored = {*stored_by(code)}
    for part in parts(code):
        names |= {*part.co_names}
        texts = [c for c in part.co_consts if isinstance(c, str) and c.isidentifier()]
        if not _ANY_NAME.isdisjoint(part.co_names):
            names |= {*texts}
            stored |= {*texts}
    return _Words(frozenset(names), frozenset(stored), not _ANY_NAME.isdisjoint(names))


class Reach:
    """What some functions, and those that they call, can change of what is there before they run.

    Args:
        functions: what will run: a branch and the other, or the parts of a loop.
        places: what is known to be assigned, and left alone here.
    """

    @unheard
    def __init__(self, functions: Sequence[Any], places: Sequence[Place] = ()) -> None:
        self._places = places
        self._assigned = {place.identity for place in places}
        self._found: list[Holder] = []
        #: What was met, by ``id``, kept alive.
        self._met: dict[int, Any] = {id(places): places}
        #: Objects, how to call them, and the attributes that they keep without a dict.
        self._objects: list[tuple[Any, str, dict[str, MemberDescriptorType]]] = []
        #: Code that was entered, by ``id``: a hash of code takes long.
        self._heard: dict[int, CodeType] = {}
        #: Of that the user's, with its globals.
        self._entered: dict[int, tuple[CodeType, dict[str, Any]]] = {}
        trace = current_trace()
        self._copies = {} if trace is None else trace.copies
        self._functions = functions
        self._functions_met: list[FunctionType] = []
        #: Who reads what is changed, by how much code had been entered.
        self._reading: dict[tuple[int, bool, bool], Readers] = {}
        self._names: set[str] = set()
        self._stored: set[str] = set()
        #: The attributes of `functools.cached_property`.
        self._made_when_asked: set[str] = set()
        self._by_any_name = False
        for function in functions:
            self._root(function, _DEEPEST)

    # -- while code runs

    def watching(self) -> AbstractContextManager[None]:
        """Look at what functions can reach that are entered inside of the block."""
        return listening(self._enter)

    def take(self) -> Ends:
        """What is in all that changed; it is put back.

        Where Variables were made, once, what is there stays: the function will be traced again, and make none.
        """
        trace = current_trace()
        if trace is not None and trace.created_variables:
            for found in self._found:
                if isinstance(found, Fields):
                    found.renew()
        return self._taken(grows=False)

    @unheard
    def _taken(self, grows: bool) -> Ends:
        """All is looked at before any is put back: arrays may be views of the same memory."""
        ends = {n: self._end_of(found, grows) for n, found in enumerate(self._found)}
        for n, end in ends.items():
            found = self._found[n]
            if isinstance(found, Fields):
                found.put_back(end)
            elif not end.stays:
                found.put_back()
        return ends

    def _end_of(self, found: Holder, grows: bool) -> Any:
        if isinstance(found, Buffer):
            return found.look(self._readers(False, False).reads_thing)
        if isinstance(found, Fields):
            return found.look(in_loop=grows)
        end = found.look(grows, notes=False)
        if end.stays:
            return end
        # What remembers results, and notes, may be read by those who write it.
        computed = any(
            isinstance(v, Tensor) for v in flatten([found.unchanged.values, end.values])[0]
        )
        noted = found.look(grows)
        if not self._readers(not noted.stays, computed).reads_thing(found.holder):
            return noted._replace(stays=True)
        return end

    def _readers(self, direct: bool = True, writers: bool = True) -> Readers:
        """Who reads what code changes that was entered until now.

        Args:
            direct: whether all that is named where the branch or loop is written counts as read.
            writers: whether code that was entered does so, which is what changes it.
        """
        key = len(self._entered), direct, writers
        if key not in self._reading:
            passed = () if writers else self._written_by(list(self._entered.values()))
            functions = self._functions if direct else ()
            entered = list(self._entered.values()) if writers else []
            self._reading[key] = Readers(functions, entered, passed)
        return self._reading[key]

    def changed(self) -> list[str]:
        """What changed, by what messages call it; it is put back."""
        names: list[str] = []
        for n, end in self._taken(grows=False).items():
            found = self._found[n]
            if isinstance(found, Fields):
                names += found.called(end)
            elif not end.stays:
                names.append(found.name)
        return names

    def refuse_change(self) -> None:
        """For loops: what is there stays, but for items that they assign by name.

        Raises:
            TypeError: a turn changes it.
        """
        trace = current_trace()
        if trace is not None and trace.created_variables:
            return
        for n, end in self._taken(grows=True).items():
            self._found[n].refuse(end)

    # -- behind two branches

    @unheard
    def pairs(self, one: Ends, other: Ends) -> list[Pair]:
        """What two branches leave that differs.

        Raises:
            TypeError: something that no program can choose between.
        """
        self._changed: list[tuple[Holder, Any]] = []
        pairs: list[Pair] = []
        for n, found in enumerate(self._found):
            first, second = one.get(n, found.unchanged), other.get(n, found.unchanged)
            if isinstance(found, Fields):
                if first or second:
                    bound = found.pairs(first, second)
                    self._changed.append((found, None))
                    self._refuse_both(bound, one, other)
                    pairs += bound
            elif not (first.stays and second.stays):
                pairs += found.pairs(first, second)
                self._changed.append((found, first))
        return pairs

    def _refuse_both(self, bound: Sequence[Pair], one: Ends, other: Ends) -> None:
        """Raise if a name has one container on one way and another on the other, and a branch changes one in place."""
        changed = {
            id(f.holder)
            for n, f in enumerate(self._found)
            if isinstance(f, Held) and not all(e.get(n, f.unchanged).stays for e in (one, other))
        }
        for name, *ways in bound:
            if not changed.isdisjoint(map(id, ways)):
                raise TypeError(
                    f"{name} is changed in place by one branch, and another one by the other",
                    location=here(),
                    hint="let both change it in place, or both assign another one",
                )

    def settle(self, values: Iterator[Any]) -> None:
        """Put what both chose where it belongs."""
        for found, end in self._changed:
            if isinstance(found, Fields):
                found.settle(values)
            else:
                found.settle(end, values)

    # -- what is in reach

    def _enter(self, frame: FrameType) -> None:
        """Look at what a function names, before it runs."""
        code, space = frame.f_code, frame.f_globals
        if id(code) in self._heard:
            return
        self._heard[id(code)] = code
        if not is_users_code(code, space):
            return
        self._entered[id(code)] = code, space
        words = _words_of(code)
        before = {*self._stored}
        self._stored |= words.stored
        fresh = words.names - self._names
        self._names |= fresh
        if id(space) not in self._met:
            self._met[id(space)] = space
            self._add_space(space, space, str)
        for name in words.names & space.keys():
            self._visit(space[name], name)
        fresh_stores = words.stored - before
        if not fresh_stores.isdisjoint(_OF_FUNCTIONS):
            for function in self._functions_met:
                self._watch_own(function, _OF_FUNCTIONS, function.__name__)
        if "__class__" in fresh_stores:
            for thing, path, _ in self._objects:
                self._watch_own(thing, ("__class__",), path)
        more = words.by_any_name and not self._by_any_name
        self._by_any_name |= more
        for thing, path, slots in list(self._objects):
            self._look(thing, path, slots, self._names if more else fresh)

    def _root(self, thing: Any, depth: int) -> None:
        """Look at what is going to be called: past what is ours, which calls what it holds."""
        inner: list[Any] = []
        if isinstance(thing, FunctionType) and is_ours(thing.__module__ or ""):
            inner = [cell.cell_contents for _, cell in closed_over(thing) if is_filled(cell)]
        elif isinstance(thing, MethodType) and is_our_class(type(thing.__self__)):
            inner = [thing.__self__, thing.__func__]
        elif isinstance(thing, functools.partial):
            inner = [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, list | tuple):
            inner = [*thing]
        elif is_our_class(type(thing)) and not isinstance(thing, Tensor | Variable):
            inner = [*own_attributes(thing).values()]
        elif callable(thing):
            self._visit(thing, getattr(thing, "__name__", type(thing).__name__))
        for value in inner if depth else ():
            self._root(value, depth - 1)

    def _visit(self, thing: Any, path: str) -> None:
        if isinstance(thing, _LEAVES) and not is_users_class(type(thing)):
            return
        if id(thing) in self._met:
            return
        self._met[id(thing)] = thing
        buffer = buffer_of(path, thing, self._copies)
        if buffer is not None:
            self._found.append(buffer)
        elif isinstance(thing, KINDS):
            self._found.append(Held(path, thing, self._places))
            kind: Any = next(k for k in KINDS if isinstance(thing, k))
            items = (
                dict.items(thing) if isinstance(thing, dict) else enumerate(kind.__iter__(thing))
            )
            for key, item in list(items):
                self._visit(item, f"{path}[{key!r}]")
        elif isinstance(thing, tuple | frozenset):
            for number, item in enumerate(thing):
                self._visit(item, f"{path}[{number}]")
        elif isinstance(thing, ContextVar):
            self._found.append(fields.of_context(thing))
            self._visit(thing.get(None), path)
        elif isinstance(thing, FunctionType):
            self._add_function(thing)
        elif isinstance(thing, BuiltinFunctionType | MethodWrapperType):
            self._visit(thing.__self__, path)
        for part, where in parts_of(thing):
            self._visit(part, f"{path}{where}")
        accessors = (thing.fset, thing.fdel) if isinstance(thing, property) else ()
        if isinstance(thing, functools.cached_property) and thing.attrname:
            self._made_when_asked.add(thing.attrname)
        for inner in (wrapped_by(thing), *accessors):
            if inner is not None:
                self._visit(inner, path)
        if _has_state(thing):
            self._add_object(thing, path)

    def _add_function(self, function: FunctionType) -> None:
        if is_ours(function.__module__ or ""):
            return
        code = function.__code__
        is_users = is_users_code(code, function.__globals__)
        for name, cell in closed_over(function):
            if is_users and id(cell) not in self._met:
                self._met[id(cell)] = cell
                if (id(cell), repr(name)) not in self._assigned:
                    self._found.append(fields.of_cell(code, name, cell, self._is_stored))
            if is_filled(cell):
                self._visit(cell.cell_contents, name)
        self._visit(function.__defaults__, f"{function.__name__}.__defaults__")
        self._visit(function.__kwdefaults__, f"{function.__name__}.__kwdefaults__")
        if is_users:
            self._functions_met.append(function)
            self._watch_own(function, _OF_FUNCTIONS, function.__name__)

    def _add_object(self, thing: Any, path: str) -> None:
        """Watch what an object has, and what that leads to as far as code names it."""
        slots = {} if isinstance(thing, type) else fields.slots_of(type(thing))
        self._objects.append((thing, path, slots))

        def called(key: Any) -> str:
            return f"{path}.{key}"

        def watched(key: Any, computed: bool) -> bool:
            by_name = (id(thing), f".{key}") in self._assigned
            return not by_name and self._is_stored(key, computed)

        if isinstance(thing, type):
            self._found.append(fields.of_class(thing, called, watched))
        else:
            own = own_attributes(thing)
            if own or not slots:
                self._add_space(thing, own, called)
            if slots:
                self._found.append(fields.of_slots(thing, slots, called, watched))
            for owner in type(thing).__mro__:
                if is_users_class(owner):
                    self._visit(owner, owner.__qualname__)
            self._watch_own(thing, ("__class__",), path)
        self._look(thing, path, slots, self._names)

    def _watch_own(self, thing: Any, names: Sequence[str], path: str) -> None:
        """Watch what Python keeps of an object or a function, if code assigns that."""
        if not self._stored.isdisjoint(names):
            self._found.append(fields.of_own(thing, names, lambda key: f"{path}.{key}"))

    def _add_space(self, owner: Any, space: dict[str, Any], path: Callable[[Any], str]) -> None:
        """Watch the attributes of an object, or globals, but for those that are assigned by name."""
        spelled: Callable[[Any], str] = repr if owner is space else ".{}".format
        is_users = owner is space or _is_users_alone(type(owner))

        def watched(key: Any, computed: bool) -> bool:
            if (id(owner), spelled(key)) in self._assigned:
                return False
            stored = key in self._stored or (self._by_any_name and is_users)
            return (stored or key in self._made_when_asked) and self._is_read(key, computed)

        kind = type(owner)
        given = functools.partial(fields.given_by, kind)
        kept = self._is_remembered
        self._found.append(fields.of_dict(owner, space, path, watched, kept, given))

    def _look(
        self, thing: Any, path: str, slots: Iterable[str], names: set[str] | frozenset[str]
    ) -> None:
        """Go on to the attributes of an object that have some names; to all, if code may make their names."""
        own: Any = vars(thing) if isinstance(thing, type) else own_attributes(thing)
        whole = self._by_any_name and not isinstance(thing, type | ModuleType)
        for name in list(own) if whole or _is_containing(thing) else own.keys() & names:
            self._visit(own[name], f"{path}.{name}")
        for name in slots:
            if whole or name in names:
                self._visit(getattr(thing, name, None), f"{path}.{name}")

    def _is_stored(self, name: Any, computed: bool) -> bool:
        """Whether code that was entered stores something under a name, and the program reads it."""
        return name in self._stored and self._is_read(name, computed)

    def _is_remembered(self, name: Any) -> bool:
        """Whether nobody reads a name but code that was entered, or makes anew what is not there."""
        writers = self._written_by(self._entered.values())
        return name in self._made_when_asked or not self._readers().reads_name(name, writers)

    def _written_by(self, entered: Iterable[tuple[CodeType, dict[str, Any]]]) -> set[int]:
        """The code that was entered as the user wrote it, but for what the branch or loop stands in, by ``id``."""
        around = {id(original_code(code)) for code, *_ in running()}
        return {id(original_code(code)) for code, _ in entered} - around

    def _is_read(self, name: Any, computed: bool) -> bool:
        """Whether the program reads a name; of what it does not compute, elsewhere than where it is stored."""
        writers: set[int] = set()
        if not computed:
            codes = list(self._entered.values())
            writers = self._written_by([e for e in codes if name in _words_of(e[0]).stored])
        return self._readers().reads_name(name, writers)


def _has_state(thing: Any) -> bool:
    """Whether code of the user's may change attributes of a thing."""
    if isinstance(thing, ModuleType):
        file = getattr(thing, "__file__", None)
        return not is_ours(thing.__name__) and (file is None or "-packages" not in file)
    if not has_attributes(thing):
        return False
    kind = thing if isinstance(thing, type) else type(thing)
    return not is_our_class(kind) or any(map(is_users_class, kind.__mro__[:-1]))


def _is_containing(thing: Any) -> bool:
    return any(owner.__module__ in CONTAINING for owner in type(thing).__mro__)


def _is_users_alone(kind: type) -> bool:
    """Whether nobody but the user's code changes attributes of a class's objects."""
    return all(is_users_class(owner) for owner in kind.__mro__[:-1])
