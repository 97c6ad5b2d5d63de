"""NumPy arrays and other memory that a branch or loop of the program can reach: Python changes it, so it stays one.

What a branch writes to an array (items, ``+=``, ``fill``, ``numpy.copyto``, ``sort``) happens while it is traced, to
the array itself. There is no tensor that could take the array's place behind the branches, so both have to leave the
same in it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapec.errors import TypeError
from tapec.frames import here

#: What holds numbers or bytes, not objects.
BUFFERS = (np.ndarray, bytearray, array)

_HINT = (
    "this is Python's, and no part of the program: let a tensor hold the items, which has its value before it "
    "(h = tapec.constant(h)), and make another of it, as tapec.tensor_scatter_nd_update and tapec.where do"
)


class Image(NamedTuple):
    """What is in a buffer at one time.

    Attributes:
        copy: a buffer with the same items.
        data: the same as bytes, by which two are compared: of NaN, of zeros with a sign, of objects by identity.
        stays: whether it is as before; bytes may have come to the end of what grows.
    """

    copy: Any
    data: bytes
    stays: bool = True

    @property
    def kind(self) -> tuple[Any, ...]:
        """What makes other items of the same bytes."""
        return (self.copy.shape, self.copy.dtype) if isinstance(self.copy, np.ndarray) else ()


class Buffer:
    """What one NumPy array, bytearray or `array.array` holds in front of a branch or loop."""

    def __init__(self, name: str, holder: Any) -> None:
        self.name = name
        self._holder = np.asarray(holder) if isinstance(holder, np.ndarray) else holder
        self._before = self._there()

    def _there(self) -> Image:
        holder = self._holder
        copy = holder.copy() if isinstance(holder, np.ndarray) else holder[:]
        return Image(copy, holder.tobytes() if hasattr(holder, "tobytes") else bytes(holder))

    def take(self) -> Image:
        """What it holds now; if that is not as before, it is put back."""
        found = self._there()
        grows = not isinstance(self._holder, np.ndarray) and found.data.startswith(
            self._before.data
        )
        if grows or self._alike(found, self._before):
            return self._before
        self._put(self._before)
        return found._replace(stays=False)

    @staticmethod
    def _alike(one: Image, other: Image) -> bool:
        return one.kind == other.kind and one.data == other.data

    def _put(self, image: Image) -> None:
        holder = self._holder
        if not isinstance(holder, np.ndarray):
            holder[:] = image.copy
            return
        if holder.shape != image.copy.shape:
            holder.resize(image.copy.shape, refcheck=False)
        holder[...] = image.copy

    def pairs(self, one: Image, other: Image) -> list[tuple[str, Any, Any]]:
        """Nothing: there is nothing to choose from behind two branches.

        Raises:
            TypeError: they leave other items in it.
        """
        if not self._alike(one, other):
            raise TypeError(
                f"{self.name} holds {_text(one)} at the end of the main branch, but {_text(other)} at the end of the "
                "else branch",
                location=here(),
                hint=_HINT,
            )
        return []

    def settle(self, end: Image, _: Iterator[Any]) -> None:
        """Make it hold what it does at the end of both branches."""
        self._put(end)

    def refuse_change(self) -> None:
        """For loops: what it holds stays.

        Raises:
            TypeError: a turn changes it.
        """
        found = self.take()
        if not found.stays:
            raise TypeError(
                f"{self.name} holds {_text(self._before)} before the loop, but {_text(found)} after one iteration",
                location=here(),
                hint=_HINT,
            )


def is_buffer(thing: Any) -> bool:
    """Whether it is one that somebody can write to."""
    return isinstance(thing, BUFFERS) and not (
        isinstance(thing, np.ndarray) and not thing.flags.writeable
    )


def buffers_under(thing: Any, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The buffers among an object's attributes, and theirs, that code may reach: those that have such names."""
    met: dict[int, Any] = {}
    waiting = [thing]
    while waiting:
        owner = waiting.pop()
        own = getattr(owner, "__dict__", None)
        if id(owner) in met or not isinstance(own, dict):
            continue
        met[id(owner)] = owner
        for name in names:
            value = own.get(name)
            if is_buffer(value):
                yield name, value
            elif value is not None:
                waiting.append(value)


def _text(image: Image) -> str:
    copy: NDArray[Any] | Any = image.copy
    if isinstance(copy, np.ndarray):
        shown = np.array2string(copy, threshold=8, edgeitems=2, separator=", ")
        return " ".join(shown.split())
    shown = repr(copy)
    return shown if len(shown) <= 60 else f"{len(copy)} items, {shown[:50]}…"
