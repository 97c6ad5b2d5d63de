"""Memory as the simulator has it: who read and wrote each element, and what is not there yet."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tapec.ir.errors import TapecError
from tapec.runtime.python_text.primitives import DTYPES

_MANY = -1
#: Bytes of the largest elements.
_LARGEST = 16
#: A block, a thread, and how many barriers the block had come by.
Who = tuple[int, int, int]


class SimulationError(TapecError):
    """A kernel did what has no defined meaning on a device."""


class Cells:
    """Memory of the device, with who read and wrote each element since the launch began.

    Attributes:
        grain: bytes of the smallest elements that pointers to it have: who read and wrote is known by the first byte of
            each so many. So what is known of a larger element is known of all its parts.
    """

    def __init__(self, data: Any, *, written: bool, constant: bool = False) -> None:
        """``data`` is an array of bytes; ``written``: it may be read already; ``constant``: it may not be written."""
        self.data = data
        self.constant = constant
        self.known = None if written else np.zeros(data.size, np.bool_)
        self.grain = _LARGEST
        self.readers: dict[int, Who] = {}
        self.writers: dict[int, Who] = {}
        #: What a copy will write.
        self.awaited: set[int] = set()

    def divide(self, size: int) -> None:
        """Keep apart who reads and writes elements of so many bytes."""
        if size >= self.grain:
            return
        parts = range(0, self.grain, size)
        for log in (self.readers, self.writers):
            log |= {at + part: who for at, who in log.items() for part in parts}
        self.awaited |= {at + part for at in self.awaited for part in parts}
        self.grain = size

    def hold_to_written(self, name: str) -> None:
        """Refuse that nothing was written to some of it.

        Raises:
            SimulationError: that is so.
        """
        if self.known is not None and not self.known.all():
            raise SimulationError(f"nothing wrote byte {int(self.known.argmin())} of {name}")

    def forget(self) -> None:
        """A new launch, which everything before it happened before."""
        self.grain = _LARGEST
        self.readers.clear()
        self.writers.clear()


class Watch(Protocol):
    """Who runs threads: which one is running, and whom to tell of what it should not do."""

    me: Who

    def race(self, what: str, cells: Cells) -> None:
        """Report a data race."""

    def fail(self, what: str) -> None:
        """Report anything else."""


class Pointer:
    """A place in memory as elements of a dtype."""

    __slots__ = ("_cells", "_count", "_items", "_offset", "_size", "_watch")

    def __init__(self, watch: Watch, cells: Cells, code: str, offset: int, extent: int) -> None:
        """``extent`` bytes from ``offset`` on may be used."""
        self._watch = watch
        self._cells = cells
        self._size = np.dtype(DTYPES[code]).itemsize
        self._count = extent // self._size
        self._offset = offset
        end = offset + self._count * self._size
        if offset % self._size:
            watch.fail(f"takes byte {offset} for the first of an element of {self._size}")
        cells.divide(self._size)
        self._items = cells.data[offset:end].view(DTYPES[code])

    def _parts(self, at: int) -> range:
        """By what it is known who reads and writes the element that begins at a byte."""
        return range(at, at + self._size, self._cells.grain)

    def __getitem__(self, index: Any) -> Any:
        i = int(index)
        if not 0 <= i < self._count:
            self._watch.fail(f"reads element {i} of {self._count}")
        at = self._offset + i * self._size
        cells, me = self._cells, self._watch.me
        known, alike = cells.known, self._size == cells.grain
        parts = (at,) if alike else self._parts(at)
        if cells.awaited and not cells.awaited.isdisjoint(parts):
            self._watch.fail(f"reads element {i}, a copy of which has not been waited for")
        if known is not None and not (known[at] and (alike or known[at : at + self._size].all())):
            self._watch.fail(f"reads element {i}, which nothing was written to")
        for part in parts:
            last = cells.writers.get(part)
            if last is not None and _is_race(last, me):
                self._watch.race(f"reads element {i}, which {_name(last)} writes", cells)
            seen = cells.readers.get(part)
            if seen is None or (seen[0] == me[0] and seen[2] < me[2]):
                cells.readers[part] = me
            elif seen[1] != me[1] or seen[0] != me[0]:
                block = me[0] if seen[0] == me[0] else _MANY
                cells.readers[part] = (block, _MANY, me[2])
        return self._items[i]

    def __setitem__(self, index: Any, value: Any) -> None:
        i = int(index)
        at = self._written(i)
        if type(value) is not self._items.dtype.type:
            kind = type(value).__name__
            self._watch.fail(f"stores a {kind} where {self._items.dtype} is")
        if self._cells.known is not None:
            self._cells.known[at : at + self._size] = True
        self._items[i] = value

    def _written(self, i: int) -> int:
        """The place of an element that this thread writes."""
        if not 0 <= i < self._count:
            self._watch.fail(f"writes element {i} of {self._count}")
        at: int = self._offset + i * self._size
        cells, me = self._cells, self._watch.me
        if cells.constant:
            self._watch.fail(f"writes element {i} of what is only read")
        parts = (at,) if self._size == cells.grain else self._parts(at)
        if cells.awaited and not cells.awaited.isdisjoint(parts):
            self._watch.fail(f"writes element {i}, a copy of which has not been waited for")
        for part in parts:
            last = cells.writers.get(part)
            if last is not None and _is_race(last, me):
                self._watch.race(f"writes element {i}, which {_name(last)} writes", cells)
            last = cells.readers.get(part)
            if last is not None and _is_race(last, me):
                self._watch.race(f"writes element {i}, which {_name(last)} reads", cells)
            cells.writers[part] = me
        return at

    def promise(self, i: int) -> int:
        """The place of an element that a copy will write from now on."""
        at = self._written(i)
        self._cells.awaited.update(self._parts(at))
        return at

    def arrive(self, i: int, at: int, value: Any) -> None:
        """The copy has come."""
        self._cells.awaited.difference_update(self._parts(at))
        self[i] = value

    def neighbours(self, what: str, first: int, count: int = 4) -> range:
        """The indices of neighbours; an instruction takes them where they begin at a multiple of 16 bytes."""
        # Or of all their bytes, where these are fewer.
        if (self._offset + first * self._size) % min(count * self._size, 16):
            self._watch.fail(f"{what} {count} elements from {first} on, which are not aligned")
        return range(first, first + count)

    def part(self, code: str, offset: Any) -> Pointer:
        """A pointer some bytes further on."""
        extent = self._count * self._size - int(offset)
        return Pointer(self._watch, self._cells, code, self._offset + int(offset), extent)


class Local:
    """Memory of one thread."""

    __slots__ = ("_items", "_watch")

    def __init__(self, watch: Watch, count: int) -> None:
        """So many elements, none of them written to."""
        self._watch = watch
        self._items: list[Any] = [None] * count

    def __getitem__(self, index: Any) -> Any:
        i = int(index)
        if not 0 <= i < len(self._items):
            self._watch.fail(f"reads element {i} of {len(self._items)} of its own")
        value = self._items[i]
        if value is None:
            self._watch.fail(f"reads element {i} of its own before it is written")
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        i = int(index)
        if not 0 <= i < len(self._items):
            self._watch.fail(f"writes element {i} of {len(self._items)} of its own")
        self._items[i] = value


class Copy:
    """An element that is being copied: it is read at any time until its thread waits for it."""

    __slots__ = ("_at", "_from", "_i", "_j", "_to")

    def __init__(self, to: Pointer, i: int, source: Pointer, j: int) -> None:
        """From ``source[j]`` to ``to[i]``."""
        self._to, self._i, self._from, self._j = to, i, source, j
        source[j]  # what is read must be there already
        self._at = to.promise(i)

    def arrive(self) -> None:
        """It is there."""
        self._to.arrive(self._i, self._at, self._from[self._j])


def _is_race(last: Who, me: Who) -> bool:
    """Whether an access happened neither before nor behind the one that is made now."""
    block, thread, epoch = me
    return last[0] != block or (last[1] != thread and last[2] == epoch)


def _name(who: Who) -> str:
    block, thread, _ = who
    return f"{'another block' if block == _MANY else f'block {block}'}, thread " + (
        "any of several" if thread == _MANY else str(thread)
    )


def cells_of(array: Any, *, written: bool = True, constant: bool = False) -> Cells:
    """An array as memory; it is written to, unless that is ``constant``."""
    return Cells(array.reshape(-1).view(np.uint8), written=written, constant=constant)
