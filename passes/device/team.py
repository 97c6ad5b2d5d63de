"""A block of threads that runs a part of a kernel together.

What stands outside of loops all threads do alike: they compute the same numbers and come to the same places. Loops
whose turns are independent are dealt out to them, sums are made by each of its turns and then combined, and what only
one may do the first thread does. Scratch is in memory that they share. Between an access and another one of other
threads to the same buffer, one of which writes, stands a barrier.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod

from tapec.ir.core import Block, Operation, Region, Value
from tapec.ir.dims import typical
from tapec.ir.loops.reduction import neutral
from tapec.ir.op import OPS
from tapec.ir.ops import device, loop
from tapec.ir.types import TensorType
from tapec.passes.device.independence import Indices, combines, independent, is_inside
from tapec.passes.device.neighbours import WIDTH, turn_of, width
from tapec.passes.device.nests import Emitter, Nest, nest_of
from tapec.passes.kernels.accesses import read_and_written, root_of

#: Turns from which on a loop is worth dealing out.
_WORTH = 2
#: Bytes that a block's threads can share on every device, besides those in which they combine values.
SCRATCH_BYTES = device.SHARED_BYTES - device.COMBINED_BYTES
#: Turns of a nest from which on threads of a block take several neighbours: a warp has one turn each.
_WIDE = 32 * WIDTH


def width_of(nest: Nest, indices: Indices) -> int:
    """How many neighbours a thread of a block takes at once."""
    turns = nest.turns(indices)
    return width(nest, indices) if isinstance(turns, int) and turns >= _WIDE else 1


class TooLarge(Exception):
    """A block's threads cannot share so much memory."""


def dealt(op: Operation, indices: Indices) -> bool:
    """Whether the turns of a loop can be dealt out to threads."""
    if not isinstance(op.defn, loop.For) or not independent(op, indices):
        return False
    return not op.results or combines(op) is not None


def dealable(op: Operation, indices: Indices) -> Iterator[Nest]:
    """The nests in an operation, itself included, that can be dealt out; of those inside one another the outermost."""
    if dealt(op, indices):
        nest = nest_of(op, indices)
        if typical(nest.turns(indices)) >= _WORTH:
            yield nest
            return
    for region in op.regions:
        for inner in region.block.ops:
            yield from dealable(inner, indices)


class Team:
    """Writes what a block of threads does together."""

    def __init__(self, out: Emitter, indices: Indices) -> None:
        """Write with ``out``."""
        self.out = out
        self.indices = indices
        #: Buffers that some thread read or wrote since the last barrier.
        self._read: set[Value] = set()
        self._written: set[Value] = set()
        self._bytes = 0

    def block(self, ops: Sequence[Operation]) -> None:
        """Write operations of a block, without its terminator."""
        for op in ops:
            self.out.b.location = op.location or self.out.b.location
            self._operation(op)

    def settle(self) -> None:
        """Let no access to memory that the threads share be open: what follows may use it anew."""
        if any(_is_own(buffer) for buffer in self._read | self._written):
            self.barrier()

    def barrier(self) -> None:
        """Wait for each other."""
        self.out.b.emit("barrier")
        self._read.clear()
        self._written.clear()

    # ---- operations

    def _operation(self, op: Operation) -> None:
        if isinstance(op.defn, loop.Prefetch):
            return
        if isinstance(op.defn, loop.Alloc):
            self._share(op)
        elif isinstance(op.defn, loop.Store):
            self._touch(*_roots(op))
            self._first_only([op])
        elif isinstance(op.defn, loop.Load):
            self._touch(*_roots(op))
            self.out.copy(op)
        elif isinstance(op.defn, loop.For):
            self._loop(op)
        elif op.regions:
            self._choice(op)
        else:
            self.out.copy(op)

    def _share(self, op: Operation) -> None:
        kind = op.result.buffer
        self._bytes += -(-prod(kind.tensor.static_shape) * kind.dtype.bytes // 16) * 16
        if self._bytes > SCRATCH_BYTES:
            raise TooLarge
        self.out.mapping[op.result] = self.out.b.emit("alloc", type=kind, shared=True)

    def _touch(self, reads: Collection[Value], writes: Collection[Value]) -> None:
        """Put a barrier in front of accesses that have to wait."""
        read, written = set(reads), set(writes)
        if written & (self._read | self._written) or read & self._written:
            self.barrier()
        self._read |= read
        self._written |= written

    def _first_only(self, ops: Sequence[Operation]) -> None:
        """Let the first thread do something."""

        def body(inner: Emitter, turn: Value, carried: Sequence[Value]) -> Sequence[Value]:
            inner.copy_all(ops)
            return ()

        self.out.loop(1, "threads", body)

    def _loop(self, op: Operation) -> None:
        if dealt(op, self.indices):
            nest = nest_of(op, self.indices)
            if typical(nest.turns(self.indices)) >= _WORTH:
                self._touch(*_roots(op))
                self._reduce(op, nest) if op.results else self._deal(nest)
                return
        if self._alone(op):
            return
        self._turns(op)

    def _alone(self, op: Operation) -> bool:
        """Write what has nothing to deal out: done by the first thread, or, where it writes nothing, by all."""
        if any(dealable(op, self.indices)):
            return False
        reads, writes = _roots(op)
        if op.results and writes:
            return False
        self._touch(reads, writes)
        if writes:
            self._first_only([op])
        else:
            self.out.copy(op)
        return True

    def _deal(self, nest: Nest) -> None:
        """Give each thread some turns."""
        many = width_of(nest, self.indices)
        turns = self.out.turns(nest, self.indices, many)

        def body(inner: Emitter, turn: Value, carried: Sequence[Value]) -> Sequence[Value]:
            return turn_of(inner, nest, turn, self.indices, many)

        self.out.loop(turns, "threads", body)

    def _reduce(self, op: Operation, nest: Nest) -> None:
        """Let each thread combine the values of some turns, then combine what they have."""
        names = combines(op)
        assert names is not None
        many = width_of(nest, self.indices)
        turns = self.out.turns(nest, self.indices, many)
        b = self.out.b
        starts = [
            b.emit("constant", value=neutral(name, v.type.dtype), type=TensorType(v.type.dtype))
            for name, v in zip(names, op.results, strict=True)
        ]

        def body(inner: Emitter, turn: Value, carried: Sequence[Value]) -> Sequence[Value]:
            return turn_of(inner, nest, turn, self.indices, many, carried)

        parts = self.out.loop(turns, "threads", body, starts)
        for name, part, init, result in zip(names, parts, op.operands[2:], op.results, strict=True):
            total = b.emit("reduce_threads", part, combine=name)
            self.out.mapping[result] = b.emit(OPS[name], self.out.new(init), total)
        # Whoever gets the result has waited for all.
        self._read.clear()
        self._written.clear()

    def _turns(self, op: Operation) -> None:
        """A loop that all threads go through together, turn by turn."""
        self._begin(op)
        self.out.b.location = op.location
        self.out.block.append(self._with_regions(op, carried=op.operands[2:]))

    def _choice(self, op: Operation) -> None:
        """A branch, or a loop that may end early."""
        if self._alone(op):
            return
        self._begin(op)
        self.out.block.append(self._with_regions(op))

    def _begin(self, op: Operation) -> None:
        """Let nothing be open that meets something in an operation of several ways."""
        writes = read_and_written(op)[1]
        if self._written or writes & self._read:
            self.barrier()

    def _with_regions(self, op: Operation, carried: Sequence[Value] = ()) -> Operation:
        regions = []
        outside = self.out
        before, after = set(self._read), set(self._read)
        for region in op.regions:
            source = region.block
            block = Block([a.type for a in source.args])
            self.out = outside.inside(block)
            self.out.mapping.update(zip(source.args, block.args, strict=True))
            self._read = set(before)
            self.block(source.ops[:-1])
            self._close(op)
            after |= self._read
            self.out.b.emit(
                source.terminator.defn, *(self.out.new(v) for v in source.terminator.operands)
            )
            regions.append(Region([block]))
        self.out, self._read = outside, after
        operands = [outside.new(v) for v in op.operands]
        types = [r.type for r in op.results]
        made = Operation(op.defn, operands, types, op.attrs, regions, op.location)
        outside.mapping.update(zip(op.results, made.results, strict=True))
        return made

    def _close(self, op: Operation) -> None:
        """End a region: what comes next, another turn or what follows, finds nothing open."""
        writes = read_and_written(op)[1] | {r for r in self._written if is_inside(r, op)}
        if self._written or writes & self._read or any(is_inside(r, op) for r in self._read):
            self.barrier()


def _is_own(buffer: Value) -> bool:
    """Whether a buffer is scratch."""
    return buffer.op is not None and isinstance(buffer.op.defn, loop.Alloc)


def _roots(op: Operation) -> tuple[set[Value], set[Value]]:
    if isinstance(op.defn, loop.Load):
        return {root_of(op.operands[0])}, set()
    if isinstance(op.defn, loop.Store):
        return set(), {root_of(op.operands[1])}
    return read_and_written(op)
