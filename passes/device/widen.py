"""Read and write neighbouring elements by one instruction.

Devices move 16 bytes at a time as fast as 4. Four loads of one buffer at addresses that follow each other, the first
a multiple of four, become one where the first one stands; four stores become one where the last one stands. Nothing
between them may wait for other threads, or touch these elements in another way.

What moves 16 bytes of neighbours as they are into memory of the block, before a `tapec.ir.ops.device.CommitCopies`,
becomes a copy in the background; where none does, there is nothing to wait for.

Buffers begin at multiples of 16 bytes: what a block shares does, arguments of a call do, and so does a part of the
arena if its place and its turns are such multiples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS
from tapec.ir.ops import device, loop
from tapec.ir.types import BufferType
from tapec.passes.device.independence import Indices
from tapec.passes.device.nests import drop_unread
from tapec.passes.kernels.accesses import accesses, root_of

_COUNT = device.NEIGHBOURS
#: Bytes that an instruction moves, and at multiples of which it does.
_BYTES = 16


def run(module: Module, options: object = None) -> bool:
    """Widen what is accessed in every kernel."""
    aligned = _aligned(module)
    changed = False
    for function in module.functions.values():
        if function.kind == "kernel":
            widened = _Widened(function, aligned.get(function.name, set())).run()
            if widened:
                drop_unread(function)
            changed |= widened
    return changed


def _aligned(module: Module) -> dict[str, set[int]]:
    """Which arguments of each kernel begin at multiples of 16 bytes, wherever it is launched."""
    found: dict[str, set[int]] = {}
    for op in module.entry.walk():
        if isinstance(op.defn, loop.Launch):
            some = {i for i, v in enumerate(op.operands) if _begins_well(v)}
            name = op.attrs["kernel"]
            found[name] = found[name] & some if name in found else some
    return found


def _begins_well(buffer: Value) -> bool:
    while buffer.op is not None and isinstance(buffer.op.defn, loop.View):
        places = (buffer.op.attrs.get("offset", 0), buffer.op.attrs.get("stride", 0))
        if not all(isinstance(n, int) and n % _BYTES == 0 for n in places):
            return False
        buffer = buffer.op.operands[0]
    return True


class _Steps(Indices):
    """Index values in which those of loops are multiples of their steps."""

    def argument(self, value: Value) -> DimLike:
        """The index of a loop from 0 on is its turn times its step."""
        block = value.owner
        assert isinstance(block, Block)
        outer = block.region.owner if block.region is not None else None
        found = super().argument(value)
        if isinstance(outer, Operation) and isinstance(outer.defn, loop.For) and not value.index:
            return found * outer.attrs.get("step", 1) if self.of(outer.operands[0]) == 0 else found
        return found


class _Widened:
    """One kernel."""

    def __init__(self, function: Function, aligned: set[int]) -> None:
        self.function = function
        self.buffers = {arg for i, arg in enumerate(function.args) if i in aligned}
        self.indices = _Steps()

    def run(self) -> bool:
        """Every block; whether anything became wider."""
        changed = False
        for block in self.function.block.nested():
            changed |= self._block(block)
        return self._copies() or changed

    def _block(self, block: Block) -> bool:
        changed = False
        for defn, widen in ((loop.Load, self._loads), (loop.Store, self._stores)):
            for op in list(block.ops):
                if op.block is block and isinstance(op.defn, defn) and self._may_begin(op):
                    changed |= widen(block, op)
        return changed

    def _may_begin(self, op: Operation) -> bool:
        """Whether an access is to a place from which an instruction can move four elements."""
        buffer = _buffer(op)
        kind = buffer.type
        plain = not op.attrs.get("lanes") and not op.attrs.get("masked")
        if not plain or not isinstance(kind, BufferType) or kind.dtype.bytes not in (2, 4):
            return False
        return self._is_aligned(buffer) and _is_multiple(self._address(op))

    def _is_aligned(self, buffer: Value) -> bool:
        op = buffer.op
        shared = op is not None and isinstance(op.defn, loop.Alloc) and op.attrs.get("shared")
        return buffer in self.buffers or bool(shared)

    def _address(self, op: Operation) -> DimLike:
        return self._place(_buffer(op), op.operands[1 if isinstance(op.defn, loop.Load) else 2 :])

    def _group(self, block: Block, first: Operation) -> list[Operation] | None:
        """The four accesses that begin with one, if nothing between them is in the way."""
        start, buffer = self._address(first), _buffer(first)
        found = {0: first}
        for op in block.ops[block.ops.index(first) + 1 :]:
            if op.defn is first.defn and _buffer(op) is buffer:
                distance = self._address(op) - start
                if isinstance(distance, int) and 0 <= distance < _COUNT:
                    if distance in found:
                        return None
                    found[distance] = op
                    if len(found) == _COUNT:
                        return [found[n] for n in range(_COUNT)]
                    continue
            if self._is_in_the_way(op, first, start):
                return None
        return None

    def _is_in_the_way(self, op: Operation, first: Operation, start: DimLike) -> bool:
        """Whether accesses to the four elements may not move past an operation."""
        if isinstance(op.defn, device.Barrier | device.ReduceThreads) or op.defn.terminator:
            return True
        if any(isinstance(i.defn, device.Barrier | device.ReduceThreads) for i in op.walk()):
            return True
        root = root_of(_buffer(first))
        loads = isinstance(first.defn, loop.Load)
        if isinstance(op.defn, device.LoadNeighbours | device.StoreNeighbours):
            reads = isinstance(op.defn, device.LoadNeighbours)
            at = op.operands[0] if reads else op.operands[_COUNT]
            return root_of(at) is root and not (loads and reads)
        met = [a for a in accesses(op) if a.root is root and (a.writes or not loads)]
        if not met or not isinstance(op.defn, loop.Load | loop.Store):
            return bool(met)
        if _buffer(op) is not _buffer(first):
            return True
        distance = self._address(op) - start
        return not isinstance(distance, int) or 0 <= distance < _COUNT

    # ---- copies in the background

    def _copies(self) -> bool:
        """Let moves in front of a commit go on behind it; whether anything changed."""
        ends = [op for op in self.function.walk() if isinstance(op.defn, device.CommitCopies)]
        copies = [some for end in ends for some in self._together(list(self._moves(end)))]
        for copy in copies:
            self._begin(copy)
        if not copies:
            for op in list(self.function.walk()):
                if isinstance(op.defn, device.CommitCopies | device.WaitCopies):
                    op.erase()
        return bool(ends)

    def _moves(self, end: Operation) -> Iterator[Operation]:
        """What stores four neighbours between the last barrier and a commit, of which the same can be read."""
        block = end.block
        assert block is not None
        for op in reversed(block.ops[: block.ops.index(end)]):
            if isinstance(op.defn, device.Barrier):
                return
            yield from (inner for inner in op.walk() if self._is_move(inner))

    def _is_move(self, op: Operation) -> bool:
        if not isinstance(op.defn, device.StoreNeighbours):
            return False
        values, target = op.operands[:_COUNT], op.operands[_COUNT]
        load = values[0].op
        return (
            load is not None
            and isinstance(load.defn, device.LoadNeighbours)
            and list(load.results) == list(values)
            and all(dict(v.users) == {op: 1} for v in values)
            and target not in self.buffers
            and load.operands[0] in self.buffers
            and target.type.dtype == load.operands[0].type.dtype
        )

    def _together(self, moves: list[Operation]) -> Iterator[list[Operation]]:
        """Moves of 16 bytes: each alone, or of 2-byte elements two that follow each other."""
        while moves:
            first = moves.pop(0)
            if first.operands[_COUNT].type.dtype.bytes * _COUNT == _BYTES:
                yield [first]
            elif moves and self._follows(moves[0], first):
                yield [first, moves.pop(0)]

    def _follows(self, second: Operation, first: Operation) -> bool:
        """Whether a move goes on where another one ends, which begins at a multiple of 16 bytes on either side."""
        if second.block is not first.block:
            return False
        for one, other in zip(_sides(second), _sides(first), strict=True):
            start = self._place(*other)
            if one[0] is not other[0] or not _is_multiple(start, 2 * _COUNT):
                return False
            if self._place(*one) - start != _COUNT:
                return False
        return True

    def _place(self, buffer: Value, index: Sequence[Value]) -> DimLike:
        return buffer.buffer.address(tuple(self.indices.of(v) for v in index))

    @staticmethod
    def _begin(stores: Sequence[Operation]) -> None:
        """Copy instead of storing what is loaded."""
        first = stores[0]
        (source, at), (target, to) = _sides(first)
        assert first.block is not None
        operands = [source, *at, target, *to]
        copy = Operation(OPS["copy_neighbours"], operands, [], {}, [], first.location)
        first.block.insert_before(first, copy)
        loads = [store.operands[0].op for store in stores]
        for op in (*stores, *loads):
            assert op is not None
            op.erase()

    # ---- four at once

    def _loads(self, block: Block, first: Operation) -> bool:
        group = self._group(block, first)
        if group is None:
            return False
        types = [op.result.type for op in group]
        wide = Operation(
            OPS["load_neighbours"], list(first.operands), types, {}, [], first.location
        )
        block.insert_before(first, wide)
        for op, result in zip(group, wide.results, strict=True):
            op.replace([result])
        return True

    def _stores(self, block: Block, first: Operation) -> bool:
        group = self._group(block, first)
        if group is None:
            return False
        last = max(group, key=block.ops.index)
        operands = [*(op.operands[0] for op in group), *first.operands[1:]]
        wide = Operation(OPS["store_neighbours"], operands, [], {}, [], first.location)
        block.insert_before(last, wide)
        for op in group:
            op.erase()
        return True


def _buffer(op: Operation) -> Value:
    return op.operands[0 if isinstance(op.defn, loop.Load) else 1]


def _sides(move: Operation) -> list[tuple[Value, Sequence[Value]]]:
    """The buffer and the index that a move reads, and those that it writes."""
    load = move.operands[0].op
    assert load is not None
    return [(source[0], source[1:]) for source in (load.operands, move.operands[_COUNT:])]


def _is_multiple(address: DimLike, count: int = _COUNT) -> bool:
    factors: Sequence[int]
    factors = [address] if isinstance(address, int) else [factor for _, factor in address.terms]
    return all(factor % count == 0 for factor in factors)
