"""The micro-kernel: a tile of sums in registers, rows of the left operand times vectors of the right.

One loop runs over depth. In each turn it loads some vectors of the right operand and, for each row, an element of the
left, which goes to every lane. All tiles have the same size, so that there is one such loop: where the extents are no
multiples, the last tile starts earlier and computes some results again. Where it is not known whether they are, a few
rows or columns that make up no tile have loops of their own.

What follows a sum is written once for each accumulator, in registers; or, if that would be much code or must not
happen twice, the tile goes to scratch, and a loop over its new elements follows (``staged``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.op import Index
from tapec.passes.packing import Panel
from tapec.passes.products import Form, each
from tapec.passes.tiling import must_stage


@dataclass(frozen=True)
class Columns:
    """The columns of a tile, from ``origin`` on; those before ``first`` are another tile's.

    ``neighbours`` is the origin as the index of a vectorised loop. Vectors start ``offsets`` after it.
    """

    neighbours: DimLike
    origin: DimLike
    first: DimLike
    offsets: tuple[int, ...]
    panel: Panel | None


class Outer(Form):
    """The form ``outer``."""

    def lower(self) -> None:
        """Write everything; a packed panel serves all of the batch if that shares the operand."""
        if self._packs_once:
            self.product()
        else:
            super().lower()

    @property
    def _packs_once(self) -> bool:
        return self.tiling.pack and self.problem.shared

    def product(self) -> None:
        """Panels of columns; in each, tiles of rows."""
        k, tiling, columns = self.k, self.tiling, self.columns
        lanes, width = tiling.lanes, tiling.width
        shared = tiling.parallel == "columns"
        full = tuple(range(0, width, lanes))
        if not isinstance(columns, int):
            middle = columns // width * width
            each(
                k, 0, middle, lambda j: self._panel(j, j, full, lanes), step=width, parallel=shared
            )
            each(k, middle, columns, lambda j: self._panel(j, j, (0,), columns - j), step=lanes)
        elif columns >= width:

            def panel(first: DimLike) -> None:
                self._panel(self.start(first, columns, width), first, full, lanes)

            each(k, 0, columns, panel, step=width, parallel=shared)
        else:
            last = max(columns - lanes, 0)
            offsets = tuple(min(offset, last) for offset in range(0, columns, lanes))
            self._panel(0, 0, offsets, min(columns, lanes))

    def _panel(
        self, origin: DimLike, first: DimLike, offsets: tuple[int, ...], count: DimLike
    ) -> None:
        """Columns that share their vectors: ``count`` lanes of each are columns."""
        lanes = self.tiling.lanes
        panel = None
        if self.tiling.pack:
            panel = Panel(self, offsets, count)
            panel.fill(origin)

        def at(neighbours: DimLike) -> None:
            columns = Columns(neighbours, origin, first, offsets, panel)
            if self._packs_once:
                self.over_batch(lambda: self._rows(columns))
            else:
                self._rows(columns)

        if lanes == 1:
            at(origin)
        else:
            self.k.neighbours(origin, count, lanes, at)

    def _rows(self, columns: Columns) -> None:
        rows, height = self.rows, self.tiling.rows
        shared = self.tiling.parallel == "rows"

        def tile(first: DimLike) -> None:
            self._tile(self.start(first, rows, height), first, height, columns)

        if isinstance(rows, int):
            each(self.k, 0, rows, tile, step=height, parallel=shared)
            return
        tiled = whole = self.k.whole(rows, height)
        if self.in_place or shared:
            # Nothing may be written twice, but the last tile overlaps: it goes through scratch.
            whole = rows // height * height
        each(self.k, 0, whole, tile, step=height, parallel=shared)

        def last(first: DimLike) -> None:
            origin = self.start(first, rows, height)
            self._tile(origin, first, height, columns, staged=True)

        if whole != tiled:
            each(self.k, whole, tiled, last, step=height)
        each(self.k, tiled, rows, lambda i: self._tile(i, i, 1, columns))

    def _tile(
        self,
        origin: DimLike,
        first: DimLike,
        height: int,
        columns: Columns,
        *,
        staged: bool = False,
    ) -> None:
        sums = self._sums(origin, height, columns)
        offsets = columns.offsets
        places = [(r, offset) for r in range(height) for offset in offsets]
        staged |= self.tiling.staged or must_stage(
            self.problem, self.tiling, in_place=self.in_place
        )
        if not staged:
            for (r, offset), value in zip(places, sums, strict=True):
                self.write(origin + r, columns.neighbours + offset, value)
            return
        kept = self.scratch((height, offsets[-1] + self.tiling.lanes))
        for (r, offset), value in zip(places, sums, strict=True):
            self.keep(value, kept, r, offset)
        self.write_kept(
            kept,
            (origin, columns.origin),
            (first, columns.first),
            (height, offsets[-1] + self.tiling.lanes),
            lanes=self.tiling.lanes,
        )

    def _sums(self, origin: DimLike, height: int, columns: Columns) -> Sequence[Value]:
        def step(depth: Index, carried: Sequence[Value]) -> Sequence[Value]:
            vectors = [self._vector(columns, offset, depth) for offset in columns.offsets]
            sums = []
            totals = iter(carried)
            for r in range(height):
                x = self.left(origin + r, depth)
                sums += [self.multiply_add(x, y, next(totals)) for y in vectors]
            return sums

        init = [self.zero(self.tiling.lanes)] * (height * len(columns.offsets))
        return self.over_depth(init, step, unroll=self.tiling.unroll)

    def _vector(self, columns: Columns, offset: int, depth: Index) -> Value:
        if columns.panel is not None:
            return columns.panel.load(depth, offset)
        return self.right(columns.neighbours + offset, depth)
