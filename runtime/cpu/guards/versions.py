"""Numbers that CPython changes whenever a class or a dict changes, so that to look at one is to compare a number."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

#: Where CPython's PyDictObject has its version, 64 bits that change with every change of the dict; until Python 3.12
#: (PEP 509).
OF_DICTS = 24
#: Where CPython's PyTypeObject has its version, 32 bits that change whenever the class or one that it is derived from
#: does.
OF_CLASSES = 384

#: The flag of classes whose objects have their dict in front of them, and where (Python 3.11 and 3.12).
_MANAGED = 1 << 4
_OF_MANAGED = -24


def version_of(kind: type) -> int:
    """The version of a class; 0 if it has none, so that nothing can be said of it."""
    if not _has_versions():
        return 0
    return _version(kind)


def _version(kind: type) -> int:
    type.__getattribute__(kind, "__init__")  # a lookup gives a class its version
    return ctypes.c_uint32.from_address(id(kind) + OF_CLASSES).value


@cache
def _has_versions() -> bool:
    """Whether classes have versions where they are looked for."""
    if sys.implementation.name != "cpython" or sys.getsizeof(int) < OF_CLASSES + 8:
        return False

    class Base:
        pass

    class Derived(Base):
        pass

    seen = [_version(Derived), _version(Derived)]
    for value in range(3):
        Base.value = value  # type: ignore[attr-defined]
        seen.append(_version(Derived))
    return seen[0] == seen[1] != 0 and len(set(seen[1:])) == 4 and 0 not in seen


@cache
def dicts_have_versions() -> bool:
    """Whether dicts have versions where they are looked for, whoever changes them."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 13):
        return False
    thing = type("Thing", (), {})()
    held = vars(thing)
    seen = [_version_at(held)]
    for value in range(20):  # soon by the short ways that the interpreter finds
        thing.value = value
        seen.append(_version_at(held))
    for change in (
        lambda: held.update(value=0),
        lambda: held.pop("value"),
        lambda: held.setdefault("value", 1),
        lambda: held.__ior__({"value": 2}),
        lambda: delattr(thing, "value"),
        lambda: held.__setitem__(1, 2),
        held.clear,
    ):
        change()
        seen.append(_version_at(held))
    return len(set(seen)) == len(seen) and _version_at(held) == seen[-1]


def _version_at(held: dict[Any, Any]) -> int:
    return ctypes.c_uint64.from_address(id(held) + OF_DICTS).value


def slot_of(thing: Any, held: dict[Any, Any]) -> int:
    """The address where an object has the reference to its ``__dict__``; 0 if it is not known."""
    offset = type(thing).__dictoffset__
    if not dicts_have_versions():
        return 0
    if type(thing).__flags__ & _MANAGED:
        offset = _OF_MANAGED
    if offset in (0, -1):
        return 0
    address = id(thing) + offset
    return address if ctypes.c_uint64.from_address(address).value == id(held) else 0


def dict_version(held: dict[Any, Any]) -> int:
    """The version of a dict; 0, which none has, if there are no versions."""
    return _version_at(held) if dicts_have_versions() else 0
