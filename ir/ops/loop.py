"""The loop level: kernels over buffers, one screen of grammar.

::

    module   ::= entry kernel*
    entry    ::= func @f(%x: &f32[8,4], …, %result: &f32[8], %arena: &u8[4096]) -> (%result, %x)
                 {arena = 4096, inputs = 1} { (view | launch | statement)* return }
    kernel   ::= kernel @k(%a: &f32[8,4], …) { statement* return }
    statement::= %i = constant {value = 0} : index
               | %v = for %lo, %hi, %init… {step = 16, unroll = 4} : f32 { ^(%i: index, %acc: f32, …): … yield %acc }
               | %n = while %lo, %hi : index { ^(%i: index): … yield %condition } { ^(%i: index): … yield }
               | %v = if %condition : f32 { … yield %x } { … yield %y }
               | %v = load %buffer, %i, %j {lanes = 16} : f32x16        (no lanes: one element)
               | %v = load %buffer, %i, %j, %n {lanes = 16, masked = true}   (only the first %n lanes; others are 0)
               | %v = load_at %buffer, %offsets : f32x16                (a lane from each element offset)
               | store %v, %buffer, %i, %j      (… %n {masked = true})
               | prefetch %buffer, %i, %j                                (will be needed soon; may lie outside)
               | %b = alloc : &f32[64]                                  (scratch of this kernel, on the stack)
               | %b = alloc {shared = true} : &f32[64]                  (of a block of threads)
               | %b = view %buffer {offset = 64} : &f32[8]              (part of another buffer, offset in bytes)
               | %b = view %buffer, %i {stride = 32} : &f32[8]          (and %i strides more)
               | %v = splat %s {lanes = 16} · %v = lanes : i32x16 · %s = reduce_lanes %v {combine = "add"}
               | %v = shuffle %a, %b {mask = [0, 16, 1, 17]}
               | %s = <any elementwise operation> on scalars or vectors, without promotion
               | for %lo, %hi {over = "grid"} { … }      (turns dealt out: to the grid, its blocks, a block's threads)
               | barrier · %s = reduce_threads %v {combine = "add"}     (of a block's threads: `tapec.ir.ops.device`)
               | copy_neighbours %from, %i, %to, %j · commit_copies · wait_copies {groups = 0}     (as above)
               | %0, %1, %2, %3 = load_matrices %buffer, %i {turned = true} : u32, …             (by a warp's threads)
               | %0, %1, %2, %3 = warp_product %a, … %b, … %c, … {form = "tf32"} : f32, …         (by a warp's threads)
               | launch %a, %b {kernel = "k"}           (… {number = 3}: which of the program it is, for a profile)
               | call_foreign %a, %out {op = "acme.blur", content = "…", inputs = 1}    (a user's kernel of arrays)

An entry takes the function's arguments, then a buffer for each result that updates no argument, then the arena if
there is one; its header names the arguments that receive the results. Indices are ``index`` scalars, one for each
axis. A ``for`` runs while ``lo <= i < hi``, a ``while`` stops before that where its condition does not hold, and tells
where;  ``unroll`` asks for that many copies of its body in a turn, ``parallel =
true`` promises that iterations are independent (then nothing is carried); ``interruptible = true``, of the entry's
loops, allows to leave the program between two turns. Kernels read and write only their arguments;
two arguments of a kernel never overlap (a buffer updated in place is passed once).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import Op
from tapec.ir.types import BOOL, INDEX, BufferType, TensorType, Type, VectorType

if TYPE_CHECKING:
    from tapec.ir.core import Operation, Value

_LOOP = frozenset({"loop"})
_INDEX = TensorType(INDEX)
_NO_DEVICE = "vectors are of processors: a thread of a device has one number at a time"


class LoopOp(Op):
    """An operation of the loop level only."""

    form = "structural"
    levels = _LOOP
    differentiable = False

    def written(self, op: Operation) -> Sequence[Value]:
        """The buffers that it writes to, or to parts of which it does."""
        return ()


class For(LoopOp):
    """Counted loop with carried values: operands low, high, then initial values; results the last carried values.

    Where many threads run a kernel, ``over`` deals the turns out: to all threads of the ``grid``, to its ``blocks``, or
    to the ``threads`` of each block. What such a loop carries, each thread has its own of.
    """

    name = "for"
    pure = False

    def infer(
        self,
        *types: Any,
        step: int = 1,
        parallel: bool = False,
        unroll: int = 1,
        interruptible: bool = False,
        over: str = "",
    ) -> tuple[Type, ...]:
        """The carried values' types."""
        if over not in ("", "grid", "blocks", "threads"):
            raise ShapeError(f"for: over is grid, blocks or threads, got {over!r}")
        if len(types) < 2 or types[:2] != (_INDEX, _INDEX):
            raise DTypeError("for: the bounds must be index")
        if step < 1:
            raise ShapeError(f"for: step must be positive, got {step}")
        return types[2:]


class While(LoopOp):
    """Counted loop that may end early: the first region says whether the second, the body, runs for an index.

    The result is the first index for which it did not.
    """

    name = "while"
    pure = False

    def infer(self, *types: Any, interruptible: bool = False) -> TensorType:
        """An index."""
        if types != (_INDEX, _INDEX):
            raise DTypeError("while: the bounds must be index")
        return _INDEX


class If(LoopOp):
    """Two regions, one of which runs; results are what it yields.

    Of a ``rare`` one, nothing is computed before the condition is known.
    """

    name = "if"
    pure = False

    def infer(
        self, *types: Any, results: tuple[Type, ...] = (), rare: bool = False
    ) -> tuple[Type, ...]:
        """Given by the builder from the regions' yields."""
        if types != (TensorType(BOOL),):
            raise DTypeError("if: the condition must be bool")
        return results

    def result_types(self, op: Operation) -> tuple[Type, ...]:
        """What the first region yields."""
        self.infer(*(v.type for v in op.operands))
        return tuple(v.type for v in op.regions[0].block.terminator.operands)


class Yield(LoopOp):
    """Terminator of a region: its operands are what the region's operation gets."""

    name = "yield"
    levels = frozenset({"tensor", "loop"})
    pure = False
    terminator = True

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """No results."""
        return ()


class Load(LoopOp):
    """An element of a buffer, or ``lanes`` neighbours along the last axis; reads memory, so it is not moved."""

    name = "load"
    pure = False

    def infer(self, *types: Any, lanes: int = 0, masked: bool = False) -> TensorType | VectorType:  # type: ignore[override]
        """Scalar or vector of the buffer's dtype."""
        buffer = _buffer(self.name, types[0])
        _indices(self.name, types[1:], len(buffer.shape) + masked)
        return VectorType(buffer.dtype, lanes) if lanes else TensorType(buffer.dtype)


class LoadAt(LoopOp):
    """A vector gathered from element offsets (an index vector) into the buffer, row-major."""

    name = "load_at"
    no_device = _NO_DEVICE
    pure = False

    def infer(self, *types: Any) -> VectorType:  # type: ignore[override]
        """As many lanes as offsets."""
        buffer = _buffer(self.name, types[0])
        if not (isinstance(types[1], VectorType) and types[1].dtype == INDEX):
            raise DTypeError("load_at: offsets must be a vector of index")
        return VectorType(buffer.dtype, types[1].lanes)


class Store(LoopOp):
    """Write a scalar, or a vector's lanes along the last axis: operands value, buffer, indices."""

    name = "store"
    pure = False

    def infer(self, *types: Any, masked: bool = False) -> tuple[Type, ...]:
        """No results."""
        buffer = _buffer(self.name, types[1])
        if types[0].dtype != buffer.dtype:
            raise DTypeError(f"store: a {types[0]} does not fit into {buffer}")
        _indices(self.name, types[2:], len(buffer.shape) + masked)
        return ()

    def written(self, op: Operation) -> Sequence[Value]:
        """The buffer."""
        return op.operands[1:2]


class Prefetch(LoopOp):
    """Say that the memory around an element will soon be needed; an index outside of the buffer does nothing."""

    name = "prefetch"
    no_device = "it is a hint for the caches of processors, and left out"
    pure = False

    def infer(self, *types: Any) -> tuple[Type, ...]:
        """No results."""
        buffer = _buffer(self.name, types[0])
        _indices(self.name, types[1:], len(buffer.shape))
        return ()


class Alloc(LoopOp):
    """Uninitialised scratch on the stack of the kernel, or ``shared`` by a block's threads; its size is static."""

    name = "alloc"
    typed = True
    pure = False

    def infer(self, *types: Any, type: Any, shared: bool = False) -> Any:
        """The given buffer type."""
        return type


class View(LoopOp):
    """Another type for part of a buffer; ``offset`` in bytes from its start, and ``stride`` times an index if given."""

    name = "view"
    typed = True

    def infer(self, *types: Any, type: Any, offset: int = 0, stride: int = 0) -> Any:
        """The given buffer type."""
        _buffer(self.name, types[0])
        if len(types) > 1:
            _indices(self.name, types[1:], 1)
        return type


class Splat(LoopOp):
    """A scalar in every lane."""

    name = "splat"
    no_device = _NO_DEVICE

    def infer(self, *types: Any, lanes: int) -> VectorType:  # type: ignore[override]
        """A vector of the scalar's dtype."""
        return VectorType(types[0].dtype, lanes)


class Lanes(LoopOp):
    """The lane numbers 0, 1, 2, … as a vector."""

    name = "lanes"
    no_device = _NO_DEVICE
    typed = True

    def infer(self, *types: Any, type: Any) -> Any:
        """The given vector type."""
        return type


class ReduceLanes(LoopOp):
    """Combine a vector's lanes (``add mul max min and or``) pairwise, halves first: a fixed order."""

    name = "reduce_lanes"
    no_device = _NO_DEVICE

    def infer(self, *types: Any, combine: str) -> TensorType:
        """A scalar."""
        return TensorType(types[0].dtype)


class Shuffle(LoopOp):
    """Lanes picked from the concatenation of two vectors."""

    name = "shuffle"
    no_device = _NO_DEVICE

    def infer(self, *types: Any, mask: tuple[int, ...]) -> VectorType:  # type: ignore[override]
        """One lane for each entry of the mask."""
        if any(not 0 <= m < 2 * types[0].lanes for m in mask):
            raise ShapeError(f"shuffle: the mask {list(mask)} reaches outside of two {types[0]}")
        return VectorType(types[0].dtype, len(mask))


class Launch(LoopOp):
    """Run a kernel of the module on these buffers."""

    name = "launch"
    pure = False

    def infer(
        self, *types: Any, kernel: str, number: int = -1, group: int = -1
    ) -> tuple[Type, ...]:
        """No results; ``number`` is that of the kernel in the tensor-level program, if anybody wants to know.

        Launches of one ``group``, which follow one another, may run at once.
        """
        for type in types:
            _buffer(self.name, type)
        return ()


def _buffer(name: str, type: Type) -> BufferType:
    if not isinstance(type, BufferType):
        raise DTypeError(f"{name}: expected a buffer, got {type}")
    return type


def _indices(name: str, types: Sequence[Type], count: int) -> None:
    if len(types) != count or any(t != _INDEX for t in types):
        raise ShapeError(
            f"{name}: expected {count} index operands, got {', '.join(map(str, types))}"
        )
