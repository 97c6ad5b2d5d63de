"""Memory as the simulator has it: who read and wrote each element, and what is not there yet."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tapec.ir.errors import TapecError
from tapec.runtime.python_text.primitives import DTYPES

_MANY = -1
#: A block, a thread, and how many barriers the block had come by.
Who = tuple[int, int, int]


class SimulationError(TapecError):
    """A kernel did what has no defined meaning on a device."""


class Cells:
    """Memory of the device, with who read and wrote each element since the launch began."""

    def __init__(self, data: Any, *, written: bool, constant: bool = False) -> None:
        """``data`` is an array of bytes; ``written``: it may be read already; ``constant``: it may not be written."""
        self.data = data
        self.constant = constant
        self.known = None if written else np.zeros(data.size, np.bool_)
        self.readers: dict[int, Who] = {}
        self.writers: dict[int, Who] = {}
        #: Bytes that a copy will write.
        self.awaited: set[int] = set()

    def hold_to_written(self, name: str) -> None:
        """Refuse that nothing was written to some of it.

        Raises:
            SimulationError: that is so.
        """
        if self.known is not None and not self.known.all():
            raise SimulationError(f"nothing wrote byte {int(self.known.argmin())} of {name}")

    def forget(self) -> None:
        """A new launch, which everything before it happened before."""
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
        self._items = cells.data[offset:end].view(DTYPES[code])

    def __getitem__(self, index: Any) -> Any:
        i = int(index)
        if not 0 <= i < self._count:
            self._watch.fail(f"reads element {i} of {self._count}")
        at = self._offset + i * self._size
        cells, me = self._cells, self._watch.me
        if at in cells.awaited:
            self._watch.fail(f"reads element {i}, a copy of which has not been waited for")
        if cells.known is not None and not cells.known[at]:
            self._watch.fail(f"reads element {i}, which nothing was written to")
        last = cells.writers.get(at)
        if last is not None and last[:2] != me[:2] and (last[0] != me[0] or last[2] == me[2]):
            self._watch.race(f"reads element {i}, which {_name(last)} writes", self._cells)
        seen = cells.readers.get(at)
        if seen is None or (seen[0] == me[0] and seen[2] < me[2]):
            cells.readers[at] = me
        elif seen[:2] != me[:2]:
            block = me[0] if seen[0] == me[0] else _MANY
            cells.readers[at] = (block, _MANY, me[2])
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
        if at in cells.awaited:
            self._watch.fail(f"writes element {i}, a copy of which has not been waited for")
        for kind, last in (("writes", cells.writers.get(at)), ("reads", cells.readers.get(at))):
            if last is not None and last[:2] != me[:2] and (last[0] != me[0] or last[2] == me[2]):
                self._watch.race(f"writes element {i}, which {_name(last)} {kind}", cells)
        cells.writers[at] = me
        return at

    def promise(self, i: int) -> int:
        """The place of an element that a copy will write from now on."""
        at = self._written(i)
        self._cells.awaited.add(at)
        return at

    def arrive(self, i: int, at: int, value: Any) -> None:
        """The copy has come."""
        self._cells.awaited.discard(at)
        self[i] = value

    def four(self, what: str, first: int) -> range:
        """The indices of four neighbours; an instruction takes them where they begin at a multiple of 16 bytes."""
        # Or of all their bytes, where these are fewer.
        if (self._offset + first * self._size) % min(4 * self._size, 16):
            self._watch.fail(f"{what} four elements from {first} on, which are not aligned")
        return range(first, first + 4)

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


def _name(who: Who) -> str:
    block, thread, _ = who
    return f"{'another block' if block == _MANY else f'block {block}'}, thread " + (
        "any of several" if thread == _MANY else str(thread)
    )


def cells_of(array: Any, *, written: bool = True, constant: bool = False) -> Cells:
    """An array as memory; it is written to, unless that is ``constant``."""
    return Cells(array.reshape(-1).view(np.uint8), written=written, constant=constant)
