"""Places of Python's state, what each held when a program was traced, and whether two values are the same to a program.

A place is where user code finds a value: a global, a closure variable, an attribute, the items of a container. It knows
how to look there again, as Python source too, since guards are compiled from it.
"""

from __future__ import annotations

import ctypes
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Set
from contextvars import Context, ContextVar
from mmap import mmap
from threading import local
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from tapec.compiled.guards.equality import (
    Elements,
    is_or_same,
    same,
    same_array,
    same_bytes,
    same_entries,
    same_items,
    same_members,
)
from tapec.compiled.retraces import Cause, Change
from tapec.runtime.cpu.guards.looks import Kind, Look
from tapec.tensor import Tensor

_MOST_TEXT = 60
#: Up to so many items a list is compared item by item in the source of a guard.
_SHORT = 8


class Place:
    """Where a trace found a value.

    Attributes:
        owner: the object that has the place.
        key: which of its places.
        value: what was found there.
        path: how the user would call it.
        cause: of which kind a change here is.
    """

    #: Whether the value is no object that was found, but a note of what was: one that is alike says the same.
    is_note = False

    def __init__(self, owner: Any, key: Any, value: Any, path: str, cause: Cause) -> None:
        self.owner = owner
        self.key = key
        self.value = value
        self.path = path
        self.cause = cause

    def now(self) -> Any:
        """What is there now.

        Raises:
            LookupError, AttributeError, ValueError: nothing.
        """
        raise NotImplementedError

    def source(self, owner: str, value: str) -> str:
        """An expression that is true while nothing changed; the arguments are names of the owner and the value."""
        return f"((t := {self.look(owner)}) is {value} or same(t, {value}))"

    def look(self, owner: str) -> str:
        """An expression for what is there."""
        raise NotImplementedError

    @property
    def bound(self) -> Any:
        """What the source calls the value."""
        return self.value

    def native(self) -> Look | None:
        """What native code has to compare; None if it cannot."""
        return None

    def follow(self) -> bool:
        """Take another object that makes no difference for the one that native code looks for; whether there was one.

        This one does not: few places have such objects.
        """
        return False

    def _follow(self) -> bool:
        """The same, for a place whose value is what native code looks for."""
        try:
            now = self.now()
        except (LookupError, AttributeError, ValueError):
            return False
        before, self.value = self.value, now
        return before is not now

    def holds(self) -> bool:
        """Whether nothing changed."""
        try:
            found = self.now()
        except (LookupError, AttributeError, ValueError):
            return False
        return found is self.value or same(found, self.value)

    def stayed(self) -> bool:
        """Whether the very object is there that was found, so that the trace itself did not change it."""
        if self.is_note:
            return self.holds()
        try:
            return self.now() is self.value
        except (LookupError, AttributeError, ValueError, RuntimeError):
            return False

    def change(self) -> Change:
        """What changed, for messages."""
        try:
            new = text_of(self.now())
        except (LookupError, AttributeError, ValueError):
            new = "nothing"
        return Change(self.path, self.cause, text_of(self.value), new)


class Closed(Place):
    """A closure variable; the owner is its cell."""

    def now(self) -> Any:
        """What the cell holds."""
        return self.owner.cell_contents

    def look(self, owner: str) -> str:
        """The cell's contents."""
        return f"{owner}.cell_contents"

    def native(self) -> Look | None:
        """The cell."""
        return Look(Kind.CELL, self.owner, None, self.value)


class Attribute(Place):
    """An attribute as the user's code reads it."""

    def now(self) -> Any:
        """The attribute, or None if it is one that was not there."""
        return getattr(self.owner, self.key)

    def look(self, owner: str) -> str:
        """An attribute access."""
        return f"{owner}.{self.key}"

    def follow(self) -> bool:
        """Take another value that is equal."""
        return self._follow()

    def native(self) -> Look | None:
        """The attribute; of the class, the object's type."""
        if type(self) is not Attribute:
            return None
        if self.key == "__class__":
            is_type = type(self.owner) is self.value
            return Look(Kind.CLASS, self.owner, None, self.value) if is_type else None
        if isinstance(self.owner, FunctionType) and self.key in _OF_FUNCTIONS and self.value:
            return Look(_OF_FUNCTIONS[self.key], self.owner, None, self.value)
        return Look(Kind.ATTRIBUTE, self.owner, self.key, self.value)


#: What native code finds in a function itself, if there is any.
_OF_FUNCTIONS = {
    "__code__": Kind.CODE,
    "__defaults__": Kind.DEFAULTS,
    "__kwdefaults__": Kind.KEYWORDS,
}


class Missing(Attribute):
    """An attribute that was asked for and not there."""

    def source(self, owner: str, value: str) -> str:
        """Whether it is still not there."""
        return f"not hasattr({owner}, {self.key!r})"

    def holds(self) -> bool:
        """Whether it is still not there."""
        return not hasattr(self.owner, self.key)

    def change(self) -> Change:
        """From nothing to something."""
        return Change(self.path, self.cause, "nothing", text_of(getattr(self.owner, self.key)))


class Lacking(Missing):
    """An attribute that was asked for and not there, of an object whose class gives others by code of the user."""

    def source(self, owner: str, value: str) -> str:
        """Whether it is still not there, as far as Python's own way of looking goes."""
        return f"lacks({owner}, {self.key!r})"

    def holds(self) -> bool:
        """Whether it is still not there."""
        return lacks(self.owner, self.key)


class Absent(Place):
    """Attributes that an object, a class or a module does not have of its own; ``value`` is a set of names."""

    def __init__(self, owner: Any, path: str, names: Set[str]) -> None:
        """``names``: those of them are watched that it does not have."""
        absent = set(names - spaces_of(owner).keys())
        super().__init__(owner, None, absent, path, Cause.ATTRIBUTE)

    def now(self) -> Any:
        """Those of them that it has now."""
        return self.value & spaces_of(self.owner).keys()

    def source(self, owner: str, value: str) -> str:
        """Whether it still has none."""
        return f"spaces_of({owner}).keys().isdisjoint({value})"

    def holds(self) -> bool:
        """Whether it still has none."""
        return not self.now()

    def change(self) -> Change:
        """From nothing to the first that is there."""
        name = min(self.now())
        new = text_of(spaces_of(self.owner)[name])
        return Change(f"{self.path}.{name}", self.cause, "nothing", new)


class Names(Place):
    """Which attributes an object, a class or a module has of its own; not those that tapec keeps there."""

    def __init__(self, owner: Any, path: str, hidden: Set[str]) -> None:
        """``hidden``: names that do not count."""
        self._hidden = hidden
        super().__init__(owner, None, names_of(owner, hidden), path, Cause.ATTRIBUTE)

    def now(self) -> Any:
        """The names in order."""
        return names_of(self.owner, self._hidden)

    def source(self, owner: str, value: str) -> str:
        """A comparison of names."""
        return f"names_of({owner}, {set(self._hidden)!r}) == {value}"

    def native(self) -> Look | None:
        """The keys of an object's dict, hidden ones too."""
        own = spaces_of(self.owner)
        if type(own) is not dict or isinstance(self.owner, ModuleType | FunctionType | local):
            return None
        return Look(Kind.NAMES, self.owner, own, dict.fromkeys(own))

    def change(self) -> Change:
        """The first that came or went."""
        new = self.now()
        name = next((n for n in (*new, *self.value) if (n in new) != (n in self.value)), None)
        if name is None:
            return Change(f"the order of {self.path}", self.cause, str(self.value), str(new))
        held = text_of(spaces_of(self.owner)[name]) if name in new else "nothing"
        old = "nothing" if name in new else "an attribute"
        return Change(f"{self.path}.{name}", self.cause, old, held)


class Method(Attribute):
    """A method: looked up anew it is a new object each time, so its function is compared."""

    def now(self) -> Any:
        """The function behind the method."""
        return getattr(self.owner, self.key).__func__

    def look(self, owner: str) -> str:
        """The function of an attribute."""
        return f"{owner}.{self.key}.__func__"

    def native(self) -> Look | None:
        """The method's function."""
        return Look(Kind.METHOD, self.owner, self.key, self.value)


class Slot(Attribute):
    """An attribute in the dict of an object whose class looks attributes up in its own way."""

    def now(self) -> Any:
        """What the object's dict has."""
        return object.__getattribute__(self.owner, "__dict__")[self.key]

    def look(self, owner: str) -> str:
        """Past the class."""
        return f"object_get({owner}, '__dict__')[{self.key!r}]"


class Current(Place):
    """What a context variable holds in the context of now."""

    def __init__(self, owner: ContextVar[Any], path: str) -> None:
        super().__init__(owner, None, owner.get(None), path, Cause.GLOBAL)

    def now(self) -> Any:
        """Its value, None if it has none."""
        return self.owner.get(None)

    def look(self, owner: str) -> str:
        """A call of get."""
        return f"{owner}.get(None)"


class Item(Place):
    """An array in a container: no name leads to it."""

    def __init__(self, value: Any, path: str) -> None:
        super().__init__(None, None, value, path, Cause.ITEM)


class Contents(Place):
    """The items of a container, or the elements of an array; ``value`` is a copy."""

    is_note = True

    #: By the container's class: how to copy what is in it, and how to compare it with such a copy.
    def __init__(self, owner: Any, path: str) -> None:
        kind = next(kind for kind in _CONTENTS if isinstance(owner, kind))
        self._copy, self._equal = _CONTENTS[kind]
        cause = Cause.CONTENTS
        if isinstance(owner, Mapping):
            cause = Cause.ENTRY
        elif isinstance(owner, list | deque):
            cause = Cause.ITEM
        super().__init__(owner, None, self._copy(owner), path, cause)

    def now(self) -> Any:
        """A copy."""
        return self._copy(self.owner)

    def source(self, owner: str, value: str) -> str:
        """A comparison with the copy; of a short list item by item, which is faster."""
        whole = f"{self._equal.__name__}({owner}, {value})"
        if type(self.owner) is not list or len(self.owner) > _SHORT:
            return whole
        items = "".join(f" and {owner}[{i}] is {value}[{i}]" for i in range(len(self.value)))
        return f"(len({owner}) == {len(self.value)}{items} or {whole})"

    def native(self) -> Look | None:
        """The items of a list, a dict or a set."""
        kind = _native_kind(type(self.owner))
        if kind is Kind.MEMBERS:
            return Look(kind, self.owner, None, list(self.owner))
        return None if kind is None else Look(kind, self.owner, None, self.value)

    def holds(self) -> bool:
        """Whether the items are the same; a view that was released, or a closed map, has none."""
        try:
            return self._equal(self.owner, self.value)
        except ValueError:
            return False

    def follow(self) -> bool:
        """Take other items that are equal for those that native code looks for."""
        if self.native() is None:
            return False
        before, self.value = self.value, self.now()
        old, new = (c.values() if isinstance(c, dict) else c for c in (before, self.value))
        return not all(a is b for a, b in zip(old, new, strict=True))

    def change(self) -> Change:
        """The first item that is another one, or the number of items."""
        try:
            new = self.now()
        except ValueError:
            return Change(self.path, self.cause, text_of(self.value), "nothing")
        return _first_difference(self.path, self.cause, self.value, new)


#: What numbers, structures and arrays of C are, which have no public class in common.
_CDATA = ctypes.Structure.__base__ or ctypes.Structure
#: By kind of container: a copy of what is in it, and the comparison with that.
_CONTENTS: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], bool]]] = {
    list: (list, same_items),
    deque: (list, same_items),
    dict: (dict, same_entries),
    set: (frozenset, same_members),
    MappingProxyType: (dict, same_entries),
    bytearray: (bytes, same_bytes),
    memoryview: (bytes, same_bytes),
    array: (bytes, same_bytes),
    _CDATA: (bytes, same_bytes),
    mmap: (bytes, same_bytes),
    Context: (dict, same_entries),
    np.ndarray: (Elements.of, same_array),
}
#: What has contents of its own, which may change while it stays the same object.
CONTAINERS = tuple(_CONTENTS)
#: Places whose value is a note about others.
ABOUT_OTHERS = (Contents, Missing, Current, Absent, Names)
#: Of these, what holds nothing but numbers.
BUFFERS = (bytearray, memoryview, array, _CDATA, mmap)


#: By a container's class, how native code compares it.
_NATIVE: dict[type, Kind] = {list: Kind.ITEMS, dict: Kind.ENTRIES, set: Kind.MEMBERS}


def _native_kind(kind: type) -> Kind | None:
    """How native code compares containers of a class; one that is derived has to be gone over as Python's are."""
    for base, found in _NATIVE.items():
        if kind is base:
            return found
        if issubclass(kind, base) and not issubclass(kind, OrderedDict):
            own = all(
                getattr(kind, n) is getattr(base, n) for n in ("__iter__", "__len__", "__eq__")
            )
            return found if own and "keys" not in vars(kind) else None
    return None


def spaces_of(owner: Any) -> Mapping[str, Any]:
    """The attributes that something has of its own, found without code of the user."""
    if isinstance(owner, type | local):
        return owner.__dict__  # of this thread, if each has its own
    try:
        found: Mapping[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return found


def names_of(owner: Any, hidden: Set[str]) -> tuple[str, ...]:
    """The names of these attributes, in order."""
    return tuple([name for name in spaces_of(owner) if name not in hidden])


def lacks(owner: Any, name: str) -> bool:
    """Whether Python's own way of looking attributes up finds none."""
    try:
        object.__getattribute__(owner, name)
    except AttributeError:
        return True
    return False


#: What the source of guards calls.
COMPARISONS: dict[str, Any] = {
    **{c.__name__: c for _, c in _CONTENTS.values()},
    **{c.__name__: c for c in (spaces_of, names_of, lacks)},
}


def text_of(value: Any) -> str:
    """A value in a few words: short values themselves, else what they are."""
    if isinstance(value, Tensor):
        return f"a Tensor {value.type}"
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{list(value.shape)}"
    if isinstance(value, FunctionType | BuiltinFunctionType | MethodType):
        return f"function {value.__qualname__}"
    if isinstance(value, type):
        return f"class {value.__qualname__}"
    if isinstance(value, CellType):
        return "a closure variable"
    try:
        text = repr(value)
    except Exception:  # the user's own, whatever it does
        text = object.__repr__(value)
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"


def _first_difference(path: str, cause: Cause, old: Any, new: Any) -> Change:
    if isinstance(old, dict):
        for key in [*old, *(k for k in new if k not in old)]:
            if key not in old or key not in new or not is_or_same(old[key], new[key]):
                before, after = (text_of(d[key]) if key in d else "nothing" for d in (old, new))
                return Change(f"{path}[{key!r}]", cause, before, after)
        return Change(f"the order of {path}", cause, text_of([*old]), text_of([*new]))
    if isinstance(old, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            if not is_or_same(a, b):
                return Change(f"{path}[{i}]", cause, text_of(a), text_of(b))
    if isinstance(old, list):
        return Change(f"len({path})", cause, str(len(old)), str(len(new)))
    return Change(path, cause, text_of(old), text_of(new))
