"""Updates of elements that are found by numbers read from memory: each element's owner goes through all updates.

A loop over updates, such as the sum of gradients of an embedding's rows, must take them in order where they meet in one
place; where they go is not known before. So places are dealt out instead of updates: whoever has some of them looks at
each update, in order, and does those that are his. Results are those of the loop, bit for bit.

::

    for %u { %at = …; for %d { … %out[%at, %d] … } }
    for %c {parallel = true} { for %d { for %u { %at = …; if %c has %at { … %out[%at, %d] … } } } }
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Operation, Region, Value, clone_operation
from tapec.ir.dims import symbols
from tapec.ir.op import OPS
from tapec.ir.ops import loop
from tapec.ir.ops.source import whole_number
from tapec.ir.types import INDEX, BufferType, TensorType
from tapec.passes.device.independence import Indices, independent
from tapec.passes.device.nests import statements
from tapec.passes.kernels.accesses import Access, accesses, read_and_written, touches_otherwise
from tapec.passes.loops.parts import turns_of

_INDEX = TensorType(INDEX)
#: Elements that are updated, counting each time, from which on owners are worth it.
_MANY = 1 << 12
#: Owners at most, which keep a device busy: each looks at all updates, so more would only look again.
_OWNERS = 1 << 15


def owned(op: Operation) -> Operation | None:
    """A loop over updates as one of owners, in front of it in its block; None if it is none, or better as it is."""
    updates = _Updates.of(op)
    if updates is None:
        return None
    made = updates.write()
    if all(independent(one, Indices()) for one in _directly(made)[: 1 + len(updates.kept)]):
        return made
    made.erase()
    return None


def _directly(op: Operation) -> list[Operation]:
    """Loops directly inside one another, the given one first."""
    found = [op]
    while True:
        inner = [one for one in found[-1].regions[0].block.ops if isinstance(one.defn, loop.For)]
        if len(inner) != 1:
            return found
        found += inner


@dataclass
class _Updates:
    """Loops, one in the other, that update elements."""

    #: From the outermost, with what each computes for those inside.
    loops: list[Operation]
    computed: list[Operation]
    body: list[Operation]
    #: The index that is read from memory, and how many values it may have.
    place: Value
    places: int
    #: Loops that tell elements of a place apart, and those that go through updates.
    kept: list[Operation]
    gone_through: list[Operation]

    @classmethod
    def of(cls, op: Operation) -> _Updates | None:
        """What a loop is, if it is that."""
        if not isinstance(op.defn, loop.For) or any(touches_otherwise(one) for one in op.walk()):
            return None
        written = read_and_written(op)[1]
        loops, computed = [op], []
        while True:
            block = loops[-1].regions[0].block
            found = statements(block, written)
            if len(found) != 1 or not isinstance(found[0].defn, loop.For):
                break
            computed += [one for one in block.ops[:-1] if one is not found[0]]
            loops.append(found[0])
        body = block.ops[:-1]
        plain = all(turns_of(one) is not None and not one.results for one in loops)
        if not plain or any(one.regions for one in body) or len(written) != 1:
            return None
        if prod(turns_of(one) or 0 for one in loops) < _MANY:
            return None
        touched = [a for a in accesses(op) if a.root in written]
        return cls._by_place(loops, computed, body, touched)

    @classmethod
    def _by_place(
        cls,
        loops: list[Operation],
        computed: list[Operation],
        body: list[Operation],
        touched: list[Access],
    ) -> _Updates | None:
        """Find the index that all accesses have in common, and no loop has by itself."""
        first = touched[0]
        kind = first.buffer.type
        if not isinstance(kind, BufferType) or any(
            a.path or a.buffer is not first.buffer for a in touched
        ):
            return None
        indices = Indices()
        counters = {one.regions[0].block.args[0] for one in loops}
        for axis, place in enumerate(first.index):
            extent = kind.shape[axis]
            if not isinstance(extent, int) or any(a.index[axis] is not place for a in touched):
                continue
            own = indices.symbol_of(place)
            if own is None or place.op is None or indices.values.get(own.name) is not place:
                continue
            others = [indices.of(v) for a in touched for n, v in enumerate(a.index) if n != axis]
            read = {indices.values.get(s.name) for dim in others for s in symbols(dim)}
            if not read <= counters:
                continue
            kept = [one for one in loops if one.regions[0].block.args[0] in read]
            rest = [one for one in loops if one not in kept]
            return cls(loops, computed, body, place, extent, kept, rest) if rest else None
        return None

    def write(self) -> Operation:
        """The loops of owners, in front of the old ones."""
        elements = prod(turns_of(one) or 1 for one in self.kept)
        owners = max(1, min(self.places, _OWNERS // elements))
        share = -(-self.places // owners)
        block = self.loops[0].block
        assert block is not None
        b = Builder(block, before=self.loops[0])
        low, high = (
            b.emit("constant", value=n, type=_INDEX) for n in (0, -(-self.places // share))
        )
        attrs = {"parallel": True}
        inner = Block([_INDEX])
        self._inside(inner, share)
        made = Operation(
            OPS["for"], [low, high], [], attrs, [Region([inner])], self.loops[0].location
        )
        return block.insert_before(self.loops[0], made)

    def _inside(self, block: Block, share: int) -> None:
        """What an owner does."""
        b = Builder(block)
        width = b.emit("constant", value=share, type=_INDEX)
        begin = b.mul(block.args[0], width)
        end = b.add(begin, width)
        mapping: dict[Value, Value] = {}
        for one in (*self.kept, *self.gone_through):
            turn = Block([_INDEX])
            mapping[one.regions[0].block.args[0]] = turn.args[0]
            bounds = [b.emit("constant", value=whole_number(v), type=_INDEX) for v in one.operands]
            attrs, regions = dict(one.attrs), [Region([turn])]
            block.append(Operation(one.defn, bounds, [], attrs, regions, one.location))
            b.emit("yield")
            block, b = turn, Builder(turn)
        self._guarded(block, mapping, begin, end)

    def _guarded(self, block: Block, mapping: dict[Value, Value], begin: Value, end: Value) -> None:
        """An update, by the owner of its place."""
        ops = [*self.computed, *self.body]
        needed = {self.place}
        for op in reversed(ops):
            if not needed.isdisjoint(op.results):
                needed.update(op.operands)
        finds = [op for op in ops if not needed.isdisjoint(op.results)]
        for op in finds:
            block.append(clone_operation(op, mapping))
        b = Builder(block)
        place = mapping[self.place]
        is_own = b.emit("and", b.emit("ge", place, begin), b.emit("lt", place, end))
        does, nothing = Block([]), Block([])
        for op in ops:
            if op not in finds:
                does.append(clone_operation(op, mapping))
        for way in (does, nothing):
            Builder(way).emit("yield")
        regions = [Region([does]), Region([nothing])]
        block.append(Operation(OPS["if"], [is_own], [], {}, regions, self.loops[0].location))
        Builder(block).emit("yield")
