"""Where the newest numbers of an array are: with the host, or on a device.

A program on a device keeps the arrays that it updates there; the host's copy is brought up to date when somebody reads
it. `AWAY` holds the arrays of which that is still to be done; mostly it is empty. What such a program returns is a
`Remote`, which comes to the host when it is read, if it ever is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

A = TypeVar("A")

#: By the identity of an array: fetches its numbers from the device.
AWAY: dict[int, Callable[[], None]] = {}


def at_home(array: A) -> A:
    """The array, with the newest numbers; waits for the device if that has them."""
    if AWAY:
        fetch = AWAY.get(id(array))
        if fetch is not None:
            fetch()
    return array


class Remote(ABC):
    """An array that is on a device, and does not change there.

    Attributes:
        number: of the device.
        dtype: NumPy's.
        shape: sizes.
    """

    __slots__ = ()
    number: int
    dtype: Any
    shape: tuple[int, ...]

    @abstractmethod
    def fetch(self) -> Any:
        """The elements as a NumPy array, which waits for the device; the same one each time."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.fetch() if dtype is None else self.fetch().astype(dtype)

    @abstractmethod
    def export(
        self,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the device's memory."""

    @abstractmethod
    def interface(self) -> dict[str, Any]:
        """What ``__cuda_array_interface__`` gives."""


def on_host(array: Any) -> Any:
    """An array of the host's with the newest numbers; waits for the device if that has them."""
    return array.fetch() if isinstance(array, Remote) else at_home(array)
