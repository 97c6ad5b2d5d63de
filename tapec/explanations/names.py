"""What a user calls a value: variables of the running functions are searched for the object, and asked for its line.

Only explanations use this; it is slow and knows no more than what is still in reach.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from types import CodeType, FrameType, ModuleType
from typing import Any

from tapec.explanations.trail import Value
from tapec.frames import Origin, is_ours, resolve
from tapec.ir.location import Location
from tapec.tensor import Tensor
from tapec.variable import Variable

#: How many functions up the stack, and how many members of a container, are searched.
_FRAMES = 6
_MEMBERS = 1000


class Names:
    """The names in reach of the user's line that is running.

    Attributes:
        tensors: names by tensor id.
        variables: names by ``id`` of a Variable.
    """

    def __init__(self) -> None:
        """Search the stack."""
        self.tensors: dict[int, str] = {}
        self.variables: dict[int, str] = {}
        self._codes: dict[str, CodeType] = {}
        for frame in islice(_user_frames(), _FRAMES):
            scope = frame.f_locals
            self._search(scope, frame.f_code)
            _forget(scope, frame.f_code)
        outermost = next(_user_frames(), None)
        if outermost is not None:
            self._search(outermost.f_globals, outermost.f_code)

    def _search(self, scope: Mapping[str, Any], code: CodeType) -> None:
        nested = []
        for name, thing in list(scope.items()):
            if isinstance(thing, Tensor | Variable):
                self._enter(name, thing, code)
            elif not isinstance(thing, ModuleType | type):
                nested.append((name, thing))
        for name, thing in nested:
            for path, member in islice(_members(name, thing), _MEMBERS):
                self._enter(path, member, code)

    def _enter(self, name: str, thing: Any, code: CodeType) -> None:
        if isinstance(thing, Variable):
            self.variables.setdefault(id(thing), name)
        elif isinstance(thing, Tensor):
            self.tensors.setdefault(thing.id, name)
        else:
            return
        self._codes.setdefault(name, code)

    def of(self, value: Value, otherwise: str) -> str:
        """The name of a source or target."""
        if isinstance(value.thing, int):
            return self.tensors.get(value.thing, otherwise)
        return of_variable(value.thing, self)

    def bindings(self, name: str, block: Origin | None) -> list[Location]:
        """The lines above the one where a block opened that give a name its value, in order."""
        if block is None or self._codes.get(name) is not block[0]:
            return []
        opened = resolve(block)
        lines = {
            instruction.positions.lineno
            for instruction in dis.get_instructions(block[0])
            if instruction.opname.startswith("STORE_")
            and instruction.argval == name
            and instruction.positions is not None
        }
        above = sorted(n for n in lines if n is not None and opened and n < opened.line)
        return [Location(block[0].co_filename, n) for n in above]


def _forget(scope: Mapping[str, Any], code: CodeType) -> None:
    """Empty the snapshot of a function's variables that Python makes, so that it keeps nothing alive.

    It is left to functions that may have asked for it themselves; from Python 3.13 on there is none.
    """
    asked = {"locals", "vars", "dir", "eval", "exec"}.intersection(code.co_names)
    if isinstance(scope, dict) and code.co_flags & inspect.CO_OPTIMIZED and not asked:
        scope.clear()


def of_variable(variable: Variable, names: Names) -> str:
    """What to call a Variable: as the user's code does, or by the name it was given."""
    known = names.variables.get(id(variable))
    if known is not None:
        return known
    given = variable.name.removesuffix(":0")
    return f"Variable {variable.type}" if given == "Variable" else given


def _user_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_ours(frame.f_globals.get("__name__", "")):
            yield frame
        frame = frame.f_back


def _members(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """What is in a list, a dict or an object, and in its lists and dicts."""
    if isinstance(thing, list | tuple):
        yield from ((f"{name}[{i}]", member) for i, member in enumerate(thing))
    elif isinstance(thing, dict):
        yield from ((f"{name}[{key!r}]", member) for key, member in list(thing.items()))
    elif not is_ours(type(thing).__module__):
        fields = getattr(thing, "__dict__", None)
        if isinstance(fields, dict):
            for key, member in list(fields.items()):
                yield f"{name}.{key}", member
                if isinstance(member, list | tuple | dict):
                    yield from _members(f"{name}.{key}", member)
