"""A loop that launches kernels, written again as a loop that does what they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Module, Operation, Region, Value, clone_operation
from tapec.ir.op import OPS
from tapec.ir.ops import loop
from tapec.ir.types import INDEX, TensorType
from tapec.passes.loops.parts import Part, base_of, part_of, turns_of

_INDEX = TensorType(INDEX)


@dataclass
class Writer:
    """Writes a loop with the bodies of kernels in the places of their launches.

    Attributes:
        module: has the kernels.
        given: the arguments of the new kernel that stand for parts of the entry's memory.
        rows: how many rows there are, if what is written is for one of them.
    """

    module: Module
    given: Mapping[Part, Value]
    rows: int = 0
    mapping: dict[Value, Value] = field(default_factory=dict)
    _row: Value = field(init=False)

    def row_by_row(self, op: Operation, out: Block) -> None:
        """A loop over rows, which are independent, each with all turns of a loop over time."""
        b = Builder(out)
        bounds = [b.emit("constant", value=n, type=_INDEX) for n in (0, self.rows)]
        block = Block([_INDEX])
        self._row = block.args[0]
        self.loop(op, block)
        Builder(block).emit("yield")
        attrs = {"parallel": True}
        out.append(Operation(OPS["for"], bounds, [], attrs, [Region([block])], op.location))

    def loop(self, op: Operation, out: Block) -> None:
        """A loop, at the end of a block."""
        bounds = [self._here(v, out) for v in op.operands]
        regions = [Region([self._turn(region.block)]) for region in op.regions]
        types = [r.type for r in op.results]
        made = Operation(op.defn, bounds, types, dict(op.attrs), regions, op.location)
        self.mapping.update(zip(op.results, made.results, strict=True))
        out.append(made)

    def _turn(self, turn: Block) -> Block:
        """What a loop does at each turn, or asks before it."""
        block = Block([a.type for a in turn.args])
        self.mapping.update(zip(turn.args, block.args, strict=True))
        for inner in turn.ops[:-1]:
            if isinstance(inner.defn, loop.For | loop.While):
                self.loop(inner, block)
            elif isinstance(inner.defn, loop.Launch):
                self._inline(inner, block)
            elif isinstance(inner.defn, loop.Load):
                (cell,) = inner.operands
                mapping = {**self.mapping, cell: self._buffer(cell, block)}
                self.mapping[inner.result] = block.append(clone_operation(inner, mapping)).result
            elif not isinstance(inner.defn, loop.View):
                self._number(inner, block)
        Builder(block).emit("yield", *(self.mapping[v] for v in turn.terminator.operands))
        return block

    def _number(self, op: Operation, out: Block) -> None:
        """What a turn computes."""
        made = {v: self._here(v, out) for v in op.operands}
        copy = out.append(clone_operation(op, {**self.mapping, **made}))
        self.mapping.update(zip(op.results, copy.results, strict=True))

    def _here(self, value: Value, out: Block) -> Value:
        """A number inside; a constant from outside of the loop is made where it is read, for this block alone."""
        if value in self.mapping or value.op is None:
            return self.mapping[value]
        return out.append(clone_operation(value.op, {})).result

    def _inline(self, launch: Operation, out: Block) -> None:
        kernel = self.module.functions[launch.attrs["kernel"]]
        inside = dict(self.mapping)
        for buffer, arg in zip(launch.operands, kernel.args, strict=True):
            inside[arg] = self._buffer(buffer, out)
        for op in kernel.block.ops[:-1]:
            if self.rows and isinstance(op.defn, loop.For):
                self._of_row(op, inside, out)
                continue
            copy = clone_operation(op, inside)
            copy.location = op.location or launch.location
            out.append(copy)

    def _of_row(self, op: Operation, inside: dict[Value, Value], out: Block) -> None:
        """What a row has of a loop over all rows, or over so many neighbours of each."""
        turns = turns_of(op)
        assert turns is not None
        many = turns // self.rows
        if many == 1:
            body = op.regions[0].block
            inside[body.args[0]] = self._row
            for inner in body.ops[:-1]:
                out.append(clone_operation(inner, inside))
            return
        b = Builder(out)
        low = b.mul(self._row, b.emit("constant", value=many, type=_INDEX))
        high = b.add(low, b.emit("constant", value=many, type=_INDEX))
        copy = clone_operation(op, inside)
        copy.set_operand(0, low)
        copy.set_operand(1, high)
        out.append(copy)

    def _buffer(self, value: Value, out: Block) -> Value:
        """A buffer inside: an argument of the kernel, or a part of one that moves with the turns."""
        if value is base_of(value):
            given = self.given[part_of(value)]
            if given.type == value.type:
                return given
            whole: Value = Builder(out).emit("view", given, type=value.type, offset=0)
            return whole
        assert value.op is not None
        parent, *rest = value.op.operands
        numbers = {index: self._here(index, out) for index in rest}
        mapping = {**self.mapping, **numbers, parent: self._buffer(parent, out)}
        return out.append(clone_operation(value.op, mapping)).result
