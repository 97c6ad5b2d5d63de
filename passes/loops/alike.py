"""Loops over time whose kernels threads share alike: each has the same rows from kernel to kernel, turn to turn.

In a recurrent network each turn reads what the turn before has written. What another thread wrote comes from the cache
of its core, several times slower than from the own one, and slower still where cores share no cache. So where threads
share a kernel of a loop's body, (1) products of what the turn computed with what is the same in all turns are cut along
rows, like all else, not along columns, for which every thread would read the rows of the others; (2) kernels that read
what threads have written by rows are shared by rows, too, even if they are small: workers that were at work a moment
ago still look for the next job, and to call them costs less than to fetch their rows.

Where rows end up is decided by shapes alone; what is computed does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tapec.ir.core import Block, Operation, Value
from tapec.ir.dims import DimLike
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.repetition import Loop
from tapec.ir.types import TensorType
from tapec.passes.contractions.problem import size
from tapec.passes.contractions.tiling import Tiling

#: Bytes that a kernel reads and writes from which on threads that are at work share it.
SHARED_BYTES = 1 << 15
#: Rows that threads can share.
_ROWS = 8


def share(op: Operation, by_rows: Callable[[Operation], Tiling | None]) -> None:
    """Let threads share the kernels of a loop's body by rows, where they share one.

    Args:
        op: The loop. Its kernels have their attributes.
        by_rows: The tiling of a product by rows, if there is a good one.
    """
    body = op.regions[0].block
    kernels = [inner for inner in body.ops if isinstance(inner.defn, KernelOp)]
    turn = _Turn(op, body)
    for kernel in kernels:
        if kernel.attrs.get("parallel") == "columns" and turn.is_step(kernel):
            tiling = by_rows(kernel)
            if tiling is not None:
                kernel.attrs.update(tiling.attrs)
    spread = {v for kernel in kernels if _is_by_rows(kernel) for v in turn.written(kernel)}
    while True:
        more = [kernel for kernel in kernels if _joins(kernel, spread)]
        if not more:
            return
        for kernel in more:
            kernel.attrs["parallel"] = True
            spread.update(turn.written(kernel))


class _Turn:
    """How values pass through a loop's body, and from one turn to the next."""

    def __init__(self, op: Operation, body: Block) -> None:
        assert isinstance(op.defn, Loop)
        _, carried, stacked, _ = op.defn.parts(op)
        self.body = body
        self.carried = dict(zip(body.args, body.terminator.operands[: len(carried)], strict=False))
        self.same = set(body.args[len(carried) + len(stacked) :])

    def is_step(self, kernel: Operation) -> bool:
        """Whether a product's left operand is computed in each turn, and its right one is the same in all."""
        core = next(op for op in kernel.regions[0].block.ops if op.defn.form == "contraction")
        outside = dict(zip(kernel.regions[0].block.args, kernel.operands, strict=True))
        left, right = map(outside.get, core.operands)
        made = left is not None and (left in self.carried or self._is_inside(left))
        return made and right in self.same

    def _is_inside(self, value: Value) -> bool:
        return value.op is not None and value.op.block is self.body

    def written(self, kernel: Operation) -> Iterator[Value]:
        """A kernel's results, under the names that the next turn has for them, too."""
        yield from kernel.results
        yield from (arg for arg, value in self.carried.items() if value in kernel.results)


def _is_by_rows(kernel: Operation) -> bool:
    """Whether threads share a kernel by the leading axis of its results."""
    parallel = kernel.attrs.get("parallel")
    return parallel in ("rows", "batch") or (parallel is True and _rows(kernel) is not None)


def _joins(kernel: Operation, spread: set[Value]) -> bool:
    """Whether a kernel of one thread reads rows that several have written, and is worth a call of these."""
    if kernel.attrs.get("parallel") is not False:
        return False
    rows = _rows(kernel)
    read = [v for v in kernel.operands if v in spread and _leading(v.tensor) == rows]
    bytes: DimLike = sum(v.tensor.bytes for v in (*kernel.operands, *kernel.results))
    return rows is not None and bool(read) and size(bytes) >= SHARED_BYTES


def _rows(kernel: Operation) -> int | None:
    """The leading extent of all results of a kernel that works element by element, if it is enough for threads."""
    ops = kernel.regions[0].block.ops[:-1]
    if any(op.defn.form != "index" or op.defn.loops for op in ops):
        return None
    leading = {_leading(r.tensor) for r in kernel.results}
    rows = leading.pop()
    return rows if not leading and rows is not None and rows >= _ROWS else None


def _leading(tensor: TensorType) -> int | None:
    """The first extent, if it is known and elements of a row are many."""
    extent = tensor.shape[0] if tensor.rank > 1 else None
    return extent if isinstance(extent, int) else None
