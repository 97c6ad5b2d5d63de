"""Loops for contractions: matrix products and convolutions.

`tapec.passes.contractions.tiling` chooses the form and its sizes: ``outer`` is `tapec.passes.contractions.microkernel`;
the two simple forms are here, `tapec.passes.contractions.blocked` is the first for what is deep,
`tapec.passes.contractions.winograd` multiplies less for small filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.loops.builder import LoopBuilder
from tapec.ir.op import OPS, Contraction, Index, Operand
from tapec.passes.contractions.blocked import Blocked, Streamed
from tapec.passes.contractions.microkernel import Outer
from tapec.passes.contractions.packing import sum_lanes
from tapec.passes.contractions.problem import describe, exchanged
from tapec.passes.contractions.products import Fetch, Form, Step, Write, each, over, vectors
from tapec.passes.contractions.sliding import find
from tapec.passes.contractions.tiling import Tiling, must_stage, streams
from tapec.passes.contractions.winograd import Filters, Windows
from tapec.passes.device.tile import Tile
from tapec.passes.device.warp_tile import HalfTile, WarpTile


def lower_contraction(
    k: LoopBuilder,
    contraction: Contraction,
    operands: Sequence[Operand],
    write: Write,
    tiling: Tiling,
    *,
    in_place: bool = False,
    fetch: Fetch | None = None,
) -> None:
    """Write the loops.

    Args:
        k: Where to write.
        contraction: The iteration space and operand maps.
        operands: The two operands.
        write: Emits what becomes of a result: the operations fused behind the sum, and the stores.
        tiling: The choice of `tapec.passes.contractions.tiling.choose`.
        in_place: ``write`` reads a buffer that it writes to, so it must see each index once.
        fetch: Emits prefetches of what ``write`` needs.
    """
    if tiling.turn >= 0:
        contraction, swap = exchanged(contraction, tiling.turn)
        write, fetch = _elsewhere(write, swap), fetch and _elsewhere(fetch, swap)
    kind = _kind(contraction, operands, tiling)
    form = kind(k, contraction, operands, write, tiling, in_place=in_place)
    if fetch is not None:
        form.fetch = fetch
    form.lower()


def _elsewhere(write: Callable[..., None], swap: Callable[[Index], Index]) -> Callable[..., None]:
    """What takes an index first, given another."""
    return lambda index, *rest: write(swap(index), *rest)


def _kind(contraction: Contraction, operands: Sequence[Operand], tiling: Tiling) -> type[Form]:
    """Who writes the loops of a tiling."""
    types = [operand.type for operand in operands]
    if tiling.part:
        found = find(contraction, *types)
        return Filters if found is not None and found.gradient else Windows
    if tiling.block:
        return Streamed if streams(describe(contraction, *types)) else Blocked
    return _FORMS[tiling.form]


#: Columns whose sums are made together: more would be more streams through memory than a processor follows.
_TOGETHER = 4


class Plain(Form):
    """One result after the other, or one vector of results: any dtype, any operand maps."""

    def product(self) -> None:
        """Rows, columns, depth."""

        def one_row(row: DimLike) -> None:
            vectors(self.k, 0, self.columns, self.tiling.lanes, lambda n: self._sum(row, n))

        each(self.k, 0, self.rows, one_row, parallel=self.tiling.parallel == "rows")

    def _sum(self, row: DimLike, column: DimLike) -> None:
        def step(depth: Index, carried: Sequence[Value]) -> Sequence[Value]:
            x, y = self.left(row, depth, column), self.right(column, depth, row)
            return (self.multiply_add(x, y, carried[0]),)

        lanes = self.k.active_lanes
        (total,) = self.over_depth((self.zero(lanes.count if lanes else 1),), step)
        self.write(row, column, total)

    def over_depth(self, init: Sequence[Value], step: Step, *, unroll: int = 1) -> list[Value]:
        """Carry values over all summed axes; sums that may have a single term enter no loop for that."""
        extent, *others = self.problem.depth
        is_open = not isinstance(extent, int) and not others
        # No tile shares what the loops cost, so a training step with one row would start one for each weight.
        if self.k.compact and is_open and self.k.at_least(extent, 1):
            first = step((0,), init)
            return list(self.k.repeat(1, extent, lambda d, inner: step((d,), inner), first))
        return super().over_depth(init, step, unroll=unroll)


class Dot(Form):
    """Products of vectors along depth, as many as a vector has lanes; in the end the lanes of each are summed.

    Both operands are contiguous along depth. For few rows this beats transposing the right operand. ``rows`` times
    as many columns as make up the lanes are one tile.
    """

    _copied: Value | None = None

    def product(self) -> None:
        """Columns, some at a time, then rows."""
        if self.tiling.pack:
            self._copy()
        width, shared = self.tiling.width, self.tiling.parallel == "columns"
        if isinstance(self.columns, int):
            self._columns(0, self.columns, min(width, self.columns), parallel=shared)
            return
        tiled = self.k.whole(self.columns, width)
        self._columns(0, tiled, width, parallel=shared)
        self._columns(tiled, self.columns, 1)

    def _copy(self) -> None:
        """Copy the right operand, so that its columns run along depth."""
        extents = self.columns, *self.problem.depth
        buffer = self._copied = self.scratch(extents)

        def one(place: Index) -> None:
            self.k.store(self.right(place[0], place[1:]), buffer, place)

        over(self.k, extents, one)

    def _column(self, column: DimLike, depth: Index) -> Value:
        """An element of the right operand, or of its copy."""
        if self._copied is None:
            return self.right(column, depth)
        return self.k.load(self._copied, (column, *depth))

    def _columns(self, low: DimLike, high: DimLike, count: int, *, parallel: bool = False) -> None:
        """Columns, ``count`` at a time."""
        height, shared = self.tiling.rows, self.tiling.parallel

        def columns(first: DimLike) -> None:
            column = self.start(first, self.columns, count)

            def rows(first_row: DimLike) -> None:
                row = self.start(first_row, self.rows, height)
                self._write_tile((row, column), (first_row, first), count)

            each(self.k, 0, self.rows, rows, step=height, parallel=shared == "rows")

        each(self.k, low, high, columns, step=count, parallel=parallel)

    def _write_tile(
        self, origin: tuple[DimLike, DimLike], first: tuple[DimLike, DimLike], count: int
    ) -> None:
        """Hand the tile's sums on, without those before ``first`` where that matters."""
        height, width = self.tiling.rows, self.tiling.width
        total = sum_lanes(self.k, self._sums(origin, count))
        parts = [total]
        if height > 1:
            masks = [tuple(range(r * width, (r + 1) * width)) for r in range(height)]
            parts = [self.k.pure(OPS["shuffle"], total, total, mask=mask) for mask in masks]
        partial = count < width and not self.k.masked
        if partial or (self.in_place and must_stage(self.problem, self.tiling)):
            # The second half is never written; masked loads of what is left reach into it.
            kept = self.scratch((height, 2 * width))
            for r, part in enumerate(parts):
                self.keep(part, kept, r, 0)
            self.write_kept(kept, origin, first, (height, width), lanes=width)
            return

        def write_all(column: DimLike) -> None:
            for r, part in enumerate(parts):
                self.write(origin[0] + r, column, part)

        self.k.neighbours(origin[1], count, width, write_all)

    def _sums(self, origin: tuple[DimLike, DimLike], count: int) -> list[Value]:
        """The products' sums by row and column, each spread over lanes; zeros where there are no columns."""
        height, width = self.tiling.rows, self.tiling.width
        found: dict[tuple[int, int], Value] = {}
        for first in range(0, count, _TOGETHER):
            some = range(first, min(first + _TOGETHER, count))
            cells = [(r, c) for r in range(height) for c in some]
            found.update(zip(cells, self._sums_of(origin, cells), strict=True))
        places = [(r, c) for r in range(height) for c in range(width)]
        return [found.get(place, self.zero(self.tiling.lanes)) for place in places]

    def _sums_of(
        self, origin: tuple[DimLike, DimLike], cells: Sequence[tuple[int, int]]
    ) -> list[Value]:
        """The sums of some cells, in one loop."""
        deepest, lanes = self.problem.depth[-1], self.tiling.lanes
        size = len(cells)
        # A processor works on about eight sums at a time: few cells take several each.
        turns = deepest // lanes
        chains = max(1, min(8 // size, turns) if isinstance(turns, int) else 8 // size)

        def step(at: Index, carried: Sequence[Value]) -> list[Value]:
            sums = []
            for n, total in enumerate(carried):
                chain, cell = divmod(n, size)
                row, column = cells[cell]
                place = (*at[:-1], at[-1] + chain * lanes)
                x, y = self.left(origin[0] + row, place), self._column(origin[1] + column, place)
                sums.append(self.multiply_add(x, y, total))
            return sums

        def last(outer: Index, carried: Sequence[Value]) -> list[Value]:
            sums = list(carried)

            def part(low: DimLike, high: DimLike, chains: int) -> None:
                some = slice(chains * size)
                sums[some] = self.k.repeat(
                    low,
                    high,
                    lambda d, inner: step((*outer, d), inner),
                    sums[some],
                    step=chains * lanes,
                    lanes=lanes,
                    rest=high == deepest,
                )

            whole = deepest // lanes * lanes
            grouped = deepest // (chains * lanes) * chains * lanes
            part(0, grouped, chains)
            part(grouped, whole, 1)
            part(whole, deepest, 1)
            return sums

        sums = self.over_outer_depth([self.zero(lanes)] * (chains * size), last)
        for n in range(size, len(sums)):
            sums[n % size] = self.k.add(sums[n % size], sums[n])
        return sums[:size]


_FORMS = {
    "plain": Plain,
    "dot": Dot,
    "outer": Outer,
    "tile": Tile,
    "warps": WarpTile,
    "halves": HalfTile,
}
