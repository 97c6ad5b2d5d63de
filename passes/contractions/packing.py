"""Copies of operand panels in scratch, and the shuffles that transpose and sum vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.loops.builder import LoopBuilder
from tapec.ir.op import OPS, Index
from tapec.ir.types import Shape
from tapec.passes.contractions.copies import room_for
from tapec.passes.contractions.products import Form, each, over

#: Bytes within which two vectors interleave fastest.
_GROUP = 16
#: Tiles whose rows are copied together: those of a line of the cache.
_TILES = 4


class Panel:
    """Some columns of a form's right operand, one row of scratch for each depth.

    ``offsets`` are the columns at which vectors start, counted from the panel's first column; if there are fewer
    columns than lanes, ``count`` of them are filled, the rest are zeros, or any columns if ``count`` is not known.
    There may be room for several panels; ``number`` is the one that is written or read. ``depth`` is what of the form's
    depth is in a panel: where nobody knows how much that is, as much as there is room for.
    """

    def __init__(
        self, form: Form, offsets: Sequence[int], count: DimLike, *, panels: int = 1
    ) -> None:
        """Take scratch; `fill` writes it."""
        self.form = form
        self.k = form.k
        self.offsets = offsets
        self.count = count
        self.lanes = form.tiling.lanes
        self.width = offsets[-1] + self.lanes
        self.depth, self._room = _copied(form, panels * self.width)
        self.number: DimLike = 0
        self.buffer = form.scratch((panels * self._room, self.width))

    def load(self, depth: Index, offset: int) -> Value:
        """A vector of the panel."""
        place = self.k.first_lane(self._flat(depth)), self.k.index(offset)
        (value,) = self.k.effect(OPS["load"], self.buffer, *place, lanes=self.lanes)
        return value

    def fill(self, first: DimLike) -> None:
        """Copy the columns from ``first`` on."""
        along_columns, along_depth = self.form.problem.right
        if along_columns == 1:
            self._copy(first)
            return
        deepest = self.form.depth[-1]
        assert isinstance(deepest, int)
        if along_depth == 1 and (self.k.masked or deepest >= self.lanes):
            self._transpose(first, deepest)
        else:
            self._copy_elements(first)

    def _column(self, column: DimLike) -> DimLike:
        """A column, or the last one for a place behind it."""
        known = isinstance(self.count, int)
        return column if known else self.k.clamp(column, 0, self.form.columns - 1)

    def _flat(self, depth: Index) -> DimLike:
        if len(depth) == 1:
            return self.number * self._room + depth[0]
        return self.form.flat(depth, self.number)

    def _store(self, value: Value, depth: Index, column: DimLike) -> None:
        place = self.k.first_lane(self._flat(depth)), self.k.first_lane(column)
        self.k.effect(OPS["store"], value, self.buffer, *place)

    def _copy(self, first: DimLike) -> None:
        def at(depth: Index) -> None:
            def all_vectors(n: DimLike) -> None:
                for offset in self.offsets:
                    self._store(self.form.right(n + offset, depth), depth, offset)

            self.k.neighbours(first, self.count, self.lanes, all_vectors)

        over(self.k, self.depth, at)

    def _copy_elements(self, first: DimLike) -> None:
        def at(depth: Index) -> None:
            def one(column: DimLike) -> None:
                self._store(self.form.right(first + column, depth), depth, column)

            columns = self.offsets[-1] + self.count
            each(self.k, 0, columns, one)
            each(self.k, columns, self.width, lambda c: self._store(self.form.zero(), depth, c))

        over(self.k, self.form.depth, at)

    def _transpose(self, first: DimLike, deepest: int) -> None:
        """Squares of as many columns as lanes; at the end of the last summed axis they overlap."""
        lanes = self.lanes
        used = min(deepest, lanes)

        def square(depth: Index, start: DimLike, offset: DimLike) -> None:
            def rows(d: DimLike) -> None:
                at = (*depth, d)
                filled = self.count if isinstance(self.count, int) else lanes
                vectors = [
                    self.form.right(self._column(first + offset + t), at) for t in range(filled)
                ]
                vectors += [self.form.zero(lanes)] * (lanes - filled)
                for t, vector in enumerate(transposed(self.k, vectors)[:used]):
                    self._store(vector, (*depth, start + t), offset)

            self.k.neighbours(start, used, lanes, rows)

        def at(depth: Index) -> None:
            def some_columns(column: DimLike) -> None:
                offset = self.k.clamp(column, 0, self.offsets[-1])
                each(
                    self.k,
                    0,
                    deepest,
                    lambda d: square(depth, self.k.clamp(d, 0, deepest - used), offset),
                    step=lanes,
                )

            each(self.k, 0, self.width, some_columns, step=lanes)

        over(self.k, self.form.depth[:-1], at)


def _copied(form: Form, width: int) -> tuple[Shape, int]:
    """What of a form's depth is copied with so many columns, and how many depths there is room for."""
    room = room_for(form.depth, width, form.sum_dtype.bytes)
    if all(isinstance(extent, int) for extent in form.depth):
        return form.depth, room
    return (form.k.clamp(form.depth[0], 0, room),), room


class Strips:
    """Rows of a form's left operand, copied tile by tile: what a tile reads at one depth is together.

    Rows that lie apart in depth by more than a page would else displace each other in the first cache, and each tile
    would read lines of which it needs some elements.
    """

    def __init__(self, form: Form, rows: int, width: int) -> None:
        """Take scratch for so many rows, and as much depth as panels of so many columns have; `fill` writes it."""
        self.form = form
        self.k = form.k
        self.height = form.tiling.rows
        self.lanes = min(form.tiling.lanes, 1 << (self.height - 1).bit_length())
        self.depth, deepest = _copied(form, width)
        self.tiles = -(-rows // self.height)
        # Vectors are stored whole; what is too much is overwritten by the next depth.
        room = deepest * self.height + -self.height % self.lanes
        self.buffer = form.scratch((self.tiles, room))
        self.number: DimLike = 0

    def load(self, depth: Index, row: int) -> Value:
        """An element of the tile ``number``."""
        return self.k.load(self.buffer, (self.number, self._place(depth) + row))

    def _place(self, depth: Index) -> DimLike:
        return (depth[0] if len(depth) == 1 else self.form.flat(depth)) * self.height

    def fill(self, low: DimLike, *, parallel: bool = False) -> None:
        """Copy the rows from ``low`` on, some tiles at a time, so that lines are read as seldom as they can be."""

        def some(first: DimLike) -> None:
            def at(depth: Index) -> None:
                for n in range(min(_TILES, self.tiles)):
                    self._copy(low, self.k.clamp(first + n, 0, self.tiles - 1), depth)

            over(self.k, self.depth, at)

        each(self.k, 0, self.tiles, some, step=_TILES, parallel=parallel)

    def _copy(self, low: DimLike, tile: DimLike, depth: Index) -> None:
        top = self.k.clamp(low + tile * self.height, 0, self.form.rows - self.height)
        for offset in range(0, self.height, self.lanes):
            count = min(self.height - offset, self.lanes)

            def store(row: DimLike, offset: int = offset) -> None:
                value = self.form.left(row, depth)
                place = self.k.first_lane(tile), self.k.first_lane(self._place(depth) + offset)
                self.k.effect(OPS["store"], value, self.buffer, *place)

            self.k.neighbours(top + offset, count, self.lanes, store)


def transposed(k: LoopBuilder, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square whose rows are vectors."""
    lanes = len(rows)
    group = max(1, min(_GROUP // rows[0].type.dtype.bytes, lanes))
    current = list(rows)
    run = 1
    while run < group:
        # Interleave runs of neighbours within groups of 16 bytes: the row's bit of weight ``run`` becomes a lane's.
        low, high = (_interleaved(lanes, group, run, half) for half in (0, 1))
        following: list[Value] = [current[0]] * lanes
        for base in range(0, lanes, 2 * run):
            for n in range(run):
                pair = current[base + n], current[base + n + run]
                following[base + 2 * n] = k.pure(OPS["shuffle"], *pair, mask=low)
                following[base + 2 * n + 1] = k.pure(OPS["shuffle"], *pair, mask=high)
        current, run = following, 2 * run
    while run < lanes:
        # Swap the blocks off the diagonal.
        low = tuple(n if not n & run else lanes + n - run for n in range(lanes))
        high = tuple(n + run if not n & run else lanes + n for n in range(lanes))
        for n in range(lanes):
            if not n & run:
                pair = current[n], current[n + run]
                current[n] = k.pure(OPS["shuffle"], *pair, mask=low)
                current[n + run] = k.pure(OPS["shuffle"], *pair, mask=high)
        run *= 2
    return current


def _interleaved(lanes: int, group: int, run: int, half: int) -> tuple[int, ...]:
    mask: list[int] = []
    for base in range(half * group // 2, lanes, group):
        for start in range(base, base + group // 2, run):
            mask += range(start, start + run)
            mask += range(lanes + start, lanes + start + run)
    return tuple(mask)


def sum_lanes(k: LoopBuilder, vectors: Sequence[Value]) -> Value:
    """The vector whose lane ``n`` is the sum of the lanes of ``vectors[n]``; there are as many vectors as lanes."""
    lanes = len(vectors)
    current = list(vectors)
    half = lanes // 2
    while half:
        # Each pair becomes one vector with both halves' sums, so that the numbers of vector and lane change places.
        low = tuple(n if not n & half else lanes + n - half for n in range(lanes))
        high = tuple(n + half if not n & half else lanes + n for n in range(lanes))
        count = len(current) // 2
        current = [
            k.add(
                k.pure(OPS["shuffle"], current[n], current[n + count], mask=low),
                k.pure(OPS["shuffle"], current[n], current[n + count], mask=high),
            )
            for n in range(count)
        ]
        half //= 2
    (total,) = current
    return total
