"""What a kernel took from outside when it was compiled: Numba makes constants of globals and closure variables.

The same holds of the derivative beside it, which is traced once. A kernel that was compiled with one value must not
run, without a word, after that was changed. So the values are kept, and compared at each call.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from tapec.compiled.guards.ownership import is_users_code

#: Bytes of an array up to which its contents are compared; of a larger one Numba keeps the address.
_LARGEST = 1 << 20
_PLAIN = (int, float, complex, bool, str, bytes, np.generic, type(None))


class _Place(NamedTuple):
    """A name and where its value is: a namespace, or the cell of a closure."""

    name: str
    home: Any
    value: Any
    #: What an array held.
    held: bytes | None

    def now(self) -> Any:
        """The value that it has now; the place itself where it has none."""
        if isinstance(self.home, dict):
            return self.home.get(self.name, self)
        try:
            return self.home.cell_contents
        except ValueError:
            return self

    def is_unchanged(self) -> bool:
        """Whether the value is what it was."""
        now = self.now()
        if self.held is not None:
            return now is self.value and now.tobytes() == self.held
        return now is self.value or _same(now, self.value)


class Frozen:
    """The values that a function, and those that it calls, had at one time."""

    def __init__(self, function: Any) -> None:
        """Look at them now."""
        self._places = [
            _Place(name, home, value, _held(value)) for name, home, value in _read(function)
        ]

    def changed(self) -> str | None:
        """What is different now: a name with both values; None if nothing is."""
        for place in self._places:
            if not place.is_unchanged():
                if place.held is not None and place.now() is place.value:
                    return f"the array {place.name}, whose contents have changed since"
                now = place.now()
                what = "is gone" if now is place else f"is {now!r} now"
                return f"{place.name} = {place.value!r}, which {what}"
        return None


def functions_of(function: Any) -> list[FunctionType]:
    """A function as Python knows it, and those of the user's, and of Numba's, that it calls by name."""
    found: dict[int, FunctionType] = {}
    stack = [function]
    while stack:
        thing = stack.pop()
        plain = getattr(thing, "py_func", thing)
        if isinstance(plain, FunctionType) and id(plain) not in found:
            if thing is function or is_users_code(plain.__code__, plain.__globals__):
                found[id(plain)] = plain
                stack += [value for _, _, value in _own(plain)]
    return list(found.values())


def _read(function: Any) -> Iterator[tuple[str, Any, Any]]:
    """Names, homes and values of what is read that is neither a module nor a function."""
    for plain in functions_of(function):
        for name, home, value in _own(plain):
            if isinstance(value, (*_PLAIN, np.ndarray, tuple)):
                yield name, home, value


def _own(function: FunctionType) -> Iterator[tuple[str, Any, Any]]:
    space = function.__globals__
    for name in sorted(_names(function.__code__)):
        if name in space:
            yield name, space, space[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell, cell.cell_contents
        except ValueError:
            continue  # it has no value yet


def _names(code: CodeType) -> set[str]:
    """Globals that code looks up, and functions inside of it; the names of attributes are others."""
    found = {
        i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _held(value: Any) -> bytes | None:
    small = isinstance(value, np.ndarray) and value.nbytes <= _LARGEST
    return value.tobytes() if small else None


def _same(a: Any, b: Any) -> bool:
    """Whether two values are one constant; NaN equals itself, and 1, 1.0 and True are three."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return isinstance(a, _PLAIN) and repr(a) == repr(b)  # -0.0 equals 0.0
