"""What memory a program takes: the arena of a call, what is in it and when, and the arrays around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tapec.ir.core import Body, Function, Module, Value
from tapec.ir.dims import DimLike
from tapec.ir.location import Location
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.ir.placement import Lifetime, lifetimes
from tapec.ir.printer import name_values
from tapec.tables import Table


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
    """

    name: str
    type: str
    bytes: DimLike
    offset: DimLike
    first: int
    last: int
    made_by: str
    location: Location | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        place = "" if self.location is None else f"{self.location.file}:{self.location.line}"
        source = "" if self.location is None else self.location.text
        size = f"{self.bytes:,}" if isinstance(self.bytes, int) else str(self.bytes)
        life = f"{self.first}-{self.last}"
        return size, str(self.offset), f"%{self.name}", self.type, life, self.made_by, place, source


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
    """

    arena: DimLike
    lower_bound: DimLike
    arguments: DimLike
    states: DimLike
    results: DimLike
    buffers: tuple[Buffer, ...]

    @property
    def peak(self) -> Any:
        """All bytes that a call touches."""
        return self.arena + self.arguments + self.states + self.results

    def _table(self) -> Table:
        columns = ("bytes", "offset", "value", "type", "needed", "made by", "line", "source")
        caption = (
            f"arena {_text(self.arena)} bytes, of which {_text(self.lower_bound)} are alive at one time; "
            f"arguments {_text(self.arguments)}, states {_text(self.states)}, results {_text(self.results)} bytes"
        )
        return Table(columns, [b.cells for b in self.buffers], "what is in the arena", caption)

    def __str__(self) -> str:
        """A table."""
        return self._table().text()

    def __repr__(self) -> str:
        return f"<ProgramMemory: {self._table().caption}>"

    def __rich__(self) -> Any:
        """A table of the rich library."""
        return self._table().rich()

    def _repr_html_(self) -> str:
        return self._table().html()


def memory_of(module: Module) -> ProgramMemory:
    """What a planned program takes."""
    function = module.entry
    updated = set(function.updates.values())
    sizes = [a.tensor.bytes for a in function.args]
    made = [v.tensor.bytes for i, v in enumerate(function.returns) if i not in function.updates]
    names = name_values(function.args, function.block.ops)
    buffers = sorted(_buffers(function, names), key=lambda b: -_number(b.bytes))
    return ProgramMemory(
        function.attrs.get("arena", 0),
        function.attrs.get("lower_bound", 0),
        _sum(n for i, n in enumerate(sizes) if i not in updated),
        _sum(n for i, n in enumerate(sizes) if i in updated),
        _sum(made),
        tuple(buffers),
    )


def _buffers(body: Function | Body, names: dict[Value, str]) -> Iterator[Buffer]:
    """What a function or region has in the arena, and the regions in it."""
    for life in lifetimes(body):
        if life.place.kind == "arena" and life.op is not None:
            yield _buffer(life, names)
    for op in body.block.ops:
        if isinstance(op.defn, RegionOp):
            for inner in op.defn.bodies(op):
                yield from _buffers(inner, names)


def _buffer(life: Lifetime, names: dict[Value, str]) -> Buffer:
    op = life.op
    assert op is not None
    location, made_by = op.location, op.name
    if isinstance(op.defn, KernelOp):
        made = op.regions[0].block.terminator.operands[life.value.index].op
        if made is not None:
            location = made.location or location
            composite = None if location is None else location.composite
            made_by = composite or made.name
    tensor = life.value.tensor
    return Buffer(
        names[life.value], str(tensor), tensor.bytes, life.place.number, life.first, life.last, made_by, location,
    )  # fmt: skip


def _number(size: DimLike) -> float:
    return size if isinstance(size, int) else float("inf")


def _sum(sizes: Any) -> Any:
    return sum(sizes, 0)


def _text(size: DimLike) -> str:
    return f"{size:,}" if isinstance(size, int) else str(size)
