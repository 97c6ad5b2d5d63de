"""Memory of a device, used in the order of streams, and arrays in it.

What is put into one stream happens in order; streams go on side by side. An `Allocation` knows the stream that used it
last: who uses it in another one lets that wait for what the first has been given so far. So programs that share no
memory may run at once, in streams of their own, and programs that do follow each other.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from tapec.ir.errors import DTypeError, InternalError
from tapec.runtime.cuda.device import dlpack
from tapec.runtime.cuda.device.driver import Driver
from tapec.runtime.residence import Remote

#: The handle of the stream that is there as long as the process.
_DEFAULT = 1


class Allocation:
    """Bytes on a device; they are given back when nobody refers to them any more.

    Attributes:
        is_lent: another library reads them in the default stream, maybe longer than it refers to them.
    """

    __slots__ = ("_owner", "address", "driver", "is_lent", "size", "stream")

    def __init__(
        self,
        driver: Driver,
        size: int,
        stream: int,
        *,
        address: int | None = None,
        owner: Any = None,
    ) -> None:
        """``owner`` keeps the memory of others, which is at an ``address``.

        Raises:
            MemoryError: the device has no such room.
        """
        self.driver = driver
        self.size = size
        self.stream = stream
        self.is_lent = False
        self._owner = owner
        self.address = driver.allocate(size, stream) if address is None else address

    def at(self, stream: int) -> int:
        """The address, for what is put into a stream from now on."""
        if stream != self.stream:
            self.driver.order(self.stream, stream)
            self.stream = stream
        return self.address

    def end_loan(self) -> None:
        """Something else is about to be there: let that wait for who was lent the memory."""
        if self.is_lent:
            self.driver.order(_DEFAULT, self.stream)
            self.is_lent = False

    def __del__(self, at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the process the driver may be gone, and gives everything back itself.
        if self._owner is None and hasattr(self, "address") and not at_end():
            # A device that failed says so at the next call.
            with contextlib.suppress(InternalError):
                self.end_loan()
                self.driver.free(self.address, self.stream)


class DeviceArray(Remote):
    """An array on a device that nobody writes to any more."""

    __slots__ = ("_host", "_lock", "_pool", "dtype", "memory", "number", "shape")

    def __init__(
        self,
        memory: Allocation,
        dtype: Any,
        shape: tuple[int, ...],
        pool: list[Allocation] | None = None,
    ) -> None:
        """Row-major, from the beginning of the memory on; ``pool`` gets the memory when nobody needs the array."""
        self.memory = memory
        self.number = memory.driver.number
        self.dtype: Any = np.dtype(dtype)
        self.shape = shape
        self._host: Any = None
        self._lock = Lock()
        self._pool = pool

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self._pool.append(self.memory)  # type: ignore[union-attr]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * int(self.dtype.itemsize)

    def fetch(self) -> Any:
        """The elements as a NumPy array; waits for the device, the first time."""
        with self._lock:
            if self._host is None:
                host: Any = np.empty(self.shape, self.dtype)
                stream = self.memory.stream
                self.memory.driver.download(host, self.memory.address, stream)
                self._host = host
        return self._host

    def interface(self) -> dict[str, Any]:
        """Version 3: to be read only, when the stream that is named is done.

        Raises:
            DTypeError: the protocol has no such dtype.
        """
        if self.dtype.kind not in "biufc":
            raise DTypeError(
                f"__cuda_array_interface__ has no {self.dtype}", hint="use DLPack, which has"
            )
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.memory.address if self.nbytes else 0, True),
            "strides": None,
            "stream": int(self.memory.stream),
            "version": 3,
        }

    def export(
        self,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the memory itself, or of a copy, for who works in a stream.

        ``stream`` is as the array API standard has it: None and 1 are the default one, 2 that of a thread, -1 wants no
        order to be kept.

        Raises:
            DTypeError: DLPack has no such dtype.
            MemoryError: the device has no room for a copy.
        """
        given, driver = self, self.memory.driver
        if copy:
            memory = Allocation(driver, self.nbytes, self.memory.stream)
            driver.copy(memory.address, self.memory.address, self.nbytes, memory.stream)
            given = DeviceArray(memory, self.dtype, self.shape)
        if stream != -1:
            reader = _DEFAULT if stream is None else stream
            driver.order(given.memory.stream, reader)
            given.memory.is_lent |= reader == _DEFAULT
        return dlpack.capsule(
            dlpack.Described(given.memory.address, driver.number, self.dtype, self.shape),
            owner=given,
            versioned=max_version is not None and max_version >= (1, 0),
            copied=bool(copy),
        )


def uploaded(driver: Driver, array: Any, stream: int) -> DeviceArray:
    """A copy of a host's array on a device.

    Raises:
        MemoryError: the device has no room.
    """
    whole: Any = np.ascontiguousarray(array).reshape(np.shape(array))
    memory = Allocation(driver, whole.nbytes, stream)
    driver.upload(memory.address, whole, stream)
    return DeviceArray(memory, whole.dtype, whole.shape)


def moved(array: DeviceArray, driver: Driver, stream: int) -> DeviceArray:
    """An array on another device: by way of the host."""
    return array if array.memory.driver is driver else uploaded(driver, array.fetch(), stream)
