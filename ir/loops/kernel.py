"""What a lowering rule sees: operands by element, and a kernel to write loops into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tapec.ir.dims import DimLike
from tapec.ir.types import BufferType, DType, Shape, TensorType

if TYPE_CHECKING:
    from tapec.ir.core import Value
    from tapec.ir.op import Op

Index = tuple[DimLike, ...]


class Operand(Protocol):
    """An operand during lowering: indexing loads an element, or computes it where the producer was fused."""

    @property
    def type(self) -> TensorType:
        """The tensor's type."""

    def __getitem__(self, index: Index) -> Value:
        """The element at an index, as a scalar or a vector of neighbours."""

    def prefetch(self, index: Index) -> None:
        """Prefetch the memory around an element; nothing, if the element is computed. The index may lie outside."""


class StoredOperand(Operand, Protocol):
    """An operand of an operation of form ``nest``, which can be had as a whole."""

    @property
    def memory(self) -> Value:
        """The buffer that holds it."""


class Kernel(Protocol):
    """What a lowering rule may use to write loop-level code (implemented by `tapec.ir.loops.builder.LoopBuilder`).

    Every elementwise operation is a method (``k.mul(x, y)``); scalars widen to vectors where the other operand is one.
    """

    def constant(self, value: Any, dtype: DType) -> Value:
        """A literal."""

    def full_like(self, value: Any, like: Value) -> Value:
        """A literal of the dtype of an element."""

    def apply(self, op: Op, *values: Value, **attrs: Any) -> Value:
        """An elementwise operation on scalars or vectors."""

    def number(self, index: DimLike, dtype: DType) -> Value:
        """An index as a number of a dtype (`iota` is this)."""

    def groups(self, index: DimLike, size: int) -> Value | None:
        """``index // size`` for each group of ``size`` neighbours, where these are lanes; None where they are not."""

    def interleaved(self, *vectors: Value) -> Value:
        """The first lane of each, then the second of each, and so on, of 1, 2 or 4."""

    def position(self, value: Value, extent: DimLike) -> DimLike:
        """A loaded integer as an index in ``[0, extent)``."""

    def inside(self, index: DimLike, low: DimLike, high: DimLike) -> Value:
        """Whether ``low <= index < high``, as a bool."""

    def clamp(self, index: DimLike, low: DimLike, high: DimLike) -> DimLike:
        """The index moved into ``[low, high]``."""

    def reduce(
        self, combine: str, extents: Shape, dtype: DType, body: Callable[[Index], Value]
    ) -> Value:
        """Combine (``add mul max min and or``) the body's values over all indices; order is unspecified but fixed."""

    def fold(
        self,
        extents: Shape,
        init: Sequence[Value],
        body: Callable[[Index, Sequence[Value]], Sequence[Value]],
    ) -> tuple[Value, ...]:
        """Run the body for every index in order, carrying values along."""

    def loop(self, extents: Shape, body: Callable[[Index], None]) -> None:
        """Run the body for every index, row-major."""

    def along(
        self, extent: DimLike, body: Callable[[DimLike], None], *, vector: bool = False
    ) -> None:
        """Run the body for every index below ``extent``; ``vector``: for several at a time.

        Then the body's stores go to neighbours, and no turn reads what another writes.
        """

    def table(self, array: Any, dtype: DType) -> Value:
        """Memory that holds these numbers."""

    def view(self, buffer: Value, type: BufferType, row: DimLike) -> Value:
        """Part number ``row`` of a buffer that is made of parts of this type."""

    def effect(self, defn: Op, *operands: Value, **attrs: Any) -> tuple[Value, ...]:
        """The results of an operation of the loop level that must stay where it is."""

    def store(self, value: Value, buffer: Value, index: Index) -> None:
        """Write an element of a buffer."""

    def load(self, buffer: Value, index: Index) -> Value:
        """Read an element of a buffer."""

    def __getattr__(self, name: str) -> Callable[..., Value]:
        """``k.mul``: the elementwise operation of that name."""
