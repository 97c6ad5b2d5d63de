"""What a guard's native code looks at (`tapec.runtime.cpu.guards.lookout`): rows of a table, four words each.

The words are the kind of a place, its owner, its key, and what was there.
"""

from __future__ import annotations

import ctypes
import struct
from enum import IntEnum
from typing import Any, NamedTuple

from tapec.runtime.cpu.guards.versions import dict_version, slot_of

#: The greatest number of 64 bits.
_MOST = 2**64 - 1


class Kind(IntEnum):
    """What a place is, and so what its owner, its key and the word for what it held are."""

    #: An object, a name, a value.
    ATTRIBUTE = 0
    #: The same, for the function of a method.
    METHOD = 1
    #: A dict, a key, a value; no value where there is no such key.
    ENTRY = 2
    #: A cell, nothing, its contents.
    CELL = 3
    #: An object, nothing, its class.
    CLASS = 4
    #: A list, nothing, a list of the same items.
    ITEMS = 5
    #: A dict, nothing, a dict of the same entries in the same order.
    ENTRIES = 6
    #: An object, its ``__dict__``, a dict with the same keys in the same order.
    NAMES = 7
    #: A class, nothing, its version; see `tapec.runtime.cpu.guards.versions`.
    VERSION = 8
    #: A set, nothing, a list of its members in the order in which it gives them.
    MEMBERS = 9
    #: An object, its ``__dict__``, a `Snapshot` of that: if nothing changed, what follows needs no look.
    OBJECT = 10
    #: A dict, nothing, a `Snapshot` of it: the same, for a dict that is no object's.
    DICT = 11
    #: A dict, nothing, the `Snapshot` in front: all in between was looked at, and holds for the dict as it is now.
    SEAL = 12
    #: A function, nothing, the defaults of its parameters, or of those that are given by name, or its code.
    DEFAULTS = 13
    KEYWORDS = 14
    CODE = 15
    #: As OBJECT, by the address where the object has its dict.
    SLOT = 16


class Look(NamedTuple):
    """One place to look at; ``of``: the object whose ``__dict__`` its owner is, if that is so."""

    kind: Kind
    owner: Any
    key: Any
    held: Any
    of: Any = None

    def words(self) -> bytes:
        """Its part of the table."""
        if self.kind in _NUMBERED:
            held = self.held
        else:
            held = self.held.address if isinstance(self.held, Snapshot) else _word(self.held)
        kind, owner = self.kind, id(self.owner)
        if kind is Kind.OBJECT and (slot := slot_of(self.owner, self.key)):
            kind, owner = Kind.SLOT, slot
        return struct.pack("<4Q", kind, owner, _word(self.key), held)


#: What there is where there is nothing.
NOTHING = object()
#: Places for which the word is a number.
_NUMBERED = (Kind.VERSION,)


class Snapshot:
    """Which objects a dict held, keeping none of them alive: identities to compare with.

    Attributes:
        address: how many rows of the table to leave out if all is as it was, the version of the dict for which that is
            known, how many entries, then keys and values; no entries but -1 where the version is all that is compared.
    """

    def __init__(self, held: dict[Any, Any], rows: int, entries: bool = True) -> None:
        """``entries``: whether entries are compared where the version is another one."""
        words = [rows, dict_version(held), len(held) if entries else -1 & _MOST]
        for key, value in held.items() if entries else ():
            words += (id(key), id(value))
        self._words = (ctypes.c_uint64 * len(words))(*words)
        self.address = ctypes.addressof(self._words)


def _word(thing: Any) -> int:
    return 0 if thing is NOTHING else id(thing)
