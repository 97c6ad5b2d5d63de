"""Deep products in blocks of depth: for sums over so much that no cache holds what one tile reads.

Each tile of sums reads all depths of some rows and columns. Where these are more than a cache holds, every tile gets
them from further away again. So the outermost summed axis is cut into blocks, whose part of both operands stays in the
second cache; all tiles run over one block before the next. Between blocks their sums wait in scratch, and when all is
added up, what follows is written once for each element. A row times a matrix reads no element twice: its blocks are a
few depths, so that memory is read along rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from tapec.ir.dims import DimLike
from tapec.ir.op import Index
from tapec.ir.types import BufferType
from tapec.passes.contractions.microkernel import Columns, Outer
from tapec.passes.contractions.products import each, over, vectors

#: Groups of blocks that have sums of their own, at most.
_MOST_GROUPS = 8
#: Strips of columns that threads share, and bytes of one in each row, at least.
_STRIPS, _LEAST_STRIP = 2, 4096


def _whole(extent: DimLike, size: int) -> int:
    assert isinstance(extent, int)
    return -(-extent // size) * size


class Blocked(Outer):
    """The form ``outer`` where the tiling has a ``block``.

    Tiles that overlap have sums of their own, of which those that another tile has, too, are left.
    """

    _low: DimLike = 0

    def lower(self) -> None:
        """Zeros, then the products block by block, then what follows.

        Where threads share the depth, groups of blocks have sums of their own. How many there are depends on the shape
        alone, and so does the order in which these are added up.
        """
        k, batch, lanes = self.k, self.problem.batch, self.tiling.lanes
        deep, apart = self.depth[0], self.tiling.parallel == "depth"
        assert isinstance(deep, int)
        self.depth = (self.tiling.block, *self.depth[1:])
        rows, columns = _whole(self.rows, self.tiling.rows), _whole(self.columns, self.tiling.width)
        shape = prod(map(int, batch)), rows, columns  # type: ignore[arg-type]
        groups = self._groups(deep // self.tiling.block) if apart else 1
        kept = self.scratch((groups, *shape))
        shared = self.tiling.parallel != "" and not apart

        def group(number: DimLike) -> None:
            self._kept = k.view(kept, BufferType(self.sum_dtype, shape), number)

            def zeros(at: Index) -> None:
                def some(column: DimLike) -> None:
                    k.store(self.zero(), self._kept, (*at, column))

                vectors(k, 0, columns, lanes, some, exact=True)

            over(k, shape[:2], zeros, parallel=shared)
            some, first = deep // groups, number * (deep // groups)

            def block(low: DimLike) -> None:
                self._low = first + low
                self.over_batch(self.product)

            each(k, 0, some, block, step=self.tiling.block)

        def follow(row: DimLike, column: DimLike, at: Index) -> None:
            total = k.load(kept, (0, *at))
            for number in range(1, groups):
                total = k.add(total, k.load(kept, (number, *at)))
            self.write(row, column, total)

        each(k, 0, groups, group, parallel=apart)
        self._over_result(follow, parallel=shared)

    def index(self, row: DimLike, column: DimLike, depth: Index = ()) -> Index:
        """A place in the iteration space, whose depth is counted from where the block begins."""
        if depth:
            depth = (self._low + depth[0], *depth[1:])
        return super().index(row, column, depth)

    @property
    def _packs_once(self) -> bool:
        return False

    def _groups(self, blocks: int) -> int:
        """How many groups so many blocks make up."""
        return max(n for n in range(1, _MOST_GROUPS + 1) if blocks % n == 0)

    def _over_result(
        self, body: Callable[[DimLike, DimLike, Index], None], *, parallel: bool
    ) -> None:
        """Run a body for every vector of results, given its row, its columns, and its place in scratch."""
        rows, columns, lanes = self.rows, self.columns, self.tiling.lanes
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        height, width = self.tiling.rows, self.tiling.width
        below, beside = -rows % height, -columns % width
        last = columns - columns % width

        def row(index: Index) -> None:
            *self_batch, at = index
            self._batch = tuple(self_batch)
            # The last tile begins earlier, so its rows lie so many further on in scratch.
            on = self.k.clamp((at - (rows - rows % height) + 1) * below, 0, below) if below else 0
            for low, high, further in ((0, last, 0), (last, columns, beside)):

                def some(column: DimLike, further: int = further) -> None:
                    body(at, column, (self._number, at + on, column + further))

                vectors(self.k, low, high, lanes, some, exact=not further, whole=True)

        over(self.k, (*self.problem.batch, rows), row, parallel=parallel)
        self._batch = (0,) * len(self.problem.batch)

    @property
    def _number(self) -> DimLike:
        """Which of the batch the loops are at."""
        number: DimLike = 0
        for index, extent in zip(self._batch, self.problem.batch, strict=True):
            number = number * extent + index
        return number

    def _place(self, row: DimLike, column: DimLike) -> Index:
        """Where a tile's sum waits."""
        return self._number, row, column

    def _tile(
        self,
        origin: DimLike,
        first: DimLike,
        height: int,
        columns: Columns,
        *,
        staged: bool = False,
    ) -> None:
        places = [
            self._place(first + r, columns.neighbours + (columns.first - columns.origin) + offset)
            for r in range(height)
            for offset in columns.offsets
        ]
        kept = [self.k.load(self._kept, at) for at in places]
        sums = self._sums(kept, origin, first, height, columns)
        for at, value in zip(places, sums, strict=True):
            self.k.store(value, self._kept, at)


class Streamed(Blocked):
    """Few rows, one tile for all: the right operand is read once, so in the order of memory, some depths at a time.

    Threads share strips of columns, whose sums wait in the first cache.
    """

    def lower(self) -> None:
        """Write everything."""
        self.depth = (self.tiling.block, *self.depth[1:])
        self.over_batch(self.product)

    def product(self) -> None:
        """Strips of columns."""
        assert isinstance(self.columns, int)
        most = max(self.columns // _STRIPS, _LEAST_STRIP // self.dtype.bytes)
        width = self.tiling.width
        strips = (n for n in range(width, self.columns + 1, width) if self.columns % n == 0)
        size = max((n for n in strips if n <= most), default=width)
        shared = self.tiling.parallel == "columns"
        each(self.k, 0, self.columns, lambda n: self._strip(n, size), step=size, parallel=shared)

    def _strip(self, first: DimLike, size: int) -> None:
        k, width, lanes = self.k, self.tiling.width, self.tiling.lanes
        assert isinstance(self.rows, int)
        self._first = first
        self._kept = self.scratch((self.rows, size))
        over_strip = partial(self._over_strip, first, size)
        over_strip(lambda row, column: k.store(self.zero(), self._kept, self._place(row, column)))
        offsets = tuple(range(0, width, lanes))

        def block(low: DimLike) -> None:
            self._low = low
            each(k, first, first + size, lambda j: self._panel(j, j, offsets, lanes), step=width)

        each(k, 0, self.problem.depth[0], block, step=self.tiling.block)

        def follow(row: DimLike, column: DimLike) -> None:
            self.write(row, column, k.load(self._kept, self._place(row, column)))

        over_strip(follow)

    def _over_strip(
        self, first: DimLike, size: int, body: Callable[[DimLike, DimLike], None]
    ) -> None:
        """Run a body for every vector of a strip's sums."""
        k, lanes = self.k, self.tiling.lanes

        def row(n: DimLike) -> None:
            vectors(k, first, first + size, lanes, lambda column: body(n, column), exact=True)

        each(k, 0, self.rows, row)

    def _place(self, row: DimLike, column: DimLike) -> Index:
        return row, column - self._first
