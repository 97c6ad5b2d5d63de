"""NumPy arrays, streams in memory and the like that a branch or loop of the program can reach: Python changes them.

What a branch writes to an array (items, ``+=``, ``fill``, ``numpy.copyto``, ``sort``) happens while it is traced, to
the array itself. There is no tensor that could take the array's place behind the branches, so both have to leave the
same in it.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapec.errors import TypeError
from tapec.frames import here

#: Bytes that are compared at a time: what they give is small, and stays in a cache.
_AT_ONCE = 1 << 18

_HINT = (
    "this is Python's, and no part of the program: let a tensor hold the items, which has its value before it "
    "(h = tapec.constant(h)), and make another of it, as tapec.tensor_scatter_nd_update and tapec.where do"
)


class Image(NamedTuple):
    """What is in a buffer at one time.

    Attributes:
        copy: a buffer with the same items.
        stays: whether it is as before; bytes may have come to the end of what grows.
    """

    copy: Any
    stays: bool = True


class Buffer(ABC):
    """What one thing holds in front of a branch or loop.

    Args:
        name: what messages call it.
        holder: the thing.
        copies: holders with a copy of each, by ``id``, which serves as long as it is alike: many branches of a trace
            have a large array in reach, and few write to it. Nothing writes to a copy.
    """

    def __init__(self, name: str, holder: Any, copies: dict[int, tuple[Any, Any]]) -> None:
        self.name = name
        self._holder = self._reached(holder)
        _, copy = copies.get(id(holder), (None, None))
        if copy is None or not alike(self._now(), copy):
            copy = self._copy()
            copies[id(holder)] = holder, copy
        self._before = Image(copy)

    def _reached(self, holder: Any) -> Any:
        """What is looked at and written to."""
        return holder

    def _now(self) -> Any:
        """What it holds, for a comparison with a copy."""
        return self._holder

    @abstractmethod
    def _copy(self) -> Any:
        """What it holds, for later."""

    @abstractmethod
    def _grew(self, now: Any, before: Any) -> bool:
        """Whether it holds what it did, and more behind."""

    @abstractmethod
    def _put(self, image: Image) -> None:
        """Make it hold what it did at some time."""

    @property
    def unchanged(self) -> Image:
        """What it holds at the end of a branch that cannot reach it."""
        return self._before

    def look(self, is_read: Callable[[Any], bool]) -> Image:
        """What it holds now; ``is_read`` tells whether the program reads a thing, of what came to the end of it."""
        now, before = self._now(), self._before.copy
        if alike(now, before) or (self._grew(now, before) and not is_read(self._holder)):
            return self._before
        return Image(self._copy(), stays=False)

    def put_back(self) -> None:
        """Make it hold what it did before."""
        self._put(self._before)

    def pairs(self, one: Image, other: Image) -> list[tuple[str, Any, Any]]:
        """Nothing: there is nothing to choose from behind two branches.

        Raises:
            TypeError: they leave other items in it.
        """
        if not alike(one.copy, other.copy):
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

    def refuse(self, found: Image) -> None:
        """For loops: what it holds stays.

        Raises:
            TypeError: a turn changes it.
        """
        if not found.stays:
            raise TypeError(
                f"{self.name} holds {_text(self._before)} before the loop, but {_text(found)} after one iteration",
                location=here(),
                hint=_HINT,
            )


class ArrayBuffer(Buffer):
    """What a NumPy array holds, or the memory that a memoryview is of."""

    def _reached(self, holder: Any) -> Any:
        return holder if _is_masked(holder) else np.asarray(holder)

    def _copy(self) -> Any:
        return self._holder.copy()

    def _grew(self, now: Any, before: Any) -> bool:
        return False

    def _put(self, image: Image) -> None:
        if self._holder.shape != image.copy.shape:
            self._holder.resize(image.copy.shape, refcheck=False)
        self._holder[...] = image.copy


class ItemBuffer(Buffer):
    """What a bytearray or an `array.array` holds."""

    def _copy(self) -> Any:
        return self._holder[:]

    def _grew(self, now: Any, before: Any) -> bool:
        return alike(now[: len(before)], before)

    def _put(self, image: Image) -> None:
        self._holder[:] = image.copy


class Stream(Buffer):
    """What a `StringIO` or a `BytesIO` holds, which C code keeps, and where it is read on."""

    def _copy(self) -> Any:
        return self._holder.getvalue(), self._holder.tell()

    _now = _copy

    def _grew(self, now: Any, before: Any) -> bool:
        return alike(now[0][: len(before[0])], before[0])

    def _put(self, image: Image) -> None:
        held, at = image.copy
        self._holder.seek(0)
        self._holder.truncate()
        self._holder.write(held)
        self._holder.seek(at)


class Queue(Buffer):
    """What a `SimpleQueue` holds, which C code keeps."""

    def _copy(self) -> Any:
        held = [self._holder.get_nowait() for _ in range(self._holder.qsize())]
        for item in held:
            self._holder.put(item)
        return held

    _now = _copy

    def _grew(self, now: Any, before: Any) -> bool:
        return alike(now[: len(before)], before)

    def _put(self, image: Image) -> None:
        for _ in range(self._holder.qsize()):
            self._holder.get_nowait()
        for item in image.copy:
            self._holder.put(item)


def alike(one: Any, other: Any) -> bool:
    """Whether two buffers of a kind hold the same: NaN, zeros with a sign, objects that are one."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_, one, other))
    if isinstance(one, tuple | str | bytes):
        return bool(one == other)
    if isinstance(one, np.ndarray):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        if _is_masked(one):
            masks = np.ma.getmaskarray(one), np.ma.getmaskarray(other)
            return alike(one.data, other.data) and alike(*masks)
        if one.dtype.names:  # what lies between fields is nobody's, and no copy has it
            return all(alike(one[name], other[name]) for name in one.dtype.names)
    first, second = _bits(one), _bits(other)
    return len(first) == len(second) and all(
        np.array_equal(first[at : at + _AT_ONCE], second[at : at + _AT_ONCE])
        for at in range(0, len(first), _AT_ONCE)
    )


def _is_masked(array: Any) -> bool:
    """Whether it has a mask beside its items, which Python can change as well."""
    ma = sys.modules.get("numpy.ma")  # NumPy loads it when somebody uses it
    return ma is not None and isinstance(array, ma.MaskedArray)


def _bits(buffer: Any) -> NDArray[np.uint8]:
    """What a buffer holds as bytes, of objects the addresses; not a copy of an array that lies in one piece."""
    if isinstance(buffer, np.ndarray):
        kind = buffer.dtype
        if buffer.flags.c_contiguous and kind.itemsize and not kind.hasobject:
            return buffer.reshape(-1).view(np.uint8)
        return np.frombuffer(buffer.tobytes(), np.uint8)
    return np.frombuffer(bytes(buffer), np.uint8)


def _text(image: Image) -> str:
    copy: NDArray[Any] | Any = image.copy
    if isinstance(copy, np.ndarray) and not _is_masked(copy):
        shown = np.array2string(copy, threshold=8, edgeitems=2, separator=", ")
        return " ".join(shown.split())
    shown = repr(copy)
    return shown if len(shown) <= 60 else f"{len(copy)} items, {shown[:50]}…"
