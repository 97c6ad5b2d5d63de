"""What a user calls a value: variables of the running functions are searched for the object, and asked for its line.

Only explanations use this; it is slow and knows no more than what is still in reach.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from types import CodeType, FrameType, ModuleType, NoneType
from typing import Any

import numpy as np

from tapec.explanations.trail import Value
from tapec.frames import installed_places, is_ours
from tapec.instructions import instructions_of
from tapec.ir.location import Location
from tapec.tensor import Tensor
from tapec.variable import Variable

#: How many functions up the stack are searched, how deep in objects and containers, how many of those and of their
#: members for each function.
_FRAMES = 6
_DEPTH = 6
_OBJECTS = 500
_MEMBERS = 2000


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
        innermost = next(_user_frames(), None)
        if innermost is not None:
            self._search(innermost.f_globals, innermost.f_code)

    def _search(self, scope: Mapping[str, Any], code: CodeType) -> None:
        """Enter the tensors among a function's variables, and in objects and containers; what is near comes first."""
        level = [item for item in scope.items() if not _HIDDEN.match(item[0])]
        seen: set[int] = set()
        left = _MEMBERS
        for _ in range(_DEPTH):
            below = []
            for name, thing in level:
                left -= 1
                if isinstance(thing, Tensor | Variable):
                    self._enter(name, thing, code)
                elif not isinstance(thing, _CLOSED) and id(thing) not in seen:
                    seen.add(id(thing))
                    if not (isinstance(thing, type) and _is_installed(thing)):
                        below.append((name, thing))
            if left < 0 or len(seen) > _OBJECTS:
                return
            level = list(islice(chain.from_iterable(_parts(*part) for part in below), _MEMBERS))

    def _enter(self, name: str, thing: Tensor | Variable, code: CodeType) -> None:
        known = self.variables if isinstance(thing, Variable) else self.tensors
        key = id(thing) if isinstance(thing, Variable) else thing.id
        # ``model.bias`` says more than ``weights[1]``.
        if key not in known or (_is_position(known[key]) and not _is_position(name)):
            known[key] = name
        self._codes.setdefault(name, code)

    def of(self, value: Value, otherwise: str) -> str:
        """The name of a source or target."""
        if isinstance(value.thing, int):
            return self.tensors.get(value.thing, otherwise)
        return of_variable(value.thing, self)

    def bindings(self, name: str, code: CodeType | None) -> list[Location]:
        """The lines of a function that give a name its value, in order; none if it is another function's name."""
        if code is None or self._codes.get(name) is not code:
            return []
        lines = {
            instruction.positions.lineno
            for instruction in instructions_of(code)
            if instruction.opname.startswith("STORE_")
            and instruction.argval == name
            and instruction.positions is not None
        }
        return [Location(code.co_filename, n) for n in sorted(n for n in lines if n is not None)]


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


def _is_installed(kind: type) -> bool:
    """Whether a class is of this Python's library, of a package, or ours."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is not None and (file.startswith(installed_places()) or is_ours(kind.__module__))


def _user_frames() -> Iterator[FrameType]:
    """The functions that are running, innermost first, save ours and installed ones further up."""
    frame: FrameType | None = sys._getframe(1)
    first = True
    while frame is not None:
        if not is_ours(frame.f_globals.get("__name__", "")):
            if first or not frame.f_code.co_filename.startswith(installed_places()):
                yield frame
            first = False
        frame = frame.f_back


#: What no user calls a value: hidden variables of Python, of test runners, of notebooks (results of earlier cells).
_HIDDEN = re.compile(r"[^A-Za-z_]|_+\d*$|_(i+|[dio]h)\d*$|(In|Out)$")

#: What has no members that a user would name.
_CLOSED = (ModuleType, str, bytes, int, float, complex, NoneType, np.ndarray)


def _is_position(name: str) -> bool:
    return re.search(r"\[\d+\]$", name) is not None


def _parts(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """What a list, a dict, a class or an object holds, with paths; no code of the user's runs for it."""
    if isinstance(thing, list | tuple):
        fields = getattr(type(thing), "_fields", None)  # of a named tuple
        for i, part in enumerate(islice(thing, _MEMBERS)):
            yield (f"{name}.{fields[i]}" if fields else f"{name}[{i}]"), part
    elif isinstance(thing, dict):
        items = islice(list(dict.items(thing)), _MEMBERS)
        yield from ((f"{name}[{key!r}]", part) for key, part in items)
    elif isinstance(thing, type):
        yield from _class_parts(name, thing)
    elif not is_ours(type(thing).__module__):
        for kind in reversed(type(thing).__mro__):
            yield from _class_parts(name, kind)
            slots = kind.__dict__.get("__slots__", ())
            for key in (slots,) if isinstance(slots, str) else slots:
                if key != "__weakref__":
                    yield f"{name}.{key}", getattr(thing, key, None)
        yield from ((f"{name}.{key}", part) for key, part in _dict_of(thing).items())


def _class_parts(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    """The tensors that are attributes of a class, and those in its lists and dicts."""
    for key, part in kind.__dict__.items():
        if isinstance(part, Tensor | Variable | list | tuple | dict) and not key.startswith("__"):
            yield f"{name}.{key}", part


def _dict_of(thing: Any) -> dict[str, Any]:
    try:
        return dict(object.__getattribute__(thing, "__dict__"))
    except AttributeError:
        return {}
