"""Parts of the entry's memory that a loop's launches use: each begins at one place, whatever turn it is."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tapec.ir.core import Operation, Value
from tapec.ir.ops import loop, source


class Part(NamedTuple):
    """Bytes of an argument of the entry's."""

    root: Value
    offset: int
    size: int

    def meets(self, other: Part) -> bool:
        """Whether two parts have bytes in common."""
        ends = self.offset + self.size, other.offset + other.size
        return self.root is other.root and self.offset < ends[1] and other.offset < ends[0]


class Slice(NamedTuple):
    """A buffer as a part from one place on, and what it moves by with the turns of loops, in bytes."""

    part: Part
    #: Fixed distances, and those from one turn to the next: where the buffer begins is a sum of multiples of these.
    moves: tuple[int, ...]
    size: int


def base_of(buffer: Value) -> Value:
    """What a buffer is a part of, and is the same in all turns."""
    chain = _chain(buffer)
    base = chain.pop()
    while chain and chain[-1].op is not None and len(chain[-1].op.operands) == 1:
        base = chain.pop()
    return base


def is_placed(base: Value) -> bool:
    """Whether it is known where in an argument of the entry's a base begins: not behind what has an open size."""
    made = (v.op for v in _chain(base))
    return all(isinstance(op.attrs.get("offset", 0), int) for op in made if op is not None)


def part_of(base: Value) -> Part:
    """Which bytes a base is; it `is_placed`."""
    offset = 0
    at = base
    while at.op is not None and at.op.operands:
        offset += int(at.op.attrs.get("offset", 0))
        at = at.op.operands[0]
    return Part(at, offset, bytes_of(base))


def slice_of(buffer: Value) -> Slice:
    """Which bytes of its base a buffer is."""
    base = base_of(buffer)
    moves: list[int] = []
    at = buffer
    while at is not base:
        assert at.op is not None
        moves.append(int(at.op.attrs.get("offset", 0)))
        if len(at.op.operands) > 1:
            moves.append(int(at.op.attrs["stride"]))
        at = at.op.operands[0]
    return Slice(part_of(base), tuple(moves), bytes_of(buffer))


def places_of(buffer: Value) -> list[Value]:
    """What says where in memory a buffer is: the indices of the views that it is made by."""
    made = (v.op for v in _chain(buffer))
    return [index for op in made if op is not None for index in op.operands[1:]]


def bytes_of(buffer: Value) -> int:
    """How many bytes a buffer of a known size has."""
    kind = buffer.buffer
    return prod(kind.tensor.static_shape) * kind.dtype.bytes


def turns_of(op: Operation) -> int | None:
    """How often a loop turns, if that is known."""
    low, high = (source.whole_number(v) for v in op.operands[:2])
    if low is None or high is None:
        return None
    return -(-max(0, high - low) // int(op.attrs.get("step", 1)))


def _chain(buffer: Value) -> list[Value]:
    """A buffer, what it is a view of, and so on to an argument of the entry's."""
    chain = [buffer]
    while chain[-1].op is not None and isinstance(chain[-1].op.defn, loop.View):
        chain.append(chain[-1].op.operands[0])
    return chain
