"""Attributes and variables that functions change which a branch or loop of the program calls.

What the code of a branch assigns itself is known before (`tapec.autograph.places`). What a function that it calls
assigns, an object's attribute, a global or another function's variable, shows behind it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import CellType, CodeType, FunctionType, MemberDescriptorType
from typing import Any, ClassVar

import numpy as np

from tapec.autograph.containers import Pair
from tapec.autograph.merging import described, is_data, same
from tapec.autograph.places import UNBOUND
from tapec.compiled.guards.beginnings import (
    Before,
    attribute_before,
    item_before,
    rest_on,
    shared_before,
)
from tapec.compiled.guards.objects import inherited_by
from tapec.compiled.guards.ownership import is_users_class
from tapec.compiled.guards.places import Current
from tapec.control.tensor_array import TensorArray
from tapec.errors import TypeError
from tapec.frames import here
from tapec.runtime.cpu.guards.looks import NOTHING
from tapec.structure import flatten
from tapec.tensor import Tensor

#: What a program computes, so that it is there in one branch alone.
_COMPUTED = (Tensor, TensorArray, np.ndarray)
#: What became of fields, by their names.
Changes = dict[Any, Any]
Watch = Callable[[Any, bool], bool]


class Fields:
    """The fields of one thing, and what they held in front of a branch or loop.

    Where there was nothing, or None, code may put an object, once, while it is traced: as layers make what they need.
    So it may with a number or text that nobody reads but code which the branch or loop calls.

    Args:
        read: gives what is there, by name.
        write: puts a value under a name, or takes it away if it is `UNBOUND`.
        path: what messages call a field of this name.
        watched: whether code that ran changes a field that the program reads; told whether a program computes it.
        begin: the place of a field, with what it held before.
        remembered: whether nobody reads a field but code that ran, which makes what is not there.
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
        begin: Callable[[Any, Any], Before],
        remembered: Callable[[Any], bool] = lambda _: False,
        inherited: Callable[[Any], Any] = lambda _: None,
    ) -> None:
        self._begin, self._remembered, self._inherited = begin, remembered, inherited
        self._read, self._write, self._path, self._watched = read, write, path, watched
        self._before = dict(read())
        self._chosen: list[tuple[Any, bool, Any]] = []

    def renew(self) -> None:
        """Take what is there now for what was before."""
        self._before = dict(self._read())

    def look(self, in_loop: bool = False) -> Changes:
        """What is in the fields that changed.

        Numbers and texts that were made are among it in a branch, where no object was made beside them: the other one
        makes its own.
        """
        now, before = self._read(), self._before
        keys = [k for k, v in now.items() if k not in before or not same(before[k], v)]
        keys += [k for k in before if k not in now]
        found = {k: now.get(k, UNBOUND) for k in keys}
        found = {k: v for k, v in found.items() if self._watched(k, self._is_computed(k, v))}
        made = {k: v for k, v in found.items() if self._is_made(k, v)}
        if not in_loop and all(map(is_data, made.values())):
            return found
        self._before |= made
        return {k: v for k, v in found.items() if k not in made}

    def called(self, changes: Changes) -> list[str]:
        """What messages call the fields that changed."""
        return [self._path(key) for key in changes]

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

    def _is_memo(self, key: Any, value: Any) -> bool:
        """Whether it was made in one branch, for whoever asks for it again."""
        return self._is_made(key, value) and self._remembered(key)

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
            if (key in one) != (key in other) and self._is_memo(key, {**one, **other}[key]):
                first = second = {**one, **other}[key]
            differs = not same(first, second)
            self._chosen.append((key, differs, first))
            if known is not None and (key in one) != (key in other):
                rest_on(self._begin(key, known))
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
    owner: Any,
    space: dict[str, Any],
    path: Callable[[Any], str],
    watched: Watch,
    remembered: Callable[[Any], bool],
    inherited: Callable[[Any], Any],
) -> Fields:
    """An object's attributes, or a module's globals, where the owner is the dict itself."""

    def write(key: Any, value: Any) -> None:
        if value is not UNBOUND:
            space[key] = value
        else:
            space.pop(key, None)

    begin = functools.partial(item_before if owner is space else attribute_before, owner, path)
    return Fields(lambda: space, write, path, watched, begin, remembered, inherited)


def of_class(kind: type, path: Callable[[Any], str], watched: Watch) -> Fields:
    """The attributes of a class."""

    def write(key: str, value: Any) -> None:
        if value is not UNBOUND:
            type.__setattr__(kind, key, value)
        elif key in vars(kind):
            type.__delattr__(kind, key)

    begin = functools.partial(attribute_before, kind, path)
    return Fields(lambda: vars(kind), write, path, watched, begin)


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

    begin = functools.partial(attribute_before, thing, path)
    return Fields(read, write, path, watched, begin)


def of_own(thing: Any, names: Sequence[str], path: Callable[[Any], str]) -> Fields:
    """What Python keeps of an object or a function, and reads itself: its class, its code, its defaults."""

    def read() -> dict[str, Any]:
        return {name: getattr(thing, name) for name in names}

    def write(key: str, value: Any) -> None:
        object.__setattr__(thing, key, value)

    begin = functools.partial(attribute_before, thing, path)
    return Fields(read, write, path, lambda *_: True, begin)


def of_cell(code: CodeType, name: str, cell: CellType, watched: Watch) -> Fields:
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

    def begin(_: str, value: Any) -> Before:
        return shared_before(code, name, cell, value)

    return Fields(read, write, str, watched, begin)


def of_context(variable: ContextVar[Any]) -> Fields:
    """What a context variable is in this context."""

    def read() -> dict[str, Any]:
        try:
            return {variable.name: variable.get()}
        except LookupError:
            return {}

    def write(_: str, value: Any) -> None:
        if value is not UNBOUND:  # which it cannot become again
            variable.set(value)

    def begin(name: str, _: Any) -> Before:
        return Before(Current(variable, path(name)))

    path = "{}.get()".format
    return Fields(read, write, path, lambda *_: True, begin)


def given_by(kind: type, name: Any) -> Any:
    """What a class of the user's gives objects that have no such attribute of their own; None if nothing."""
    found = inherited_by(kind, name) if isinstance(name, str) else NOTHING
    is_method = isinstance(found, FunctionType | staticmethod | classmethod)
    return (
        None if found is NOTHING or (hasattr(type(found), "__get__") and not is_method) else found
    )


def slots_of(kind: type) -> dict[str, MemberDescriptorType]:
    """The attributes that classes of the user's keep without a dict."""
    return {
        name: slot
        for owner in reversed(kind.__mro__)
        if is_users_class(owner)
        for name, slot in vars(owner).items()
        if isinstance(slot, MemberDescriptorType)
    }
