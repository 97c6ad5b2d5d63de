"""Where the values of a planned function live, and how long.

The pass plan writes on each kernel an attribute ``place``, one text for each result: ``arena+64``
(bytes from the start of the arena), ``result 0`` (the buffer of that result), ``arg 1`` (the buffer
of that argument, which the result updates in place). Between kernels stand only operations that
give a value another shape; what they make lives where their operand does. Where sizes are known only at run
time, so are offsets: ``arena+256*((N+63)//64)``. A branch or loop has such an
attribute too. In its regions ``arg`` and ``result`` are those of the region; the arena is the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from tapec.ir.core import Body, Function, Operation, Value
from tapec.ir.dims import DimLike, Symbol, bounds
from tapec.ir.extents import reserved
from tapec.ir.location import Location
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.ir.text.type_text import TypeTextError, parse_dim
from tapec.ir.types import TensorType

_PLACE = re.compile(r"(?P<kind>result |arg )(?P<number>\d+)|arena\+(?P<offset>.+)")

#: Symbols by name, with their bounds, which texts of offsets do not tell.
Known = dict[str, Symbol]


class Place(NamedTuple):
    """A part of memory: ``kind`` is ``arena``, ``result`` or ``arg``.

    ``number`` is the offset in bytes, or which result or argument.
    """

    kind: str
    number: DimLike

    def __str__(self) -> str:
        """The text in a kernel's attribute."""
        return f"arena+{self.number}" if self.kind == "arena" else f"{self.kind} {self.number}"


def parse_place(text: str, known: Known | None = None) -> Place | None:
    """The place that a text names, or None; ``known`` as in `lifetimes`."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return None
    if match["offset"] is None:
        return Place(match["kind"].rstrip(), int(match["number"]))
    try:
        return Place("arena", parse_dim(match["offset"], known))
    except TypeTextError:
        return None


@dataclass(eq=False)
class Lifetime:
    """A value in memory: made by operation number ``first``, last read by number ``last``."""

    value: Value
    place: Place
    op: Operation | None
    first: int
    last: int

    @property
    def bytes(self) -> DimLike:
        """How much it occupies."""
        return self.value.tensor.bytes

    def shares_bytes(self, other: Lifetime) -> bool:
        """Whether the two may occupy a byte in common."""
        if 0 in (self.bytes, other.bytes):
            return False
        if self.place == other.place:
            return True
        if not self.place.kind == other.place.kind == "arena":
            return False
        return not (self._ends_before(other) or other._ends_before(self))

    def _ends_before(self, other: Lifetime) -> bool:
        """Whether its bytes are known to be in front of another's."""
        taken = self.bytes if isinstance(self.bytes, int) else reserved(self.bytes)
        distance = bounds(other.place.number - self.place.number - taken)[0]
        return distance is not None and distance >= 0


def lifetimes(function: Function | Body, known: Known | None = None) -> list[Lifetime]:
    """The values of a planned function or region that live in memory, in program order, arguments first.

    ``known`` are symbols by name; without it they have no bounds.
    """
    found: list[Lifetime] = []
    homes: dict[Value, Lifetime] = {}
    for arg in function.args:
        homes[arg] = Lifetime(arg, Place("arg", arg.index), None, -1, -1)
        found.append(homes[arg])
    for i, op in enumerate(function.block.ops):
        for operand in op.operands:
            if operand in homes:
                homes[operand].last = i
        if "place" in op.attrs:
            for result, text in zip(op.results, op.attrs["place"], strict=False):
                place = parse_place(text, known)
                if place is not None:
                    homes[result] = Lifetime(result, place, op, i, i)
                    found.append(homes[result])
        elif op.operands and op.operands[0] in homes:
            for result in op.results:
                homes[result] = homes[op.operands[0]]
    return found


def line_of(value: Value) -> Location | None:
    """The user's line that makes what is in memory: inside of the kernel, branch or loop whose result it is."""
    op = value.op
    if op is None:
        return None
    for k, region in enumerate(op.regions):
        yields = region.block.terminator.operands
        makes = isinstance(op.defn, KernelOp) or (
            isinstance(op.defn, RegionOp) and op.defn.yields_results(k)
        )
        # A loop that ends when it likes tells the number of its turns, too, which no region yields.
        found = line_of(yields[value.index]) if makes and value.index < len(yields) else None
        if found is not None:
            return found
    return op.location


def symbols_of(function: Function) -> Known:
    """The symbols in the types of a function's arguments, by name, with their bounds."""
    tensors = [arg.type for arg in function.args if isinstance(arg.type, TensorType)]
    return {s.name: s for tensor in tensors for s in tensor.symbols()}
