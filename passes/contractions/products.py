"""What the forms of loops for contractions share: operands by row, column and depth, loops, the way results leave.

A contraction is a product of matrices for each element of a batch: the result's last two axes are rows and columns (or
columns and rows, if the tiling is ``swapped``), the summed axes are the depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.loops.builder import LoopBuilder
from tapec.ir.op import OPS, Contraction, Index, Operand
from tapec.ir.types import F32, BufferType, Shape
from tapec.passes.contractions.problem import describe
from tapec.passes.contractions.tiling import Tiling

#: Takes the index of a result and its value: a scalar, or a vector of neighbours along the active vectorised loop.
Write = Callable[[Index, Value], None]
#: Takes the index of a result; prefetches what writing it needs.
Fetch = Callable[[Index], None]
#: Takes an index of summed axes and carried values; returns the next.
Step = Callable[[Index, Sequence[Value]], Sequence[Value]]


#: Bytes of a vector from which on a store of some of its lanes costs no more than one of all: processors with shorter
#: ones take up to a dozen cycles.
_MASKED = 64


class Form:
    """One contraction in one kernel; subclasses write its loops in `product`."""

    def __init__(
        self,
        k: LoopBuilder,
        contraction: Contraction,
        operands: Sequence[Operand],
        write: Write,
        tiling: Tiling,
        *,
        in_place: bool,
    ) -> None:
        """See `tapec.passes.contractions.contraction.lower_contraction`."""
        self.k = k
        self.tiling = tiling
        self.in_place = in_place
        self._emit = write
        roles = list(zip(operands, contraction.maps, strict=True))
        if tiling.swapped:
            roles.reverse()
        (self._left, self._left_map), (self._right, self._right_map) = roles
        left, right = (operand.type for operand in operands)
        self.problem = describe(contraction, left, right, swapped=tiling.swapped)
        self.rows, self.columns = self.problem.rows, self.problem.columns
        #: The summed axes, or the part of them that loops run over.
        self.depth = self.problem.depth
        self.dtype = operands[0].type.dtype
        small = self.dtype.kind == "float" and self.dtype.bits < 32
        #: Sums of 16-bit floats are kept in 32 bits.
        self.sum_dtype = F32 if small else self.dtype
        self._result_dtype = self.sum_dtype if contraction.wide else self.dtype
        #: Prefetches what writing a result needs.
        self.fetch: Fetch = lambda index: None
        self._batch: Index = (0,) * len(self.problem.batch)

    def lower(self) -> None:
        """Write everything."""
        self.over_batch(self.product)

    def over_batch(self, body: Callable[[], None]) -> None:
        """Run the body for every element of the batch."""
        outside = self._batch

        def one(batch: Index) -> None:
            self._batch = batch
            body()
            self._batch = outside

        over(self.k, self.problem.batch, one, parallel=self.tiling.parallel == "batch")

    def product(self) -> None:
        """Write the loops for one element of the batch."""
        raise NotImplementedError

    # ---- elements

    def index(self, row: DimLike, column: DimLike, depth: Index = ()) -> Index:
        """A place in the iteration space."""
        pair = (column, row) if self.tiling.swapped else (row, column)
        return (*self._batch, *pair, *depth)

    def flat(self, depth: Index, start: DimLike = 0) -> DimLike:
        """The number of a depth among those of all summed axes, counted on from ``start`` times as many."""
        for d, extent in zip(depth, self.depth, strict=True):
            start = start * extent + d
        return start

    def left(self, row: DimLike, depth: Index, column: DimLike = 0, *, lanes: int = 1) -> Value:
        """An element of the left operand; columns share it if the problem is separable.

        One that is to be spread over ``lanes`` may be so already: that is less work than to widen one alone.
        """
        value = self._left[self._left_map(self.index(row, column, depth))]
        if lanes > 1 and self.sum_dtype != self.dtype:
            value = self.k.pure(OPS["splat"], value, lanes=lanes)
        return self._widened(value)

    def right(self, column: DimLike, depth: Index, row: DimLike = 0) -> Value:
        """An element of the right operand; rows share it if the problem is separable."""
        return self._widened(self._right[self._right_map(self.index(row, column, depth))])

    def fetch_right(self, column: DimLike, depth: Index, row: DimLike = 0) -> None:
        """Prefetch an element of the right operand, and what is beside it."""
        self._right.prefetch(self._right_map(self.index(row, column, depth)))

    def fetch_left(self, row: DimLike, depth: Index, column: DimLike = 0) -> None:
        """Prefetch an element of the left operand, and what is beside it."""
        self._left.prefetch(self._left_map(self.index(row, column, depth)))

    def _widened(self, value: Value) -> Value:
        return self.k.cast(value, dtype=self.sum_dtype) if self.sum_dtype != self.dtype else value

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        """``x * y + total``, rounded once where the dtype has that."""
        if self.sum_dtype.kind == "float":
            return self.k.fma(x, y, total)
        return self.k.add(self.k.mul(x, y), total)

    def zero(self, lanes: int = 1) -> Value:
        """Where a sum starts."""
        number = self.k.constant(0, self.sum_dtype)
        return self.k.pure(OPS["splat"], number, lanes=lanes) if lanes > 1 else number

    def write(self, row: DimLike, column: DimLike, value: Value) -> None:
        """Hand a sum on."""
        if self.sum_dtype != self._result_dtype:
            value = self.k.cast(value, dtype=self._result_dtype)
        self._emit(self.index(row, column), value)

    # ---- loops

    def over_depth(self, init: Sequence[Value], step: Step, *, unroll: int = 1) -> list[Value]:
        """Carry values over all summed axes."""

        def last(outer: Index, carried: Sequence[Value]) -> Sequence[Value]:
            return self.k.repeat(
                0,
                self.depth[-1],
                lambda d, inner: step((*outer, d), inner),
                carried,
                unroll=unroll,
            )

        return self.over_outer_depth(init, last)

    def over_outer_depth(self, init: Sequence[Value], step: Step) -> list[Value]:
        """Carry values over the summed axes but the last."""
        extents = self.depth[:-1]

        def axis(outer: Index, carried: Sequence[Value]) -> Sequence[Value]:
            if len(outer) == len(extents):
                return step(outer, carried)
            return self.k.repeat(
                0, extents[len(outer)], lambda d, inner: axis((*outer, d), inner), carried
            )

        return list(axis((), init))

    def start(self, at: DimLike, extent: DimLike, size: int) -> DimLike:
        """Where a tile of ``size`` starts so that it ends inside: the last one overlaps its neighbour."""
        return self.k.clamp(at, 0, extent - size) if extent % size else at

    # ---- results through scratch

    def scratch(self, shape: Shape) -> Value:
        """Memory for sums."""
        return self.k.alloc(BufferType(self.sum_dtype, shape))

    def keep(self, value: Value, buffer: Value, row: int, column: int) -> None:
        """Store a sum, or a vector of them, at a fixed place in scratch."""
        place = self.k.index(row), self.k.index(column)
        self.k.effect(OPS["store"], value, buffer, *place)

    def write_kept(
        self,
        buffer: Value,
        origin: tuple[DimLike, DimLike],
        first: tuple[DimLike, DimLike],
        size: tuple[int, int],
        *,
        lanes: int,
    ) -> None:
        """Hand on a tile of ``size`` that is in scratch, from ``first`` on, without what is outside of the result.

        Args:
            buffer: Scratch with the tile.
            origin: Row and column of the tile's first element.
            first: Row and column of the first element that no other tile hands on.
            size: Rows and columns of a tile that is not cut off.
            lanes: Columns that are handed on together.
        """
        row_end = self._end(first[0], size[0], self.rows)
        column_end = self._end(first[1], size[1], self.columns)
        exact = self.columns % lanes == 0
        whole = lanes * self.sum_dtype.bytes < _MASKED

        def one_row(row: DimLike) -> None:
            def some_columns(column: DimLike) -> None:
                value = self.k.load(buffer, (row - origin[0], column - origin[1]))
                self.write(row, column, value)

            vectors(self.k, first[1], column_end, lanes, some_columns, exact=exact, whole=whole)

        each(self.k, first[0], row_end, one_row)

    def _end(self, first: DimLike, size: int, extent: DimLike) -> DimLike:
        if extent % size == 0:
            return first + size
        if isinstance(first, int) and isinstance(extent, int):
            return min(first + size, extent)
        return self.k.clamp(first + size, 0, extent)


def over(
    k: LoopBuilder, extents: Shape, body: Callable[[Index], None], *, parallel: bool = False
) -> None:
    """Run a body for every index; the first loop that has more than one turn may be ``parallel``."""

    def axis(index: Index) -> None:
        n = len(index)
        if n == len(extents):
            body(index)
            return
        shared = parallel and extents[n] != 1 and all(extent == 1 for extent in extents[:n])
        each(k, 0, extents[n], lambda i: axis((*index, i)), parallel=shared)

    axis(())


def each(
    k: LoopBuilder,
    low: DimLike,
    high: DimLike,
    body: Callable[[DimLike], None],
    *,
    step: int = 1,
    parallel: bool = False,
) -> None:
    """A loop that carries nothing."""

    def run(i: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
        body(i)
        return ()

    k.repeat(low, high, run, step=step, parallel=parallel)


def vectors(
    k: LoopBuilder,
    low: DimLike,
    high: DimLike,
    lanes: int,
    body: Callable[[DimLike], None],
    *,
    exact: bool = False,
    whole: bool = False,
) -> None:
    """A vectorised loop.

    ``exact`` says that the distance is known to be a multiple of ``lanes``. ``whole``: where the distance is known only
    at run time, vectors that are whole have a loop of their own, too.
    """
    if lanes == 1:
        each(k, low, high, body)
        return
    distance = high - low
    if exact or whole or not k.masked or isinstance(distance, int):
        middle = high if exact else low + distance // lanes * lanes
        each(k, low, middle, lambda i: k.neighbours(i, lanes, lanes, body), step=lanes)
        if exact:
            return
        low = middle
    if k.masked:
        each(k, low, high, lambda i: k.neighbours(i, high - i, lanes, body), step=lanes)
    else:
        each(k, low, high, body)
