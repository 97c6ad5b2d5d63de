"""Attributes and variables that functions change which a branch or loop of the program calls.

What the code of a branch assigns itself is known before (`tapec.autograph.places`). What a function that it calls
assigns, an object's attribute, a global or another function's variable, shows behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import CellType, MemberDescriptorType
from typing import Any, ClassVar

from tapec.autograph.containers import Pair
from tapec.autograph.merging import described, is_value, same
from tapec.autograph.places import UNBOUND
from tapec.errors import TypeError
from tapec.frames import here
from tapec.structure import flatten

#: What became of fields, by their names.
Changes = dict[Any, Any]


class Fields:
    """The fields of one thing, and what they held in front of a branch or loop.

    Where there was nothing, or None, code may make an object, once, while it is traced: as layers make what they need.

    Args:
        read: gives what is there, by name.
        write: puts a value under a name, or takes it away if it is `UNBOUND`.
        path: what messages call a field of this name.
        watched: whether a field may be changed by code that ran.
    """

    #: What becomes of them in a branch that cannot reach them.
    unchanged: ClassVar[Changes] = {}

    def __init__(
        self,
        read: Callable[[], Mapping[Any, Any]],
        write: Callable[[Any, Any], None],
        path: Callable[[Any], str],
        watched: Callable[[Any], bool],
    ) -> None:
        self._read, self._write, self._path, self._watched = read, write, path, watched
        self._before = dict(read())
        self._chosen: list[tuple[Any, bool, Any]] = []

    def renew(self) -> None:
        """Take what is there now for what was before."""
        self._before = dict(self._read())

    def take(self) -> Changes:
        """What is in the fields that changed; they are put back."""
        now, before = self._read(), self._before
        keys = [k for k, v in now.items() if k not in before or not same(before[k], v)]
        keys += [k for k in before if k not in now]
        found = {k: now.get(k, UNBOUND) for k in keys if self._watched(k)}
        changes = {k: v for k, v in found.items() if not self._is_made(k, v)}
        for key in changes:
            self._write(key, before.get(key, UNBOUND))
        if len(found) > len(changes):
            self._before |= {k: v for k, v in found.items() if k not in changes}
        return changes

    def _is_made(self, key: Any, value: Any) -> bool:
        """Whether there is an object now where there was none."""
        if self._before.get(key) is not None or value is UNBOUND:
            return False
        leaves = flatten(value)[0]
        return not any(is_value(leaf) or isinstance(leaf, str | bytes) for leaf in leaves)

    def pairs(self, one: Changes, other: Changes) -> list[Pair]:
        """What is in each field behind two branches that leave different things there."""
        self._chosen = []
        found = []
        for key in {**one, **other}:
            before = self._before.get(key, UNBOUND)
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

    def refuse_change(self) -> None:
        """For loops: what is there stays.

        Raises:
            TypeError: a turn changes it.
        """
        for key, value in self.take().items():
            path, before = self._path(key), self._before.get(key, UNBOUND)
            raise TypeError(
                f"{path} is {described(before)} before the loop, but {described(value)} after one iteration: a "
                "function that the loop calls assigns it",
                location=here(),
                hint=f"let the function return it, and assign {path} in the loop; or keep it in a tapec.Variable",
            )


def of_dict(
    space: dict[str, Any], path: Callable[[Any], str], watched: Callable[[Any], bool]
) -> Fields:
    """An object's attributes, or a module's globals."""

    def write(key: Any, value: Any) -> None:
        if value is not UNBOUND:
            space[key] = value
        else:
            space.pop(key, None)

    return Fields(lambda: space, write, path, watched)


def of_class(kind: type, path: Callable[[Any], str], watched: Callable[[Any], bool]) -> Fields:
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
    watched: Callable[[Any], bool],
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


def of_cell(name: str, cell: CellType, watched: Callable[[Any], bool]) -> Fields:
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

    return Fields(read, write, "{}.get()".format, lambda _: True)
