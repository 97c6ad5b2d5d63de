"""What lists, dicts and their kin hold that a branch or loop of the program can reach, and what it does to that.

Where a branch assigns an item, or appends, is read off the code (`tapec.autograph.names.places_in`). What else it does
to a list (``pop``, ``insert``, ``+=``, under another name, in a nested function) shows in the list itself, behind it.
"""

from __future__ import annotations

from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import is_, or_
from types import FunctionType
from typing import Any, NamedTuple

from tapec.autograph.buffers import BUFFERS, Buffer, buffers_under, is_buffer
from tapec.autograph.places import Path, Place, items_of
from tapec.errors import TypeError
from tapec.frames import here
from tapec.structure import flatten
from tapec.tensor import Tensor

_KINDS = (list, dict, deque, set)
#: What has all that it holds in one of these.
_WRAPPERS = (UserDict, UserList)
_FOLLOWED = (*_KINDS, *_WRAPPERS, *BUFFERS, tuple)

Contents = list[Any]
#: A name for messages, and what is there behind either branch.
Pair = tuple[str, Any, Any]


class End(NamedTuple):
    """What a container holds at the end of a branch, and whether that is as before, as far as places do not know."""

    keys: Sequence[Any]
    values: Contents
    stays: bool


class Held:
    """What one list, dict, deque or set holds in front of a branch or loop.

    Items that are assigned by name, and what is appended, are left to their places. What else is appended and has no
    tensor in it stays: Python does it once, while it is traced.
    """

    def __init__(self, name: str, holder: Any, places: Sequence[Place]) -> None:
        self.name = name
        self._holder = holder
        self._before: Contents = []
        self._keys, self._before = self._there()
        self._named, self._grows = items_of(holder, places)
        self._assigned = [key in self._named for key in self._keys] if self._named else None

    def _there(self) -> tuple[Sequence[Any], Contents]:
        """The keys, in order, and what is at each."""
        if isinstance(self._holder, dict):
            return list(self._holder), list(self._holder.values())
        if isinstance(self._holder, set):
            kept = [v for v in self._before if v in self._holder]  # a set's own order is of chance
            items = kept + sorted(self._holder.difference(kept), key=hash)
            return items, items
        return range(len(self._holder)), list(self._holder)

    def look(self) -> End:
        """What it holds now."""
        keys, values = self._there()
        return End(keys, values, self._stays(keys, values))

    def put_back(self) -> None:
        """Make it hold what it did before."""
        self.put(self._keys, self._before)

    def _stays(self, keys: Sequence[Any], values: Contents) -> bool:
        """Whether nothing became of it that places do not know, and no tensor came to it."""
        count = len(self._before)
        if len(values) < count or (isinstance(self._holder, dict) and keys[:count] != self._keys):
            return False
        same = map(is_, self._before, values)
        if not all(same if self._assigned is None else map(or_, same, self._assigned)):
            return False
        new = list(zip(keys[count:], values[count:], strict=True))
        return self._grows or not _has_tensors([v for key, v in new if key not in self._named])

    def put(self, keys: Sequence[Any], values: Contents) -> None:
        """Make it hold something, in this order."""
        if isinstance(self._holder, list):
            self._holder[:] = values
            return
        self._holder.clear()
        if isinstance(self._holder, dict):
            self._holder.update(zip(keys, values, strict=True))
        elif isinstance(self._holder, set):
            self._holder.update(values)
        else:
            self._holder.extend(values)

    def settle(self, end: End, values: Iterator[Any]) -> None:
        """Make it hold, under the keys of one branch's end, what both chose: the next of some values."""
        self.put(end.keys, [next(values) for _ in end.keys])

    def pairs(self, one: End, other: End) -> list[Pair]:
        """What is at each key behind two branches.

        Raises:
            TypeError: they are not as many, or have other keys.
        """
        if list(one.keys) != list(other.keys):
            raise TypeError(
                f"{self.name} holds {_count(one.keys, self._holder)} at the end of the main branch, but "
                f"{_count(other.keys, self._holder)} at the end of the else branch",
                location=here(),
                hint="change it alike in both branches, or in neither: what a branch over tensors changes must be "
                "tensors or numbers, in a structure that stays",
            )
        ends = zip(one.keys, one.values, other.values, strict=True)
        return [(f"{self.name}[{key!r}]", a, b) for key, a, b in ends]

    def refuse_change(self) -> None:
        """For loops: what it holds stays, but for items that are assigned by name; something may come to it.

        Raises:
            TypeError: a turn changes it.
        """
        self._grows = True
        found = self.look()
        if not found.stays:
            self.put_back()
            raise TypeError(
                f"{self.name} holds {_count(self._keys, self._holder)} before the loop, and "
                f"{_count(found.keys, self._holder)} or others after one iteration",
                location=here(),
                hint=f"a loop over tensors does not change a {type(self._holder).__name__} in place, but for items "
                "that it assigns: let it make another one of the same length, or collect values in a tapec.TensorArray",
            )


def held_by(
    functions: Sequence[Callable[..., Any]], paths: Sequence[Path], places: Sequence[Place]
) -> list[Held | Buffer]:
    """What the parts of a statement can reach by the variables that they name: containers, and those inside of these.

    So it is with the variables of nested functions that they name, and with arrays in attributes.

    Args:
        functions: the parts of the statement.
        paths: the attributes and items that they assign.
        places: where these are.
    """
    found: dict[int, Held | Buffer] = {}
    stack = [*_named(functions), *_along(paths)]
    while stack:
        name, thing = stack.pop()
        if id(thing) in found:
            continue
        if isinstance(thing, _WRAPPERS):
            thing = thing.data
        if is_buffer(thing):
            found[id(thing)] = Buffer(name, thing)
            continue
        if isinstance(thing, _KINDS):
            found[id(thing)] = Held(name, thing, places)
        elif not isinstance(thing, tuple):
            continue
        items = thing.items() if isinstance(thing, dict) else enumerate(thing)
        stack += [(f"{name}[{key!r}]", v) for key, v in items if isinstance(v, _FOLLOWED)]
    return list(found.values())


def _named(functions: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """What functions find in variables of others around them, and globally; arrays also in attributes of these.

    Functions among what they find, if of the same module, are gone into for the variables around them.
    """
    waiting, met = [f for f in functions if isinstance(f, FunctionType)], set()
    entered = {f.__code__ for f in waiting}
    while waiting:
        function = waiting.pop()
        if id(function) in met:
            continue
        met.add(id(function))
        code, space = function.__code__, function.__globals__
        values = list(_around(function))
        if code in entered:
            values += [(name, space[name]) for name in code.co_names if name in space]
        for name, value in values:
            yield name, value
            for attribute, buffer in buffers_under(value, code.co_names):
                yield f"{name}.{attribute}", buffer
            if isinstance(value, FunctionType) and value.__globals__ is space:
                waiting.append(value)


def _around(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function shares with those around it, and their values, if they have one."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        with suppress(ValueError):
            yield name, cell.cell_contents


def _along(paths: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    """What paths to attributes and items come by, the last step left out."""
    for variable, steps in paths:
        try:
            thing = variable()
        except NameError:
            continue
        for kind, key in steps:
            if kind != ".":
                break
            thing = getattr(thing, key, None)
            yield key, thing


def _has_tensors(values: Contents) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in flatten(values)[0])


def _count(keys: Sequence[Any], holder: Any) -> str:
    if isinstance(holder, dict):
        return f"the keys {list(keys)}"
    return f"{len(keys)} item{'s' * (len(keys) != 1)}"
