"""Loops over time whose turns treat each row of a batch by itself: cells of recurrent networks, solvers of many cases.

Where no row reads what another one wrote, it does not matter whether all rows take a turn before any takes the next:
so a block of threads, or one thread, may take one row through all of the turns, and waits for nobody. That is proved
from kernels: each is loops whose outermost index, or a fixed number of neighbours of it, is the row, and is the first
index wherever something is read or written that the loop writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from tapec.ir.core import Function, Module, Operation, Value
from tapec.ir.dims import DimLike
from tapec.ir.op import AxesRead
from tapec.ir.ops import loop
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.repetition import Loop
from tapec.passes.contractions.problem import Problem
from tapec.passes.device.independence import Indices, is_inside
from tapec.passes.device.team import SCRATCH_BYTES
from tapec.passes.kernels.accesses import Access, accesses, root_of, touches_otherwise, written_by
from tapec.passes.loops.parts import Part, Slice, bytes_of, slice_of, turns_of

#: Rows from which on they are worth being told apart.
FEW = 8
#: Bytes that all rows read in a turn, of what they share: more are better read once, for tiles of many rows.
READ_AGAIN = 1 << 26
#: Multiply-adds of a row in a turn up to which a block of threads makes them sooner than many blocks are launched.
ROW_WORK = 1 << 18


def keeps_rows(kernel: Operation, problem: Problem) -> bool:
    """Whether a product is better made row by row, because the loop that it is in can take one row at a time.

    This is a guess, from what the turns of the loop compute of what; `Rows` proves it of the loops that are made.
    """
    region = kernel.block.region if kernel.block is not None else None
    around = region.owner if region is not None else None
    if not isinstance(around, Operation) or not isinstance(around.defn, Loop):
        return False
    count, columns = problem.rows, problem.columns
    depth = [n for n in problem.depth if isinstance(n, int)]
    plain = not problem.batch and not problem.swapped and len(depth) == len(problem.depth) == 1
    if not plain or not isinstance(count, int) or not isinstance(columns, int) or count < FEW:
        return False
    work = depth[0] * columns
    if work > ROW_WORK or count * work * problem.dtype.bytes > READ_AGAIN:
        return False
    return isinstance(around.attrs["length"], int) and _are_by_rows(around, count)


def _are_by_rows(op: Operation, count: int) -> bool:
    """Whether every value that a turn computes has a row for each row of what goes round, made of no other row."""
    block = op.regions[0].block
    own = set(block.args[: op.attrs["carried"] + op.attrs["stacked"]])
    for inner in block.ops:
        if not isinstance(inner.defn, KernelOp):
            continue
        if any(v.tensor.shape[:1] != (count,) for v in inner.results):
            return False
        body = inner.regions[0].block
        own |= {arg for arg, v in zip(body.args, inner.operands, strict=True) if v in own}
        if not all(_keeps_row(one, own) for one in body.ops):
            return False
        own.update(inner.results)
    return True


def _keeps_row(op: Operation, own: set[Value]) -> bool:
    """Whether an operation makes each row of the same row of those operands that have one; its results are added."""
    by_rows = [v in own for v in op.operands]
    if not any(by_rows) or op.defn.terminator:
        return True
    own.update(op.results)
    if op.defn.form == "contraction":
        return by_rows == [True, False]
    reads = zip(op.operands, by_rows, op.defn.axes_read(op), strict=True)
    return all(_is_same_row(v, read, op) for v, is_own, read in reads if is_own)


def _is_same_row(operand: Value, read: AxesRead, op: Operation) -> bool:
    """Whether the first axis of an operand goes with that of the result; of what is moved its size tells."""
    if read is not None:
        return read[:1] == (0,)
    return all(v.tensor.shape[:1] == operand.tensor.shape[:1] for v in op.results)


@dataclass
class Rows:
    """What is known of the kernels that a loop launches."""

    #: Parts of the entry's memory that some kernel writes.
    written: set[Part] = field(default_factory=set)
    #: Bytes that each row has in a buffer, for all rows: of the parts that are written.
    sizes: dict[Part, int] = field(default_factory=dict)
    #: Turns of the outermost loops of kernels.
    extents: list[int] = field(default_factory=list)
    #: Bytes of what all rows read, by where that is.
    shared: dict[Part, int] = field(default_factory=dict)
    #: Bytes that kernels need for themselves.
    scratch: int = 0

    @classmethod
    def of(cls, launches: Sequence[Operation], module: Module) -> int:
        """How many rows the launches of a loop's turn treat by themselves: 0 if that cannot be told."""
        found = cls()
        kernels = [module.functions[op.attrs["kernel"]] for op in launches]
        slices = [[slice_of(v) for v in op.operands] for op in launches]
        for kernel, places in zip(kernels, slices, strict=True):
            writes = written_by(kernel)
            pairs = zip(kernel.args, places, strict=True)
            found.written |= {place.part for arg, place in pairs if arg in writes}
        for kernel, places in zip(kernels, slices, strict=True):
            if not found._fits(kernel, places):
                return 0
        count = gcd(*found.extents)
        fits = found.scratch <= SCRATCH_BYTES and count * sum(found.shared.values()) <= READ_AGAIN
        return count if fits else 0

    def _fits(self, kernel: Function, places: Sequence[Slice]) -> bool:
        """Whether a kernel keeps to rows, and these lie where those of other kernels lie."""
        of_arg = dict(zip(kernel.args, places, strict=True))
        for place in places:
            if place.part not in self.written:
                continue
            size = self.sizes.setdefault(place.part, place.size)
            if size != place.size or not size or any(n % size for n in place.moves):
                return False
        inputs = {arg for arg, place in of_arg.items() if place.part not in self.written}
        statements = [op for op in kernel.block.ops[:-1] if not _is_plain(op, inputs)]
        return all(self._is_by_rows(op, of_arg) for op in statements) and bool(statements)

    def _is_by_rows(self, op: Operation, of_arg: Mapping[Value, Slice]) -> bool:
        extent = turns_of(op) if isinstance(op.defn, loop.For) else None
        if not extent or op.results or op.attrs.get("step", 1) != 1:
            return False
        indices = Indices()
        if indices.of(op.operands[0]) != 0 or any(touches_otherwise(one) for one in op.walk()):
            return False
        self.extents.append(extent)
        self.scratch += sum(
            bytes_of(one.result) for one in op.walk() if isinstance(one.defn, loop.Alloc)
        )
        row = indices.of(op.regions[0].block.args[0])
        for access in accesses(op):
            if is_inside(access.root, op):
                continue
            place = of_arg.get(access.root)
            if place is None:
                return False
            if _is_of_row(access, row, extent, indices):
                continue
            if place.part in self.written:
                return False
            self.shared[place.part] = place.size
        return True


def _is_plain(op: Operation, inputs: set[Value]) -> bool:
    """Whether each row may do an operation as well: it computes, or reads what nothing writes."""
    if isinstance(op.defn, loop.Load):
        return root_of(op.operands[0]) in inputs
    return not op.regions and (op.defn.pure or isinstance(op.defn, loop.Prefetch))


def _is_of_row(access: Access, row: DimLike, extent: int, indices: Indices) -> bool:
    """Whether an access is inside of the row: the first index is that, of a buffer with a part for each."""
    kind = access.buffer.buffer
    by_rows = not access.path and kind.shape[:1] == (extent,)
    return by_rows and indices.of(access.index[0]) == row
