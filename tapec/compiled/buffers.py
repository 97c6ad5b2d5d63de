"""What memory a program takes: the arena of a call, what is in it and when, and the arrays around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tapec.frames import function_of
from tapec.inspection.memory_map import drawing, picture
from tapec.ir.core import Body, Function, Module, Operation, Value
from tapec.ir.dims import DimLike, typical
from tapec.ir.location import Location
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.ir.placement import Lifetime, lifetimes, line_of
from tapec.ir.printer import name_values
from tapec.tables import Table, counted

_ALL, _ALIVE = "what is in the arena", "alive when most bytes are in use"
#: An operator's method, with the operand that it belongs to at the left or right.
_OPERATOR = re.compile(r"__(?:r(?!ound))?(\w+?)__")


@dataclass(frozen=True)
class Buffer:
    """A value in the arena.

    Attributes:
        name: the one that it has in the program's text.
        type: dtype and shape.
        bytes: how much it takes.
        offset: where in the arena it begins.
        first: number of the operation that makes it.
        last: number of the last one that reads it.
        made_by: what makes it.
        location: the user's line of that.
        kind: of what makes it: ``product``, ``sum``, ``elementwise``, ``copy``, ``loop or branch``; ``computed again``
            for what `tapec.recompute_grad` or a budget of memory lets be made a second time.
        span: from when to when it is needed, in operations of the program; what regions make lies between two.
    """

    name: str
    type: str
    bytes: DimLike
    offset: DimLike
    first: int
    last: int
    made_by: str
    location: Location | None
    kind: str = "elementwise"
    span: tuple[float, float] = (0.0, 1.0)

    @property
    def line(self) -> str:
        """The user's line that made it, as ``file:line``; empty if none did."""
        return "" if self.location is None else f"{self.location.file}:{self.location.line}"

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        source = "" if self.location is None else self.location.text
        size = counted(self.bytes)
        life = f"{self.first}-{self.last}"
        return (
            size,
            str(self.offset),
            f"%{self.name}",
            self.type,
            life,
            self.made_by,
            self.line,
            source,
        )


@dataclass(frozen=True, repr=False)
class ProgramMemory:
    """The bytes of one call.

    Attributes:
        arena: scratch memory, kept between calls.
        lower_bound: the most bytes that are alive at one time: no plan takes less.
        arguments: of arrays that the call gets and leaves alone.
        states: of arrays that it updates in place.
        results: of arrays that it makes anew.
        buffers: what is in the arena, the largest first.
        operations: how many the program has.
    """

    arena: DimLike
    lower_bound: DimLike
    arguments: DimLike
    states: DimLike
    results: DimLike
    buffers: tuple[Buffer, ...]
    operations: int = 0

    @property
    def peak(self) -> Any:
        """All bytes that a call touches."""
        return self.arena + self.arguments + self.states + self.results

    @property
    def peak_at(self) -> float:
        """When most bytes of the arena are in use, in operations of the program."""
        starts = {b.span[0] for b in self.buffers}
        return max(sorted(starts), key=lambda at: sum(_size(b) for b in self.at(at)), default=0.0)

    @property
    def alive(self) -> tuple[Buffer, ...]:
        """What is in use then, the largest first: shrink these lines to lower the peak."""
        return self.at(self.peak_at)

    def at(self, moment: float) -> tuple[Buffer, ...]:
        """What is in use at a moment; one value that was written over another counts, not both."""
        found = {
            (b.offset, b.bytes): b
            for b in sorted(self.buffers, key=lambda b: b.span)
            if b.span[0] <= moment < b.span[1]
        }
        return tuple(sorted(found.values(), key=lambda b: -_size(b)))

    def svg(self) -> str:
        """A picture: operations from left to right, bytes of the arena upwards, a rectangle for each value."""
        return drawing(self)

    def picture(self) -> str:
        """The same with letters."""
        return picture(self)

    def _caption(self) -> str:
        return (
            f"arena {counted(self.arena)} bytes, of which {counted(self.lower_bound)} are alive at one time; "
            f"arguments {counted(self.arguments)}, states {counted(self.states)}, results {counted(self.results)} bytes"
        )

    def _table(self, buffers: Sequence[Buffer], title: str) -> Table:
        columns = ("bytes", "offset", "value", "type", "needed", "made by", "line", "source")
        return Table(columns, [b.cells for b in buffers], title, self._caption())

    def __str__(self) -> str:
        """A table."""
        return self._table(self.buffers, _ALL).text()

    def __repr__(self) -> str:
        return f"<ProgramMemory: {self._caption()}>"

    def __rich__(self) -> Any:
        """A table of the rich library."""
        return self._table(self.buffers, _ALL).rich()

    def _repr_html_(self) -> str:
        """The picture, and below it what is alive at the peak."""
        return self.svg() + self._table(self.alive, _ALIVE).html()

    def peak_table(self) -> Table:
        """What is alive at the peak."""
        return self._table(self.alive, _ALIVE)


def memory_of(module: Module) -> ProgramMemory:
    """What a planned program takes."""
    function = module.entry
    updated = set(function.updates.values())
    sizes = [a.tensor.bytes for a in function.args]
    made = [v.tensor.bytes for i, v in enumerate(function.returns) if i not in function.updates]
    names = name_values(function.args, function.block.ops)
    buffers = sorted(_buffers(function, names), key=lambda b: -_size(b))
    return ProgramMemory(
        function.attrs.get("arena", 0),
        function.attrs.get("lower_bound", 0),
        _sum(n for i, n in enumerate(sizes) if i not in updated),
        _sum(n for i, n in enumerate(sizes) if i in updated),
        _sum(made),
        tuple(buffers),
        len(function.block.ops) - 1,
    )


def _buffers(
    body: Function | Body, names: dict[Value, str], start: float = 0.0, unit: float = 1.0
) -> Iterator[Buffer]:
    """What a function or region has in the arena, and the regions in it; ``unit`` is the time of one operation.

    Of an operation's regions, which are never in memory together, one follows the other.
    """
    for life in lifetimes(body):
        if life.place.kind == "arena" and life.op is not None:
            span = start + unit * life.first, start + unit * (life.last + 1)
            yield _buffer(life, names, span)
    for i, op in enumerate(body.block.ops):
        if isinstance(op.defn, RegionOp):
            bodies = op.defn.bodies(op)
            for k, inner in enumerate(bodies):
                share = unit / len(bodies)
                part = share / len(inner.block.ops)
                yield from _buffers(inner, names, start + unit * i + share * k, part)


def _operator_of(location: Location | None) -> str | None:
    """The operator that the user wrote, which may be several operations: ``mul`` for ``__rmul__``."""
    written = None if location is None else _OPERATOR.fullmatch(location.composite or "")
    return written and written[1]


def _buffer(life: Lifetime, names: dict[Value, str], span: tuple[float, float]) -> Buffer:
    op = life.op
    assert op is not None
    location, made_by, source = line_of(life.value), op.name, None
    if isinstance(op.defn, KernelOp):
        source = op.regions[0].block.terminator.operands[life.value.index].op
        made_by = "copy"
    if source is not None:
        made_by = function_of(location) or _operator_of(location) or source.name
    tensor = life.value.tensor
    return Buffer(
        names[life.value],
        str(tensor),
        tensor.bytes,
        life.place.number,
        life.first,
        life.last,
        made_by,
        location,
        _kind(op, source),
        span,
    )


def _kind(op: Operation, source: Operation | None) -> str:
    """What makes a value: the operation that the kernel computes it by, or the contraction whose epilogue that is."""
    if isinstance(op.defn, RegionOp):
        return "loop or branch"
    if source is None:
        return "copy"
    inside = op.regions[0].block.ops[:-1]
    if any("recompute" in inner.attrs for inner in inside):
        return "computed again"
    if any(inner.defn.form == "contraction" for inner in inside):
        return "product"
    return "sum" if source.defn.loops or source.defn.form != "index" else "elementwise"


def _size(buffer: Buffer) -> int:
    """Bytes to reckon with."""
    return typical(buffer.bytes)


def _sum(sizes: Any) -> Any:
    return sum(sizes, 0)
