"""Witness: finds the places of Python state that a trace reads, while it runs.

It hears of every function of the user that is entered, and looks at what that reads, by name, before it runs: globals,
closure variables, default arguments; then, of whatever objects are in reach that way, the attributes that any of this
code names, and the items of containers. So a place is watched rather once too often than not at all. Objects that a
trace makes are in reach of none of these. What code of installed packages reads is followed in another way (`library`).
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec import config
from tapec.autograph.conversion import original_code
from tapec.compiled.guards import equality, places, settings, sources
from tapec.compiled.guards.arrays import Arrays
from tapec.compiled.guards.attributes import Attributes
from tapec.compiled.guards.beginnings import Beginnings
from tapec.compiled.guards.caches import Cached, is_cache, results_in
from tapec.compiled.guards.classes import Classes
from tapec.compiled.guards.containers import Containers
from tapec.compiled.guards.entries import Entry, Gap
from tapec.compiled.guards.flow import MUTATORS
from tapec.compiled.guards.guard import Guard
from tapec.compiled.guards.instances import Unset, weakly
from tapec.compiled.guards.library import Library
from tapec.compiled.guards.loans import Loans
from tapec.compiled.guards.objects import (
    WEAK,
    behind_proxy,
    function_behind,
    functions_with,
    has_attributes,
    is_filled,
    is_released,
    lent_by,
    owner_of,
    parts_of,
    words_of,
    wrapped_by,
)
from tapec.compiled.guards.ownership import is_users_class, is_users_code
from tapec.compiled.guards.places import Place, text_of
from tapec.compiled.guards.reads import READ, Manner, Reads, parts, reads_of, words_in
from tapec.compiled.guards.settings import Settings
from tapec.compiled.guards.sources import Sources
from tapec.compiled.retraces import Cause
from tapec.frames import is_ours
from tapec.tensor import Tensor
from tapec.traces import hearing
from tapec.tracing import TracedTensor
from tapec.variable import Variable

if TYPE_CHECKING:
    from tapec.tracing import Trace

#: What has no state of its own that a program could rest on.
_LEAVES = (*equality.PLAIN, Tensor, Variable)
#: What may be a setting among globals.
_SETTINGS = (bool, int, float, complex, str, list, tuple, dict, set)
#: What code names that asks an array whether it may be written to, and how it lies in memory.
_FLAGS = {"flags", "setflags", "strides"}
#: The names of the functions in C that matter; most that are called do not.
_HEARD = settings.NAMES | sources.NAMES
#: Entered when a user's kernel is called.
_KERNEL_CALL = "CustomOp.__call__"


class Witness:
    """What one trace read of Python's state."""

    def __init__(
        self, name: str, function: Any, arguments: Mapping[str, Any], loans: Loans
    ) -> None:
        """``function`` is what is traced; ``arguments`` are those that are no tensors, by what to call them."""
        self._name = name
        self._root = function_behind(function)
        self._loans = loans
        self._places: dict[tuple[int, type, Any], Place] = {}
        self._manners: dict[tuple[int, type, Any], Manner] = {}
        #: What was looked at, by ``id``; kept alive, so that no id is used again.
        self._seen: dict[int, Any] = {}
        #: Of these, what strong references lead to, and what weak ones do.
        self._kept: set[int] = set()
        self._lent: set[int] = set()
        self._containers = Containers(self._put, self._visit, self._visit_item, self._places)
        self._arrays = Arrays()
        self._beginnings = Beginnings()
        self._classes = Classes()
        self._sources = Sources()
        self._settings = Settings()
        #: What packages read; None where tapec's own code is traced, for Keras, which says when it wants a new program.
        self._library = None if is_ours(self._root.__module__ or "") else Library()
        #: Objects with attributes, and how to call them.
        self._objects: list[tuple[Any, str]] = []
        self._functions: dict[int, list[tuple[FunctionType, str]]] = {}
        #: Functions that keep their results.
        self._caches: list[Cached] = []
        #: Code that ran, as it was and as the user wrote it, by ``id``.
        self._heard: dict[int, CodeType] = {}
        self._entered: dict[int, CodeType] = {}
        #: What calls a user's kernel.
        self._kernel_call: CodeType | None = None
        self._inside: set[int] = set()
        self._named: dict[str, Manner] = {}
        #: What the code does that ran, all together.
        self._reads = Reads()
        self._attributes = Attributes(self._reads, self._put, self._visit)
        #: Texts in reach, and the words of all texts.
        self._texts: set[str] = set()
        self._words: set[str] = set()
        self._visit(function, name)
        for path, argument in arguments.items():
            self._visit(argument, path)

    # -- hearing of functions

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hear of every function that this thread enters inside of the block."""
        before: Any = sys.getprofile()
        sys.setprofile(self._hear)
        try:
            yield
        finally:
            self._loans.give_back()
            if before is None or callable(before):
                sys.setprofile(before)
            else:
                before.enable()  # a profiler in C, which sets itself

    def _hear(self, frame: FrameType, event: str, argument: Any) -> None:
        library = self._library
        if event == "c_call":
            if argument.__name__ in _HEARD:
                self._sources.called(frame, argument)
                if library is not None and library.listens(frame):
                    self._settings.called(argument)
        elif event == "return":
            if library is not None and library.running:
                for thing in library.left(frame, argument):
                    self._visit(thing, text_of(thing))
        elif event == "call":
            if library is not None and id(frame.f_code) not in library.passed:
                library.entered(frame)
            self._called(frame)
            hearing.entered(frame)

    def _called(self, frame: FrameType) -> None:
        running = frame.f_code
        if running.co_flags & inspect.CO_GENERATOR:
            self._sources.entered(frame)
        if id(running) not in self._heard:
            self._heard[id(running)] = running
            if running.co_qualname == _KERNEL_CALL and is_ours(frame.f_globals["__name__"]):
                self._kernel_call = running
            code = original_code(running)
            if id(code) not in self._entered and code.co_name != "<module>":
                self._entered[id(code)] = code
                if id(code) not in self._inside and is_users_code(code, frame.f_globals):
                    self._enter(code, frame)
                    functions = self._functions.get(id(code), ())
                    self._loans.show(frame, [function for function, _ in functions])
        if running is self._kernel_call:
            self._read_kernel(frame.f_locals["self"])

    def _enter(self, code: CodeType, frame: FrameType) -> None:
        """Look at what a function reads, before it runs for the first time."""
        self._inside |= {id(part) for part in parts(code)}
        self._arrays.entered(frame.f_code)  # which is what takes them, converted or not
        reads = reads_of(code)
        for name, manner in reads.names["global"].items():
            self._watch_global(frame.f_globals, name, manner)
        self._receive(code, frame)
        for level, name in reads.imports:
            self._import(level, name, frame.f_globals)
        if reads.evaluates:
            self._watch_settings(frame.f_globals)
        if reads.environment:
            self._visit(config.environment(), "os.environ")
        closed = any(name != "__class__" for name in reads.names["cell"])
        if closed and id(code) not in self._functions:
            for function in functions_with(code):
                self._visit(function, function.__qualname__)
        functions = self._functions.get(id(code), ())
        for function, path in functions:
            self._watch_function(function, path)
        self._add_names(reads)
        self._beginnings.entered(
            frame, (thing for thing, _ in self._objects), (function for function, _ in functions)
        )

    def _read_kernel(self, kernel: Any) -> None:
        """Look at what a kernel of the user's and its vjp read (`tapec.custom_op`): as Python they are not entered."""
        from tapec.kernels.frozen import functions_of  # programs without kernels do without it

        for function in (*functions_of(kernel.python_function), *functions_of(kernel.vjp)):
            self._read_unheard(function)

    def _read_unheard(self, function: FunctionType) -> None:
        """Look at what a function reads that need not be entered: one behind a cache gave its result before."""
        code = function.__code__
        if id(code) in self._entered or not is_users_code(code, function.__globals__):
            return
        self._entered[id(code)] = code
        for name, manner in reads_of(code).names["global"].items():
            self._watch_global(function.__globals__, name, manner)
        self._watch_function(function, function.__qualname__)
        self._add_names(reads_of(code))

    def _receive(self, code: CodeType, frame: FrameType) -> None:
        """Watch the method of a class that was found by the class alone, such as `__call__`."""
        if not code.co_argcount:
            return
        first = frame.f_locals.get(code.co_varnames[0])
        if isinstance(first, type):
            self._visit_class(first)
        kind = type(first)
        for owner in kind.__mro__ if is_users_class(kind) else ():
            found = vars(owner).get(code.co_name)
            if getattr(function_behind(found), "__code__", None) is code:
                path = f"{kind.__name__}.{code.co_name}"
                self._visit(found, path)
                if id(first) in self._seen:
                    where = f"{owner.__name__} object.__class__"
                    self._put(places.Attribute(first, "__class__", kind, where, Cause.ATTRIBUTE))
                if isinstance(found, FunctionType):
                    self._put(places.Attribute(kind, code.co_name, found, path, Cause.ATTRIBUTE))
                return

    def _add_names(self, reads: Reads) -> None:
        """Look at the attributes of these names, wherever they are in reach."""
        fresh: dict[str, Manner] = {}
        for name, manner in reads.names["attribute"].items():
            known = self._named.get(name)
            joined = manner if known is None else known.joined(manner)
            if joined != known:
                fresh[name] = self._named[name] = joined
        classes = reads.classes and not self._reads.classes
        asked = set(self._texts) if reads.computes and not self._reads.computes else set()
        asked |= reads.asked - self._reads.asked
        fresh |= dict.fromkeys(asked, READ)
        self._named |= dict.fromkeys(asked, READ)
        self._reads.asked |= asked
        more = self._reads.absorb(reads)
        self._words |= reads.words
        if self._reads.computes:
            made = dict.fromkeys(self._words - self._named.keys(), READ)
            fresh |= made
            self._named |= made
        if classes:
            for thing, _ in list(self._objects):
                self._visit_class(thing if isinstance(thing, type) else type(thing))
        if fresh or more:
            for thing, path in list(self._objects):
                self._attributes.watch(thing, path, self._named if more else fresh)

    # -- what is in reach

    def _visit(self, thing: Any, path: str, manner: Manner = READ, is_kept: bool = True) -> None:
        """Take a value into reach.

        Args:
            thing: the value.
            path: how the user would call it.
            manner: whether its items matter, if it is a container.
            is_kept: whether a strong reference leads to it.
        """
        if type(thing) in weakref.ProxyTypes:
            self._visit(behind_proxy(thing), path, is_kept=False)
            return
        (self._kept if is_kept else self._lent).add(id(thing))
        if isinstance(thing, str):
            self._text(thing)
        if (isinstance(thing, _LEAVES) and not is_users_class(type(thing))) or is_released(thing):
            return
        if isinstance(thing, (*places.CONTAINERS, ContextVar)):
            self._containers.open(thing, path, manner)
        if id(thing) in self._seen:
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, type):
            self._classes.asked(thing)
        self._sources.found(thing, path)
        self._settings.found(thing)
        self._classes.meet(thing if isinstance(thing, type) else type(thing))
        if (owner := owner_of(thing)) is not None:
            self._visit(owner, f"{path}.__self__", Manner(thing.__name__ not in MUTATORS))
        for more, where in parts_of(thing):
            self._visit_item(more, f"{path}{where}")
        if isinstance(thing, WEAK) and self._library is not None:
            self._library.users(vars(thing)["data"], path)
        for more, where in lent_by(thing):
            self._visit_item(more, f"{path}{where}", is_kept=False)
        if isinstance(thing, functools.partial):
            for name in ("func", "args", "keywords"):  # which `__setstate__` changes
                where, value = f"{path}.{name}", getattr(thing, name)
                self._put(places.Attribute(thing, name, value, where, Cause.ATTRIBUTE))
        if isinstance(thing, tuple | frozenset):
            for i, item in enumerate(thing):
                self._visit_item(item, f"{path}[{i}]")
        behind = function_behind(thing)
        if isinstance(behind, FunctionType):
            self._add_function(behind, path)
            if is_cache(thing):
                self._read_unheard(behind)
                self._caches.append(Cached(thing, path))
        if (inner := wrapped_by(thing)) is not None:
            self._visit(inner, f"{path}.func" if isinstance(thing, functools.partial) else path)
        if words := words_of(thing):
            self._add_names(Reads(asked=words))
        if has_attributes(thing):
            self._objects.append((thing, path))
            self._attributes.watch(thing, path, self._named)
            if self._reads.classes:
                self._visit_class(thing if isinstance(thing, type) else type(thing))

    def _visit_class(self, kind: type) -> None:
        """Take a class and those that it is derived from into reach."""
        for owner in kind.__mro__:
            if is_users_class(owner):
                self._visit(owner, owner.__qualname__)

    def _import(self, level: int, name: str, space: Mapping[str, Any]) -> None:
        """Take a module into reach that code imports when it runs."""
        package = space.get("__package__") or ""
        whole = name
        if level:
            above = package.rsplit(".", level - 1)[0]
            whole = f"{above}.{name}" if name else above
        module = sys.modules.get(whole)
        while module is None and "." in whole:
            whole = whole.rpartition(".")[0]
            module = sys.modules.get(whole)
        if module is not None:
            self._put(Entry(sys.modules, whole, module, whole, Cause.GLOBAL))
            self._visit(module, whole)

    def _text(self, text: str) -> None:
        """Take a text into reach, which may name an attribute."""
        if text in self._texts:
            return
        if text.isidentifier():
            self._texts.add(text)
            if self._reads.computes:
                self._add_names(Reads(asked={text}))
        elif not (words := words_in(text)) <= self._words:
            self._add_names(Reads(words=words))

    def _visit_item(self, item: Any, path: str, is_kept: bool = True) -> None:
        """Take what a container holds into reach."""
        if isinstance(item, np.ndarray):
            self._arrays.found(places.Item(item, path))
        self._visit(item, path, is_kept=is_kept)

    def _add_function(self, function: FunctionType, path: str) -> None:
        known = self._functions.setdefault(id(function.__code__), [])
        if not any(function is other for other, _ in known):
            known.append((function, path))
            if id(function.__code__) in self._entered:
                self._watch_function(function, path)

    # -- places

    def _put(self, place: Place, manner: Manner = READ) -> None:
        """Watch a place, unless it is watched."""
        if issubclass(type(place.value), TracedTensor):
            return  # which the trace put there itself
        key = (id(place.owner), type(place), place.key)
        first = self._places.get(key, place)
        # What the trace itself has changed meanwhile is no input: each call changes it once more.
        if manner.read and first.value is place.value and self._loans.take(place):
            return
        known = self._manners.get(key)
        joined = self._manners[key] = manner if known is None else known.joined(manner)
        if isinstance(place, places.Absent) and key in self._places:
            self._places[key].value |= place.value
        self._places.setdefault(key, place)
        if isinstance(place, (*places.ABOUT_OTHERS, Gap, Unset)):
            return
        if place.key == "__class__":
            return  # of which objects tell
        if issubclass(type(place.value), np.ndarray):
            self._arrays.found(place)
        self._visit(place.value, place.path, joined)

    def _watch_settings(self, space: dict[str, Any]) -> None:
        """Watch all globals that are settings, for code that makes the names it looks up."""
        for name, value in list(space.items()):
            if isinstance(value, _SETTINGS) and not name.startswith("__"):
                self._watch_global(space, name, READ)

    def _watch_global(self, space: dict[str, Any], name: str, manner: Manner) -> None:
        if name in space:
            self._put(Entry(space, name, space[name], name, Cause.GLOBAL), manner)
        else:
            self._put(Gap(space, name, None, name, Cause.GLOBAL), manner)
            found = vars(builtins).get(name)
            if not isinstance(found, BuiltinFunctionType | type | None):
                entry = Entry(vars(builtins), name, found, name, Cause.GLOBAL)
                self._put(entry, manner)  # which the user put there

    def _watch_function(self, function: FunctionType, path: str) -> None:
        """Watch what a function that was entered has of its own."""
        if not is_users_code(function.__code__, function.__globals__):
            return
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            # Nobody but the compiled function has the one that it was made of, to give it other code.
            is_fixed = name == "__code__" and function is self._root
            if value is not None and not is_fixed:
                place = places.Attribute(function, name, value, f"{path}.{name}", Cause.CONTENTS)
                self._put(place)
        used = reads_of(function.__code__).names["cell"]
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if name in used and is_filled(cell):
                self._put(
                    places.Closed(cell, name, cell.cell_contents, name, Cause.CLOSURE), used[name]
                )

    # -- the end

    def guard(self, trace: Trace, native: bool = True) -> Guard:
        """What the program that was traced rests on; ``native``: whether native code may look at that."""
        if not trace.created_variables:  # else it is traced again; they begin with what they like
            self._sources.tell(self._name)
            if self._library is not None:
                self._library.tell(self._name)
        for cached in self._caches:
            for result in results_in(cached.function):
                self._visit_item(result, f"{cached.path}(...)")
        found = [p for key, p in self._places.items() if self._matters(p, self._manners[key])]
        lent = self._lent - self._kept
        found = [weakly(p) if id(p.owner) in lent else p for p in found]
        found += self._arrays.guarded(trace.array_sites, not _FLAGS.isdisjoint(self._named))
        found += self._settings.places()
        found += (place for cached in self._caches for place in cached.places())
        names = {n for n, manner in self._named.items() if manner.read and not manner.stored_first}
        found += self._classes.places(names, "__subclasses__" in names, self._reads.kinds)
        found += self._beginnings.places(trace.rests_on, self._seen)
        if self._library is not None:
            found += self._library.places(trace.captures)
        return Guard(found, self._name, native)

    def _matters(self, place: Place, manner: Manner) -> bool:
        if isinstance(place, places.Absent) and not place.value:
            return False
        try:
            now = place.now()
        except (LookupError, AttributeError, ValueError):
            return True
        if not manner.read:
            # Changed in place only: a tensor of the trace in it has read what was there before.
            return isinstance(now, TracedTensor) or not isinstance(
                place.value, (*places.CONTAINERS, *equality.PLAIN)
            )
        return not (manner.stored_first and now is not place.value)
