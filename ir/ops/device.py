"""What the threads of a block do together, on machines where many run one kernel.

All threads of a block run the same operations. A loop that is dealt out (``over`` of `tapec.ir.ops.loop.For`) gives
each of them other turns; everything outside of such loops they all do alike, with the same numbers. The operations here
stand outside of them, where every thread of the block comes by; but for those that read or write several neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.errors import DTypeError
from tapec.ir.ops.loop import LoopOp
from tapec.ir.types import INDEX, BufferType, TensorType, Type

if TYPE_CHECKING:
    from tapec.ir.core import Operation, Value


class Barrier(LoopOp):
    """Wait for all threads of the block; each then sees what the others have written."""

    name = "barrier"
    pure = False

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """No results."""
        return ()


class ReduceThreads(LoopOp):
    """Combine a value of each thread of the block (``add mul max min and or``); every thread gets the result.

    The order is that of a tree over the threads' numbers, so that equal programs give equal bits. It is a barrier, too.
    """

    name = "reduce_threads"
    pure = False

    def infer(self, *types: Any, combine: str) -> TensorType:
        """The scalar's type."""
        (kind,) = types
        if not isinstance(kind, TensorType) or combine not in (
            "add",
            "mul",
            "max",
            "min",
            "and",
            "or",
        ):
            raise DTypeError(f"reduce_threads: cannot {combine} {kind}")
        return kind


class Thread(LoopOp):
    """The number of this thread in its block: a value of which each thread has its own."""

    name = "thread"

    def infer(self, *types: Any) -> TensorType:
        """An index."""
        return TensorType(INDEX)


#: How many elements an instruction of a device reads or writes at most: 16 bytes of 4 each.
NEIGHBOURS = 4


class LoadNeighbours(LoopOp):
    """Four elements of a buffer that lie one behind the other, from an index on whose address is a multiple of four."""

    name = "load_neighbours"
    pure = False

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """Four scalars."""
        if not isinstance(types[0], BufferType) or types[0].dtype.bytes != NEIGHBOURS:
            raise DTypeError(f"load_neighbours: elements of 4 bytes are wanted, got {types[0]}")
        return (TensorType(types[0].dtype),) * NEIGHBOURS


class StoreNeighbours(LoopOp):
    """Write four elements of a buffer that lie one behind the other: operands the values, the buffer, the index."""

    name = "store_neighbours"
    pure = False

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """No results."""
        buffer = types[NEIGHBOURS]
        if not isinstance(buffer, BufferType) or buffer.dtype.bytes != NEIGHBOURS:
            raise DTypeError(f"store_neighbours: elements of 4 bytes are wanted, got {buffer}")
        if any(t.dtype != buffer.dtype for t in types[:NEIGHBOURS]):
            raise DTypeError(f"store_neighbours: {types[:NEIGHBOURS]} do not fit into {buffer}")
        return ()

    def written(self, op: Operation) -> Sequence[Value]:
        """The buffer."""
        return op.operands[NEIGHBOURS : NEIGHBOURS + 1]
