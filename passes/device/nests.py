"""Nests of loops as one: whose turns are counted through all of their indices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Operation, Region, Value, clone_operation
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS
from tapec.ir.ops import loop
from tapec.ir.types import INDEX, TensorType, Type
from tapec.passes.device.independence import Indices, combines, independent, is_inside
from tapec.passes.kernels.accesses import read_and_written, root_of

_INDEX = TensorType(INDEX)
#: Where old values are in what is written: see `tapec.ir.core.clone_operation`.
Mapping = dict[Value, Value]


def is_movable(op: Operation, written: Collection[Value]) -> bool:
    """Whether an operation may run anywhere, and more than once, where those buffers are written."""
    if isinstance(op.defn, loop.Load):
        return root_of(op.operands[0]) not in written
    return not op.regions and (op.defn.pure or isinstance(op.defn, loop.Prefetch))


def statements(block: Block, written: Collection[Value]) -> list[Operation]:
    """What a block does, besides computing values."""
    return [op for op in block.ops[:-1] if not is_movable(op, written)]


@dataclass
class Nest:
    """Loops directly inside one another, from the outermost; the last one has the body.

    Besides the next loop, the others compute values only, which the body may compute as well.
    """

    loops: list[Operation]
    sunk: list[Operation] = field(default_factory=list)

    @property
    def body(self) -> Block:
        """What runs for each combination of indices."""
        return self.loops[-1].regions[0].block

    def extents(self, indices: Indices, width: int = 1) -> list[DimLike]:
        """How many turns each loop takes; the last one, whose extent is a multiple of that, so many at a time."""
        found: list[DimLike] = []
        for op in self.loops:
            low, high = (indices.of(v) for v in op.operands[:2])
            step = op.attrs.get("step", 1)
            found.append((high - low + (step - 1)) // step)
        if width > 1:
            found[-1] = found[-1] // width
        return found

    def turns(self, indices: Indices, width: int = 1) -> DimLike:
        """How many turns all take; of the last loop's so many are one."""
        total: DimLike = 1
        for extent in self.extents(indices, width):
            total = total * extent
        return total


def nest_of(outer: Operation, indices: Indices) -> Nest:
    """As many loops as can be counted through together: all independent, or all combining the same values."""
    written = read_and_written(outer)[1]
    nest = Nest([outer])
    while True:
        block = nest.body
        found = statements(block, written)
        if len(found) != 1 or not isinstance(found[0].defn, loop.For):
            return nest
        (inner,) = found
        before = block.ops[: block.ops.index(inner)]
        after = block.ops[len(before) + 1 : -1]
        fixed = all(not is_inside(v, outer) for v in inner.operands[:2])
        if after or not fixed or not _goes_on(nest.loops[-1], inner, indices):
            return nest
        nest.loops.append(inner)
        nest.sunk += [op for op in before if not isinstance(op.defn, loop.Prefetch)]


def _goes_on(outer: Operation, inner: Operation, indices: Indices) -> bool:
    """Whether an inner loop does what the outer one does with what that carries."""
    if not independent(inner, indices):
        return False
    block = outer.regions[0].block
    carried = tuple(inner.operands[2:]) == tuple(block.args[1:])
    yielded = tuple(block.terminator.operands) == inner.results
    if not (carried and yielded):
        return False
    return not inner.results or combines(inner) is not None


class Emitter:
    """Writes operations into a block, in place of those of an old one."""

    def __init__(self, block: Block, mapping: Mapping | None = None) -> None:
        """Write at the end of ``block``."""
        self.block = block
        self.b = Builder(block)
        self.mapping: Mapping = {} if mapping is None else mapping

    def inside(self, block: Block) -> Emitter:
        """An emitter into a block within."""
        inner = Emitter(block, self.mapping)
        inner.b.location = self.b.location
        return inner

    def copy(self, op: Operation) -> None:
        """An operation as it is, with new operands."""
        self.block.append(clone_operation(op, self.mapping))

    def copy_all(self, ops: Sequence[Operation]) -> None:
        """Operations one after the other."""
        for op in ops:
            if not isinstance(op.defn, loop.Prefetch):
                self.copy(op)

    def index(self, number: DimLike) -> Value:
        """A size or number."""
        value: Value = self.b.emit("constant", value=number, type=_INDEX)
        return value

    def new(self, old: Value) -> Value:
        """What an old value is now."""
        return self.mapping.get(old, old)

    def loop(
        self,
        turns: DimLike | Value,
        over: str,
        body: Callable[[Emitter, Value, Sequence[Value]], Sequence[Value]],
        init: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        """A loop from 0 on, dealt out ``over`` what it says; the body returns what is carried."""
        high = turns if isinstance(turns, Value) else self.index(turns)
        low = self.index(0)
        types: list[Type] = [v.type for v in init]
        block = Block([_INDEX, *types])
        inner = self.inside(block)
        carried = body(inner, block.args[0], block.args[1:])
        inner.b.emit("yield", *carried)
        attrs = {"over": over} if over else {}
        op = Operation(
            OPS["for"],
            [low, high, *init],
            types,
            attrs,
            [Region([block])],
            self.b.location,
        )
        self.block.append(op)
        return op.results

    def place(self, nest: Nest, turn: Value, indices: Indices, width: int = 1) -> None:
        """Give the loops of a nest their indices in one turn of all, and compute what they compute outside.

        The last loop gets the first index of ``width`` that are one turn.
        """
        extents = nest.extents(indices, width)
        rest = turn
        for n in reversed(range(len(nest.loops))):
            op = nest.loops[n]
            at = rest
            if n:
                extent = self._extent(op, extents[n], indices)
                at = self.b.mod(rest, extent)
                rest = self.b.floordiv(rest, extent)
            if width > 1 and op is nest.loops[-1]:
                at = self.b.mul(at, self.index(width))
            self.mapping[op.regions[0].block.args[0]] = self._index(op, at, indices)
        self.copy_all(nest.sunk)

    def turns(self, nest: Nest, indices: Indices, width: int = 1) -> Value:
        """How many turns a nest takes, as a value; of the last loop's so many are one."""
        total: Value | None = None
        known = nest.turns(indices, width)
        if isinstance(known, int):
            return self.index(known)
        for op, extent in zip(nest.loops, nest.extents(indices, width), strict=True):
            one = self._extent(op, extent, indices)
            total = one if total is None else self.b.mul(total, one)
        assert total is not None
        return total

    def _extent(self, op: Operation, known: DimLike, indices: Indices) -> Value:
        if isinstance(known, int):
            return self.index(known)
        low, high = (self.new(v) for v in op.operands[:2])
        step = op.attrs.get("step", 1)
        distance: Value = high if indices.of(op.operands[0]) == 0 else self.b.sub(high, low)
        if step == 1:
            return distance
        more = self.b.add(distance, self.index(step - 1))
        result: Value = self.b.floordiv(more, self.index(step))
        return result

    def _index(self, op: Operation, at: Value, indices: Indices) -> Value:
        step = op.attrs.get("step", 1)
        if step != 1:
            at = self.b.mul(at, self.index(step))
        low = op.operands[0]
        return at if indices.of(low) == 0 else self.b.add(self.new(low), at)


def drop_unread(function: Function) -> None:
    """Remove values that nothing reads any more."""
    for op in reversed(list(function.walk())):
        removable = op.defn.pure or isinstance(op.defn, loop.Load | loop.Alloc)
        if removable and op.results and not any(r.users for r in op.results) and not op.regions:
            op.erase()
