"""Which of the things that functions change a program reads: the rest is Python's own note of the trace.

Code that counts calls, takes times or keeps a history changes what the program never asks for: ``self.calls += 1``,
``times[name] = now``. Where a branch or loop calls such code, that stays as tracing leaves it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    ModuleType,
)
from typing import Any

from tapec.autograph.conversion import original_code
from tapec.compiled.guards.flow import flow_of
from tapec.compiled.guards.objects import (
    closed_over,
    is_filled,
    own_attributes,
    parts_of,
    wrapped_by,
)
from tapec.compiled.guards.ownership import is_users_class, is_users_code, is_users_module
from tapec.compiled.guards.reads import parts, reads_of
from tapec.instructions import kept_for
from tapec.tensor import Tensor
from tapec.variable import Variable

#: What a program is traced by; frames outside of it belong to Python alone.
_COMPILING = "tapec.compiled"
#: By these, code may read every attribute of an object.
_WHOLE = {"__dict__", "vars", "asdict", "astuple", "getmembers"}
#: Modules of Python with classes that hold, and whose code changes, all that their objects have.
CONTAINING = {"_weakrefset", "collections", "queue", "types", "weakref"}
_LEAVES = (bool, int, float, complex, str, bytes, type(None), CodeType, Tensor, Variable)


class Readers:
    """What code reads that is being traced, and the functions that it names, and theirs.

    Args:
        direct: the parts of a branch or loop: what they name themselves counts as read, whatever they do with it.
        entered: code that ran in them, with its globals.
        passed: code that is not looked at, by ``id``.
    """

    def __init__(
        self,
        direct: Iterable[Any],
        entered: Iterable[tuple[CodeType, dict[str, Any]]],
        passed: Collection[int] = (),
    ) -> None:
        self._passed = passed
        #: Names, and the code that reads each, by ``id``.
        self._names: dict[str, set[int]] = {}
        self._everything = False
        self._things: dict[int, Any] = {}
        self._codes: dict[int, CodeType] = {}
        self._objects: list[Any] = []
        for function in direct:
            if isinstance(function, FunctionType):
                self._function(function, whole=True)
        for code, space, local in [*running(), *((*e, {}) for e in entered)]:
            self._code(code, space, local)

    def reads_name(self, name: Any, writers: Collection[int] = ()) -> bool:
        """Whether an attribute or variable of this name is read, by other code than some."""
        return self._everything or bool(self._names.get(name, set()).difference(writers))

    def reads_thing(self, thing: Any) -> bool:
        """Whether a container is read."""
        return self._everything or id(thing) in self._things

    def _code(
        self, code: CodeType, space: dict[str, Any], local: dict[str, Any], whole: bool = False
    ) -> None:
        original = original_code(code)
        if id(original) in self._passed or id(code) in self._codes:
            return
        self._codes[id(code)] = code
        if not is_users_code(code, space):
            return
        code = code if whole else original  # converted code says beside that what it may change
        found = reads_of(code)
        used = {n: m.read for names in found.names.values() for n, m in names.items()}
        read = {n for n, is_read in used.items() if is_read or whole} | found.asked
        variables, shared = _read_variables(code)
        self._everything |= found.computes or not _WHOLE.isdisjoint(read)
        fresh = (read | shared) - self._names.keys()
        for name in read | shared:
            self._names.setdefault(name, set()).add(id(original))
        for name in read & space.keys():
            self._visit(space[name])
        for name in (read | shared | variables) & local.keys():
            self._visit(local[name])
        for thing in list(self._objects):
            self._attributes(thing, fresh)

    def _function(self, function: FunctionType, whole: bool = False) -> None:
        closed = {n: cell.cell_contents for n, cell in closed_over(function) if is_filled(cell)}
        count = function.__code__.co_argcount
        names = function.__code__.co_varnames
        defaults = function.__defaults__ or ()
        kept = dict(zip(names[count - len(defaults) : count], defaults, strict=True))
        kept |= function.__kwdefaults__ or {}
        self._code(function.__code__, function.__globals__, kept | closed, whole)
        # A function inside of converted code is known by the code around it, which has no such parameters.
        own, shared = _read_variables(function.__code__)
        for name in (own | shared) & kept.keys():
            self._visit(kept[name])

    def _visit(self, thing: Any) -> None:
        if isinstance(thing, _LEAVES) or id(thing) in self._things:
            return
        self._things[id(thing)] = thing
        inner: Iterable[Any] = [part for part, _ in parts_of(thing)]
        if isinstance(thing, dict):
            inner = list(dict.values(thing))
        elif isinstance(thing, list | tuple | set | frozenset | deque):
            inner = list(thing)
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, BuiltinFunctionType):
            inner = [thing.__self__]
        for value in [*inner, wrapped_by(thing)]:
            self._visit(value)
        if not isinstance(thing, ModuleType) or is_users_module(thing):
            self._objects.append(thing)
            self._attributes(thing, {*self._names})

    def _attributes(self, thing: Any, names: Iterable[str]) -> None:
        """Go on to what an object has under some names, and to what its class does for operators."""
        own: Any = vars(thing) if isinstance(thing, type) else own_attributes(thing)
        whole = type(thing).__module__ in CONTAINING
        for name in list(own) if whole else own.keys() & names:
            self._visit(own[name])
        kind = thing if isinstance(thing, type) else type(thing)
        for owner in filter(is_users_class, kind.__mro__):
            for name, value in list(vars(owner).items()):
                if name in names or (name.startswith("__") and isinstance(value, FunctionType)):
                    self._visit(value)
        for name in names if isinstance(thing, FunctionType) else ():
            if name in ("__defaults__", "__kwdefaults__"):
                self._visit(getattr(thing, name))


@kept_for(4096)
def _read_variables(code: CodeType) -> tuple[set[str], set[str]]:
    """The variables of a function that it, or one inside of it, reads; and those that they share."""
    own: set[str] = set()
    shared: set[str] = set()
    for part in parts(code):
        flow = flow_of(part)
        for n, instruction in enumerate(flow.instructions):
            name = instruction.opname
            if not name.startswith("LOAD_") or flow.only_changed(n):
                continue
            if name.startswith("LOAD_DEREF"):
                shared.add(instruction.argval)
            elif name.startswith(("LOAD_FAST", "LOAD_NAME")) and part is code:
                own.add(instruction.argval)
    return own, shared


def running() -> Iterator[tuple[CodeType, dict[str, Any], dict[str, Any]]]:
    """What runs in the program that is being traced, with its globals and variables."""
    for frame in running_frames():
        yield frame.f_code, frame.f_globals, {**frame.f_locals}


def running_frames() -> Iterator[FrameType]:
    """The user's code that runs in the program which is being traced, innermost first."""
    found: list[FrameType] = []
    outermost = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append(frame)
        if (frame.f_globals.get("__name__") or "").startswith(_COMPILING):
            outermost = len(found)
        frame = frame.f_back
    for frame in found[:outermost]:
        if is_users_code(frame.f_code, frame.f_globals):
            yield frame
