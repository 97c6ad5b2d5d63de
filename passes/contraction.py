"""Loops for contractions: matrix products and convolutions.

`tapec.passes.tiling` chooses the form and its sizes: ``outer`` is `tapec.passes.microkernel`; the two simple forms are
here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.loop_builder import LoopBuilder
from tapec.ir.op import Contraction, Index, Operand
from tapec.passes.microkernel import Outer
from tapec.passes.packing import sum_lanes
from tapec.passes.products import Form, Write, each, vectors
from tapec.passes.tiling import Tiling, must_stage


def lower_contraction(
    k: LoopBuilder,
    contraction: Contraction,
    operands: Sequence[Operand],
    write: Write,
    tiling: Tiling,
    *,
    in_place: bool = False,
) -> None:
    """Write the loops.

    Args:
        k: Where to write.
        contraction: The iteration space and operand maps.
        operands: The two operands.
        write: Emits what becomes of a result: the operations fused behind the sum, and the stores.
        tiling: The choice of `tapec.passes.tiling.choose`.
        in_place: ``write`` reads a buffer that it writes to, so it must see each index once.
    """
    form = _FORMS[tiling.form]
    form(k, contraction, operands, write, tiling, in_place=in_place).lower()


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


class Dot(Form):
    """Products of vectors along depth, for as many columns as lanes; in the end the lanes are summed.

    Both operands are contiguous along depth. For few rows this beats transposing the right operand.
    """

    def product(self) -> None:
        """Columns, some at a time, then rows."""
        assert isinstance(self.columns, int)
        lanes, count = self.tiling.lanes, min(self.tiling.lanes, self.columns)
        shared = self.tiling.parallel

        def columns(first: DimLike) -> None:
            origin = self.start(first, self.columns, count)

            def one_row(row: DimLike) -> None:
                sums = self._sums(row, origin, count)
                sums += [self.zero(lanes)] * (lanes - count)
                self._write_vector(sum_lanes(self.k, sums), row, first, origin, count)

            each(self.k, 0, self.rows, one_row, parallel=shared == "rows")

        each(self.k, 0, self.columns, columns, step=count, parallel=shared == "columns")

    def _write_vector(
        self, value: Value, row: DimLike, first: DimLike, origin: DimLike, count: int
    ) -> None:
        """Hand ``count`` neighbours on, without those before ``first`` where that matters."""
        lanes = self.tiling.lanes
        partial = count < lanes and not self.k.masked
        if partial or must_stage(self.problem, self.tiling, in_place=self.in_place):
            # The second half is never written; masked loads of what is left reach into it.
            kept = self.scratch((1, 2 * lanes))
            self.keep(value, kept, 0, 0)
            self.write_kept(kept, (row, origin), (row, first), (1, lanes))
        else:
            self.k.neighbours(origin, count, lanes, lambda n: self.write(row, n, value))

    def _sums(self, row: DimLike, origin: DimLike, count: int) -> list[Value]:
        """For each column the sum of products, spread over lanes."""
        deepest = self.problem.depth[-1]
        assert isinstance(deepest, int)
        lanes = self.tiling.lanes
        # A processor works on about eight sums at a time: few columns take several each.
        chains = max(1, min(8 // count, deepest // lanes))

        def step(at: Index, carried: Sequence[Value]) -> list[Value]:
            sums = []
            for n, total in enumerate(carried):
                chain, column = divmod(n, count)
                place = (*at[:-1], at[-1] + chain * lanes)
                x, y = self.left(row, place), self.right(origin + column, place)
                sums.append(self.multiply_add(x, y, total))
            return sums

        def last(outer: Index, carried: Sequence[Value]) -> list[Value]:
            sums = list(carried)

            def part(low: int, high: int, chains: int) -> None:
                some = slice(chains * count)
                sums[some] = self.k.repeat(
                    low,
                    high,
                    lambda d, inner: step((*outer, d), inner),
                    sums[some],
                    step=chains * lanes,
                    lanes=lanes,
                )

            whole = deepest // lanes * lanes
            grouped = deepest // (chains * lanes) * chains * lanes
            part(0, grouped, chains)
            part(grouped, whole, 1)
            part(whole, deepest, 1)
            return sums

        sums = self.over_outer_depth([self.zero(lanes)] * (chains * count), last)
        for n in range(count, len(sums)):
            sums[n % count] = self.k.add(sums[n % count], sums[n])
        return sums[:count]


_FORMS = {"plain": Plain, "dot": Dot, "outer": Outer}
