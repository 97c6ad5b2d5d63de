"""The micro-kernel: a tile of sums in registers, rows of the left operand times vectors of the right.

One loop runs over depth. In each turn it loads some vectors of the right operand and, for each row, an element of the
left, which goes to every lane. All tiles have the same size, so that there is one such loop: where the extents are no
multiples, the last tile starts earlier and computes some results again. Where it is not known whether they are, a few
rows or columns that make up no tile have loops of their own.

What follows a sum is written once for each accumulator, in registers; or, if that would be much code or must not
happen twice, the tile goes to scratch, and a loop over its new elements follows (``staged``).

A processor that waits for memory does not multiply. So what the first tiles of the next columns will read, what comes
after the tile's sums, and the left operand before it is due, is prefetched between the turns of depth, if it is too
much to be in a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.op import Index
from tapec.passes.contractions.copies import room_for, strip_rows
from tapec.passes.contractions.packing import Panel, Strips
from tapec.passes.contractions.products import Form, Step, each
from tapec.passes.contractions.tiling import must_stage

#: Rows of a second, smaller tile, where it is not known how many there are.
_FEW = 2
#: Vectors of a tile of one row.
_WIDE = 8


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

    #: Rows that are copied, if the tiling says so; and which rows' tiles are computed, if not those of all.
    _strips: Strips | None = None
    _some_rows: tuple[DimLike, DimLike] | None = None

    def lower(self) -> None:
        """Write everything; a packed panel serves all of the batch if that shares the operand."""
        if self._packs_once:
            self.product()
        else:
            super().lower()

    @property
    def _packs_once(self) -> bool:
        return self.tiling.pack and self.problem.shared and not self.tiling.across

    def product(self) -> None:
        """Panels of columns; in each, tiles of rows."""
        rows, height = self.rows, self.tiling.rows
        if not self.tiling.strips or self.tiling.across:
            self._product()
            return
        assert isinstance(rows, int)
        bytes, width = self.sum_dtype.bytes, self.tiling.width
        together = strip_rows(room_for(self.depth, width, bytes) * bytes, height)
        self._strips = strips = Strips(self, min(together, rows), width)
        shared = self.tiling.parallel in ("columns", "rows")

        def some(first: DimLike) -> None:
            self._some_rows = first, self._end(first, together, rows)
            strips.fill(first, parallel=shared)
            self._product()

        each(self.k, 0, rows, some, step=together)

    def _product(self) -> None:
        """Panels of columns, for the rows whose left operand is there."""
        k, tiling, columns = self.k, self.tiling, self.columns
        lanes, width = tiling.lanes, tiling.width
        shared = tiling.parallel == "columns"
        full = tuple(range(0, width, lanes))
        if tiling.across:
            self._across(full)
            return
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
            if not isinstance(self.rows, int) and self._goes_alone:
                self._last_row()
        else:
            last = max(columns - lanes, 0)
            offsets = tuple(min(offset, last) for offset in range(0, columns, lanes))
            self._panel(0, 0, offsets, min(columns, lanes))

    def _across(self, offsets: tuple[int, ...]) -> None:
        """Rows of tiles."""
        k, tiling, rows, columns = self.k, self.tiling, self.rows, self.columns
        assert isinstance(columns, int)
        whole = -(-columns // tiling.width) * tiling.width
        panels = self._all_panels(offsets) if tiling.pack else None

        def row(first_row: DimLike) -> None:
            top = self.start(first_row, rows, tiling.rows)
            if tiling.strips:
                self._strips = Strips(self, tiling.rows, whole)
                self._strips.fill(first_row)

            def tile(first: DimLike) -> None:
                origin = self.start(first, columns, tiling.width)

                if panels is not None:
                    panels.number = first // tiling.width

                def at(neighbours: DimLike) -> None:
                    place = Columns(neighbours, origin, first, offsets, panels)
                    self._tile(top, first_row, tiling.rows, place)

                self._neighbours(origin, tiling.lanes, at)

            each(k, 0, columns, tile, step=tiling.width)

        each(k, 0, rows, row, step=tiling.rows, parallel=tiling.parallel == "rows")

    def _all_panels(self, offsets: tuple[int, ...]) -> Panel:
        """Copies of all columns, panel by panel."""
        columns, width = self.columns, self.tiling.width
        assert isinstance(columns, int)
        panels = Panel(self, offsets, self.tiling.lanes, panels=-(-columns // width))

        def copy(first: DimLike) -> None:
            panels.number = first // width
            panels.fill(self.start(first, columns, width))

        each(self.k, 0, columns, copy, step=width)
        return panels

    def _panel(
        self, origin: DimLike, first: DimLike, offsets: tuple[int, ...], count: DimLike
    ) -> None:
        """Columns that share their vectors: ``count`` lanes of each are columns."""
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

        self._neighbours(origin, count, at)

    def _neighbours(self, first: DimLike, count: DimLike, body: Callable[[DimLike], None]) -> None:
        """Run a body once, with the index of a vectorised loop if there are vectors."""
        if self.tiling.lanes == 1:
            body(first)
        else:
            self.k.neighbours(first, count, self.tiling.lanes, body)

    def _rows(self, columns: Columns) -> None:
        rows, height = self.rows, self.tiling.rows
        shared = self.tiling.parallel == "rows"
        low, high = self._some_rows or (0, rows)

        def tile(first: DimLike) -> None:
            if self._strips is not None:
                self._strips.number = (first - low) // height
            self._tile(self.start(first, rows, height), first, height, columns)

        if isinstance(rows, int):
            each(self.k, low, high, tile, step=height, parallel=shared)
            return
        whole, rest = self._split(rows)
        each(self.k, 0, whole, tile, step=height, parallel=shared)
        once = self.in_place or shared

        def few(first: DimLike) -> None:
            self._tile(self.start(first, rows, _FEW), first, _FEW, columns, staged=once)

        each(self.k, whole, rest, few, step=_FEW)
        if not self._goes_alone:
            each(self.k, rest, rows, lambda i: self._tile(i, i, 1, columns))

    def _split(self, rows: DimLike) -> tuple[DimLike, DimLike]:
        """Where the tiles of unknown rows end, and the small ones after them; one row may be left."""
        height = self.tiling.rows
        if self.in_place or self.tiling.parallel == "rows":
            # Nothing may be written twice.
            whole = rows // height * height
        else:
            # Where more than half a tile is left, the last one overlaps.
            whole = (self.k.whole(rows, height) + (height - 1) // 2) // height * height
        return whole, whole + self.k.whole(rows - whole, _FEW) if height > _FEW else whole

    @property
    def _goes_alone(self) -> bool:
        """Whether a row that is left over has wide tiles of its own: two vectors of sums would wait for each other."""
        columns, width = self.columns, _WIDE * self.tiling.lanes
        even = isinstance(columns, int) and columns % width == 0
        return even and not (self.tiling.pack or self.tiling.vectors >= _WIDE)

    def _last_row(self) -> None:
        """A row that makes up no tile."""
        lanes = self.tiling.lanes
        offsets = tuple(range(0, _WIDE * lanes, lanes))

        def panel(row: DimLike, first: DimLike) -> None:
            def at(neighbours: DimLike) -> None:
                self._tile(row, row, 1, Columns(neighbours, first, first, offsets, None))

            self._neighbours(first, lanes, at)

        _, rest = self._split(self.rows)
        each(
            self.k,
            rest,
            self.rows,
            lambda row: each(self.k, 0, self.columns, lambda j: panel(row, j), step=_WIDE * lanes),
        )

    def _tile(
        self,
        origin: DimLike,
        first: DimLike,
        height: int,
        columns: Columns,
        *,
        staged: bool = False,
    ) -> None:
        offsets = columns.offsets
        zeros = [self.zero(self.tiling.lanes)] * (height * len(offsets))
        sums = self._sums(zeros, origin, first, height, columns)
        places = [(r, offset) for r in range(height) for offset in offsets]
        staged |= self.tiling.staged or (self.in_place and must_stage(self.problem, self.tiling))
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
            lanes=1 if self.problem.apart else self.tiling.lanes,
        )

    def _sums(
        self,
        init: Sequence[Value],
        origin: DimLike,
        first: DimLike,
        height: int,
        columns: Columns,
    ) -> Sequence[Value]:
        """What a tile's sums, which begin with ``init``, become: over what is copied, and then over the rest."""
        copies = [copy for copy in (columns.panel, self._strips) if copy is not None]
        if all(copy.depth == self.depth for copy in copies):
            return self._sums_over_depth(init, origin, first, height, columns)
        whole, strips = self.depth, self._strips
        ((filled,),) = {copy.depth for copy in copies}
        self.depth = (filled,)
        sums = self._sums_over_depth(init, origin, first, height, columns)
        self.depth, self._strips = whole, None
        step = self._step(origin, height, replace(columns, panel=None))
        sums = self.k.repeat(filled, whole[-1], lambda d, inner: step((d,), inner), sums)
        self._strips = strips
        return sums

    def _sums_over_depth(
        self,
        init: Sequence[Value],
        origin: DimLike,
        first: DimLike,
        height: int,
        columns: Columns,
    ) -> Sequence[Value]:
        """The same over what `depth` says."""
        tiling, deepest = self.tiling, self.depth[-1]
        step = self._step(origin, height, columns)
        if tiling.ahead:
            return self._looking_ahead(init, step, first, columns)
        if not tiling.fetch or len(self.depth) > 1:
            return self.over_depth(init, step, unroll=tiling.unroll)

        # A row of the tile before each group of turns: all at once would be in the way of what the sums read.
        known = isinstance(deepest, int)
        size = -(-deepest // height) if known else deepest // height
        even = not known or deepest == size * height

        def some(low: DimLike, high: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            return self.k.repeat(
                low, high, lambda d, inner: step((d,), inner), carried, unroll=tiling.unroll
            )

        def group(row: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            for offset in columns.offsets:
                self.fetch(self.index(origin + row, columns.origin + offset))
            low, end = row * size, (row + 1) * size
            return some(low, end if even else self.k.clamp(end, 0, deepest), carried)

        sums = self.k.repeat(0, height, group, init)
        return some(self.k.clamp(size * height, 0, deepest), deepest, sums)

    def _step(self, origin: DimLike, height: int, columns: Columns) -> Step:
        """What one depth adds to the sums of a tile."""
        reach = self.tiling.reach

        def step(depth: Index, carried: Sequence[Value]) -> Sequence[Value]:
            vectors = [self._vector(columns, offset, depth) for offset in columns.offsets]
            if reach:
                self.fetch_left(origin, (*depth[:-1], depth[-1] + reach))
            if self.tiling.follow:
                # As many elements as there are rows in each turn, so that all are there at the end.
                self.fetch_left(origin + height, (depth[-1] * height,))
            sums = []
            totals = iter(carried)
            for r in range(height):
                if self._strips is not None:
                    x = self._strips.load(depth, r)
                else:
                    x = self.left(origin + r, depth, lanes=self.tiling.lanes)
                sums += [self.multiply_add(x, y, next(totals)) for y in vectors]
            return sums

        return step

    def _looking_ahead(
        self, init: Sequence[Value], step: Step, first: DimLike, columns: Columns
    ) -> Sequence[Value]:
        """Sums over depth, in groups of turns; each group prefetches one depth of the next panel.

        A tile fetches as many as it has groups, from that on which its number among the panel's tiles says. Turns that
        make up no group come last.
        """
        size, width, deepest = self.tiling.ahead, self.tiling.width, self.depth[-1]
        groups = deepest // size
        start = first // self.tiling.rows * groups

        def some(low: DimLike, high: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            return self.k.repeat(low, high, lambda d, inner: step((d,), inner), carried)

        def group(n: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            for offset in columns.offsets:
                self._fetch_next(columns.origin + width, start + n, offset)
            return some(n * size, (n + 1) * size, carried)

        return some(groups * size, deepest, self.k.repeat(0, groups, group, init))

    def _fetch_next(self, origin: DimLike, turn: DimLike, offset: int) -> None:
        """Prefetch a vector of the columns from ``origin`` on, of which each turn takes as many elements as there are.

        Columns that run along depth are one piece of memory.
        """
        if self.problem.right[0] == 1:
            self.fetch_right(origin + offset, (turn,))
        else:
            self.fetch_right(origin, (turn * self.tiling.width + offset,))

    def _vector(self, columns: Columns, offset: int, depth: Index) -> Value:
        if columns.panel is not None:
            return columns.panel.load(depth, offset)
        return self.right(columns.neighbours + offset, depth)
