"""Copies on devices of the host's arrays that programs update there: the arrays of Variables.

While a device has newer numbers than the host, `tapec.runtime.residence.AWAY` tells how to fetch them.
"""

from __future__ import annotations

import weakref
from typing import Any

from tapec.runtime.cuda.device.driver import Driver
from tapec.runtime.cuda.device.memory import Allocation
from tapec.runtime.residence import AWAY, at_home


class Resident:
    """The copy on a device of an array of the host's.

    Attributes:
        key: in `AWAY`, of the array.
        memory: where it is.
    """

    def __init__(self, driver: Driver, array: Any, stream: int) -> None:
        """Make room for it.

        Raises:
            MemoryError: the device has none.
        """
        self.memory = Allocation(driver, array.nbytes, stream)
        self._array = weakref.ref(array, lambda _: self._leave())
        self.key = id(array)

    def _leave(self) -> None:
        if self.is_newest:
            del AWAY[self.key]
        _RESIDENTS.pop((id(self.memory.driver), self.key), None)

    @property
    def is_newest(self) -> bool:
        """Whether this device has newer numbers than the host, and than other devices."""
        fetch = AWAY.get(self.key)
        return fetch is not None and getattr(fetch, "__self__", None) is self

    def take(self, array: Any, stream: int) -> int:
        """The address of the newest numbers, which the device then has, in the order of a stream."""
        address = self.memory.at(stream)
        if not self.is_newest:
            self.memory.driver.upload(address, at_home(array), stream)
        return address

    def copied(self, stream: int) -> Allocation | None:
        """A copy on the device of what only the device has; None where the host has it, as it is given without room.

        Raises:
            InternalError: the device failed.
        """
        if not self.is_newest:
            return None
        own = self.memory
        try:
            copy = Allocation(own.driver, own.size, stream)
        except MemoryError:
            self.fetch()
            return None
        own.driver.copy(copy.address, own.at(stream), own.size, stream)
        return copy

    def go_away(self) -> None:
        """The device has changed the numbers."""
        AWAY[self.key] = self.fetch

    def fetch(self) -> None:
        """Give the host the newest numbers."""
        array = self._array()
        memory = self.memory
        if array is not None:
            memory.driver.download(array, memory.address, memory.stream)
        AWAY.pop(self.key, None)


_RESIDENTS: dict[tuple[int, int], Resident] = {}


def resident(driver: Driver, array: Any, stream: int) -> Resident:
    """The copy of an array on a device, which has one from now on.

    Raises:
        MemoryError: there is no room for it.
    """
    key = id(driver), id(array)
    found = _RESIDENTS.get(key)
    if found is None:
        found = _RESIDENTS[key] = Resident(driver, array, stream)
    return found


def newest(driver: Driver, array: Any) -> Resident | None:
    """The copy on a device, if that has the newest numbers."""
    if id(array) not in AWAY:
        return None
    found = _RESIDENTS.get((id(driver), id(array)))
    return found if found is not None and found.is_newest else None
