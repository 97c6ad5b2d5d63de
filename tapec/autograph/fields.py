"""Attributes and variables that functions change which a branch or loop of the program calls.

What the code of a branch assigns itself is known before (`tapec.autograph.places`). What a function that it calls
assigns, an object's attribute, a global or another function's variable, shows behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import CellType, MemberDescriptorType
from typing import Any, ClassVar

import numpy as np

from tapec.autograph.containers import Pair
from tapec.autograph.merging import described, same
from tapec.autograph.places import UNBOUND
from tapec.control.tensor_array import TensorArray
from tapec.errors import TypeError
from tapec.frames import here
from tapec.structure import flatten
from tapec.tensor import Tensor

#: What a program computes, so that it is there in one branch alone.
_COMPUTED = (Tensor, TensorArray, np.ndarray)
#: What became of fields, by their names.
Changes = dict[Any, Any]
Watch = Callable[[Any, bool], bool]


class Fields:
    """The fields of one thing, and what they held in front of a branch or loop.

    Where there was nothing, or None, code may put an object, a number or text, once, while it is traced: as layers make
    what they need.

    Args:
        read: gives what is there, by name.
        write: puts a value under a name, or takes it away if it is `UNBOUND`.
        path: what messages call a field of this name.
        watched: whether code that ran changes a field that the program reads; told whether a program computes it.
        inherited: what reading a field gives where there is nothing, from the class.
    """

    #: What becomes of them in a branch that cannot reach them.
    unchanged: ClassVar[Changes] = {}

    def __init__(
        self,
        read: Callable[[], Mapping[Any, Any]],
        write: Callable[[Any, Any], None],
        path: Callable[[Any], str],
        watched: Watch,
        inherited: Callable[[Any], Any] = lambda _: None,
    ) -> None:
        self._inherited = inherited
        self._read, self._write, self._path, self._watched = read, write, path, watched
        self._before = dict(read())
        self._chosen: list[tuple[Any, bool, Any]] = []

    def renew(self) -> None:
        """Take what is there now for what was before."""
        self._before = dict(self._read())

    def look(self) -> Changes:
        """What is in the fields that changed."""
        now, before = self._read(), self._before
        keys = [k for k, v in now.items() if k not in before or not same(before[k], v)]
        keys += [k for k in before if k not in now]
        found = {k: now.get(k, UNBOUND) for k in keys}
        found = {k: v for k, v in found.items() if self._watched(k, self._is_computed(k, v))}
        changes = {k: v for k, v in found.items() if not self._is_made(k, v)}
        if len(found) > len(changes):
            self._before |= {k: v for k, v in found.items() if k not in changes}
        return changes

    def put_back(self, changes: Changes) -> None:
        """Make them hold what they did before."""
        for key in changes:
            self._write(key, self._before.get(key, UNBOUND))

    def _known(self, key: Any) -> Any:
        """What reading a field gave before."""
        return self._before[key] if key in self._before else self._inherited(key)

    def _is_made(self, key: Any, value: Any) -> bool:
        """Whether there is an object now, or a number or text, where there was none."""
        if self._known(key) is not None or value is UNBOUND:
            return False
        return not self._is_computed(key, value)

    def _is_computed(self, key: Any, value: Any) -> bool:
        """Whether there is, or was, what a program computes."""
        return any(isinstance(leaf, _COMPUTED) for leaf in flatten([value, self._known(key)])[0])

    def pairs(self, one: Changes, other: Changes) -> list[Pair]:
        """What is in each field behind two branches that leave different things there."""
        self._chosen = []
        found = []
        for key in {**one, **other}:
            known = self._known(key)
            before = self._before.get(key, UNBOUND) if known is None else known
            first, second = one.get(key, before), other.get(key, before)
            differs = not same(first, second)
            self._chosen.append((key, differs, first))
            if differs:
                found.append((self._path(key), first, second))
        return found

    def settle(self, values: Iterator[Any]) -> None:
        """Put there what both branches chose: the next of some values, where they leave different things."""
        for key, differs, value in self._chosen:
            self._write(key, next(values) if differs else value)

    def refuse(self, changes: Changes) -> None:
        """For loops: what is there stays.

        Raises:
            TypeError: a turn changes it.
        """
        for key, value in changes.items():
            path, before = self._path(key), self._known(key)
            raise TypeError(
                f"{path} is {described(before)} before the loop, but {described(value)} after one iteration: a "
                "function that the loop calls assigns it",
                location=here(),
                hint=f"let the function return it, and assign {path} in the loop; or keep it in a tapec.Variable",
            )


def of_dict(
    space: dict[str, Any],
    path: Callable[[Any], str],
    watched: Watch,
    inherited: Callable[[Any], Any],
) -> Fields:
    """An object's attributes, or a module's globals."""

    def write(key: Any, value: Any) -> None:
        if value is not UNBOUND:
            space[key] = value
        else:
            space.pop(key, None)

    return Fields(lambda: space, write, path, watched, inherited)


def of_class(kind: type, path: Callable[[Any], str], watched: Watch) -> Fields:
    """The attributes of a class."""

    def write(key: str, value: Any) -> None:
        if value is not UNBOUND:
            type.__setattr__(kind, key, value)
        elif key in vars(kind):
            type.__delattr__(kind, key)

    return Fields(lambda: vars(kind), write, path, watched)


def of_slots(
    thing: Any,
    slots: Mapping[str, MemberDescriptorType],
    path: Callable[[Any], str],
    watched: Watch,
) -> Fields:
    """The attributes of an object that has no dict for them."""

    def read() -> dict[str, Any]:
        found = {}
        for name, slot in slots.items():
            try:
                found[name] = slot.__get__(thing)
            except AttributeError:
                continue
        return found

    def write(key: str, value: Any) -> None:
        if value is not UNBOUND:
            slots[key].__set__(thing, value)
        elif key in read():
            slots[key].__delete__(thing)

    return Fields(read, write, path, watched)


def of_cell(name: str, cell: CellType, watched: Watch) -> Fields:
    """A variable that functions share."""

    def read() -> dict[str, Any]:
        try:
            return {name: cell.cell_contents}
        except ValueError:
            return {}

    def write(_: str, value: Any) -> None:
        if value is not UNBOUND:
            cell.cell_contents = value
        elif read():
            del cell.cell_contents

    return Fields(read, write, str, watched)


def of_context(variable: ContextVar[Any]) -> Fields:
    """What a context variable is in this context."""

    def read() -> dict[str, Any]:
        found = variable.get(UNBOUND)
        return {} if found is UNBOUND else {variable.name: found}

    def write(_: str, value: Any) -> None:
        if value is not UNBOUND:  # which it cannot become again
            variable.set(value)

    return Fields(read, write, "{}.get()".format, lambda *_: True, lambda _: variable.get(None))
