"""What the threads of a block do together, on machines where many run one kernel.

All threads of a block run the same operations. A loop that is dealt out (``over`` of `tapec.ir.ops.loop.For`) gives
each of them other turns; everything outside of such loops they all do alike, with the same numbers. The operations here
stand outside of them, where every thread of the block comes by; but for those that read or write several neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.errors import DTypeError
from tapec.ir.ops.loop import LoopOp
from tapec.ir.types import F32, INDEX, U32, BufferType, DType, TensorType, Type

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


#: Bytes that the threads of a block share at most, as every device lets them; and in which they combine values, for all
#: operations of a kernel.
SHARED_BYTES, COMBINED_BYTES = 48 << 10, 256


class Thread(LoopOp):
    """The number of this thread in its block: a value of which each thread has its own."""

    name = "thread"

    def infer(self, *types: Any) -> TensorType:
        """An index."""
        return TensorType(INDEX)


#: How many elements an instruction of a device reads or writes at most: 16 bytes of 4 each, or 8 of 2.
NEIGHBOURS = 4


def _neighbours(name: str, buffer: Any) -> BufferType:
    """The type of a buffer, if it has elements of which four are read or written at once."""
    if not isinstance(buffer, BufferType) or buffer.dtype.bytes not in (2, 4):
        raise DTypeError(f"{name}: elements of 4 or 2 bytes are wanted, got {buffer}")
    return buffer


class LoadNeighbours(LoopOp):
    """Four elements of a buffer that lie one behind the other, from an index on whose address is a multiple of four."""

    name = "load_neighbours"
    pure = False

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """Four scalars."""
        return (TensorType(_neighbours(self.name, types[0]).dtype),) * NEIGHBOURS


class StoreNeighbours(LoopOp):
    """Write four elements of a buffer that lie one behind the other: operands the values, the buffer, the index."""

    name = "store_neighbours"
    pure = False

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """No results."""
        buffer = _neighbours(self.name, types[NEIGHBOURS])
        if any(t.dtype != buffer.dtype for t in types[:NEIGHBOURS]):
            raise DTypeError(f"store_neighbours: {types[:NEIGHBOURS]} do not fit into {buffer}")
        return ()

    def written(self, op: Operation) -> Sequence[Value]:
        """The buffer."""
        return op.operands[NEIGHBOURS : NEIGHBOURS + 1]


# ---- copies that go on while threads compute


class CopyNeighbours(LoopOp):
    """Copy 16 bytes of neighbours into memory of the block, some time before this thread has waited for it.

    Operands: the buffer that is read, its index, the buffer that is written, its index. Neighbours are four elements of
    4 bytes or eight of 2; both addresses are multiples of so many. Nobody may read or write the copy before
    `WaitCopies`, and no thread but this one before a barrier after that.
    """

    name = "copy_neighbours"
    pure = False

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """No results."""
        source = _neighbours(self.name, types[0])
        target = _neighbours(self.name, types[1 + len(source.shape)])
        if source.dtype != target.dtype:
            raise DTypeError(f"copy_neighbours: {source} does not fit into {target}")
        return ()

    def written(self, op: Operation) -> Sequence[Value]:
        """The buffer in the block's memory."""
        source = op.operands[0].type
        assert isinstance(source, BufferType)
        first = 1 + len(source.shape)
        return op.operands[first : first + 1]


class CommitCopies(LoopOp):
    """The end of a group of copies.

    What this thread has moved into memory of the block since the last barrier, four neighbours as they are each time,
    may go on until it waits for the group: `tapec.passes.device.widen` makes `CopyNeighbours` of that.
    """

    name = "commit_copies"
    pure = False

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """No results."""
        return ()


class WaitCopies(LoopOp):
    """Wait for the copies of this thread, but for those of the last so many ``groups``."""

    name = "wait_copies"
    pure = False

    def infer(self, *types: Any, groups: int = 0) -> tuple[Type, ...]:
        """No results."""
        return ()


# ---- tensor cores


class RoundTf32(LoopOp):
    """A number with the 10 bits of mantissa that tensor cores read of a float32; halves away from zero."""

    name = "round_tf32"

    def infer(self, *types: Any) -> TensorType:
        """The same type."""
        (kind,) = types
        if not isinstance(kind, TensorType) or kind.dtype != F32:
            raise DTypeError(f"round_tf32: a float32 is wanted, got {kind}")
        return kind


class LoadMatrices(LoopOp):
    """Four matrices of 8 by 8 elements of 2 bytes, which a warp reads together from the block's memory.

    Each of its 32 threads gives a row, by the index of its first element: thread ``8 m + r`` row ``r`` of matrix ``m``.
    It gets a word of each matrix, thread ``4 g + t`` the two elements ``[g, 2 t]`` and ``[g, 2 t + 1]``, the first in
    the lower half; or ``[2 t, g]`` and ``[2 t + 1, g]`` if matrices are ``turned``. Rows begin at multiples of 16
    bytes.

    See "ldmatrix" in the PTX ISA.
    """

    name = "load_matrices"
    pure = False

    def infer(self, *types: Any, turned: bool = False) -> tuple[Type, ...]:
        """Four words."""
        if _neighbours(self.name, types[0]).dtype.bytes != 2:
            raise DTypeError(f"load_matrices: elements of 2 bytes are wanted, got {types[0]}")
        return (TensorType(U32),) * 4


#: What a word of an operand of `WarpProduct` is, and in which form.
WORDS: Mapping[str, DType] = {"tf32": F32, "f16": U32, "bf16": U32}
#: Rows and columns of a `WarpProduct`, and words that it sums over.
WARP_ROWS, WARP_COLUMNS, WARP_DEPTH = 16, 8, 8


class WarpProduct(LoopOp):
    """A tile of a product that the 32 threads of a warp add to together: 16 rows, 8 columns, 8 words deep.

    A word is a float32 that `RoundTf32` has rounded, or two of 16 bits. Thread ``4 g + t`` of a warp gives four words
    of the left operand (``[g, t] [g + 8, t] [g, t + 4] [g + 8, t + 4]`` by row and depth), two of the right one
    (``[t, g] [t + 4, g]`` by depth and column), and four sums, which it gets back with what is added:
    ``[g, 2 t] [g, 2 t + 1] [g + 8, 2 t] [g + 8, 2 t + 1]``. Products are exact, sums are float32; their order is the
    device's. All threads of a warp come by, or none.

    See "Matrix Fragments for mma.m16n8k8" and "mma.m16n8k16" in the PTX ISA.
    """

    name = "warp_product"
    pure = False

    def infer(self, *types: Any, form: str) -> tuple[Type, ...]:
        """The four sums."""
        word = TensorType(WORDS[form])
        if types != (word,) * 6 + (TensorType(F32),) * 4:
            raise DTypeError(
                f"warp_product: six of {word} and four float32 are wanted, got {types}"
            )
        return types[6:]
