"""What the threads of a block do together, on machines where many run one kernel.

All threads of a block run the same operations. A loop that is dealt out (``over`` of `tapec.ir.ops.loop.For`) gives
each of them other turns; everything outside of such loops they all do alike, with the same numbers. The operations here
stand outside of them, where every thread of the block comes by.
"""

from __future__ import annotations

from typing import Any

from tapec.ir.errors import DTypeError
from tapec.ir.ops.loop import LoopOp
from tapec.ir.types import INDEX, TensorType, Type


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
