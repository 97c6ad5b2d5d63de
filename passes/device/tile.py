"""Products of matrices on devices: a block of threads makes a tile, from parts of the operands that it shares.

Each thread keeps `PART` times `PART` sums in registers. For `DEEP` turns of the summed axes at a time, the threads copy
what the tile needs of both operands into shared memory, in an order in which neighbouring threads read neighbouring
elements, and wait for each other. Where all of a batch share the right operand, as a convolution's do its kernel, the
batch is more rows. Tiles at the edges compute with rows and columns inside instead, and do not store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeVar

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS, Index
from tapec.ir.types import BufferType
from tapec.passes.contractions.products import Form
from tapec.passes.contractions.tiling import Problem, Tiling

T = TypeVar("T")

#: Rows and columns of a thread's sums, and turns of the summed axes that are copied together.
PART, DEEP = 4, 16
#: Elements between the rows of what is shared, so that they begin in other banks.
_PADDING = 4
#: Tiles from which on a device is busy.
_BUSY = 128
#: Multiply-adds below which a tile is not worth its barriers.
_SMALL = 1 << 15


def choose_tile(problem: Problem) -> Tiling:
    """A tile for a product, or none where sizes are open, small, or it is no product of matrices."""
    extents = (*problem.batch, problem.rows, problem.columns, *problem.depth)
    static = all(isinstance(n, int) for n in extents)
    if not (static and problem.separable and problem.dtype.is_floating) or problem.work < _SMALL:
        return Tiling()
    rows, columns = _rows(problem), problem.columns
    assert isinstance(columns, int)
    if min(rows, columns) < 2 * PART:
        return Tiling()
    tiles = -(-rows // 64) * -(-columns // 64) * (1 if problem.shared else _count(problem.batch))
    size = 64 if tiles >= _BUSY and min(rows, columns) >= 48 else 32
    return Tiling(form="tile", rows=size)


def tiles(rows: int, columns: int) -> int:
    """How many tiles a product has, of those that it has if it is small."""
    return -(-rows // 32) * -(-columns // 32)


def _count(shape: Sequence[DimLike]) -> int:
    found = prod(shape)
    assert isinstance(found, int)
    return found


def _rows(problem: Problem) -> int:
    """All rows, with those of a batch that shares the right operand."""
    assert isinstance(problem.rows, int)
    return problem.rows * (_count(problem.batch) if problem.shared else 1)


class Tile(Form):
    """One tile by each block."""

    def lower(self) -> None:
        """Deal the tiles out to blocks."""
        k, size = self.k, self.tiling.rows
        self._height, self._width = _rows(self.problem), _count((self.columns,))
        across, down = -(-self._width // size), -(-self._height // size)
        turns = across * down * (1 if self.problem.shared else _count(self.problem.batch))
        threads = (size // PART) ** 2
        k.function.attrs |= {"threads": threads, "turns": turns, "spread": "blocks"}
        thread = k.thread(threads)

        def tile(turn: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            if not self.problem.shared:
                self._batch = self._unflat(turn // (across * down), self.problem.batch)
            row, column = turn // across % down * size, turn % across * size
            self._tile(row, column, thread)
            return ()

        k.repeat(0, turns, tile, over="blocks")

    def _tile(self, row: DimLike, column: DimLike, thread: DimLike) -> None:
        """The sums of a tile, and what becomes of them."""
        k, size = self.k, self.tiling.rows
        left, right = (k.shared(BufferType(self.sum_dtype, (DEEP, size + _PADDING))) for _ in "ab")
        down, across = thread // (size // PART) * PART, thread % (size // PART) * PART
        depth = _count(self.problem.depth)

        def some(first: DimLike, sums: Sequence[Value]) -> Sequence[Value]:
            self._copy(left, row, first, rows=True)
            self._copy(right, column, first, rows=False)
            k.effect(OPS["barrier"])
            sums = k.repeat(
                0, DEEP, lambda d, s: self._step((left, right), d, (down, across), s), sums
            )
            k.effect(OPS["barrier"])
            return sums

        sums = k.repeat(0, depth, some, [self.zero()] * PART**2, step=DEEP)
        for n, value in enumerate(sums):
            self._put(row + down + n // PART, column + across + n % PART, value)

    def _step(
        self, shared: tuple[Value, Value], depth: DimLike, at: Index, sums: Sequence[Value]
    ) -> list[Value]:
        """One turn of the summed axes for all sums of a thread."""
        xs, ys = (
            [self.k.load(buffer, (depth, start + n)) for n in range(PART)]
            for buffer, start in zip(shared, at, strict=True)
        )
        pairs = [(x, y) for x in xs for y in ys]
        return [self.multiply_add(x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]

    def _copy(self, buffer: Value, start: DimLike, first: DimLike, *, rows: bool) -> None:
        """Copy a part of an operand, along what is contiguous there, neighbours at once if tiles come out even."""
        k, size = self.k, self.tiling.rows
        extent, depth = (self._height if rows else self._width), _count(self.problem.depth)
        along = (self.problem.left if rows else self.problem.right)[1] == 1
        if extent % size == 0 and depth % DEEP == 0:
            self._copy_whole(buffer, start, first, rows=rows, along=along)
            return

        def one(turn: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            place, deep = (turn // DEEP, turn % DEEP) if along else (turn % size, turn // size)
            at = k.clamp(start + place, 0, extent - 1) if extent % size else start + place
            d = k.clamp(first + deep, 0, depth - 1) if depth % DEEP else first + deep
            value = self._element(at, d, rows=rows)
            if depth % DEEP:
                value = k.where(k.inside(first + deep, 0, depth), value, self.zero())
            k.store(value, buffer, (deep, place))
            return ()

        k.repeat(0, size * DEEP, one, over="threads")

    def _copy_whole(
        self, buffer: Value, start: DimLike, first: DimLike, *, rows: bool, along: bool
    ) -> None:
        """The same where everything is inside: `PART` neighbours in each turn."""
        k, size = self.k, self.tiling.rows
        many = (DEEP if along else size) // PART

        def some(turn: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            other, begin = turn // many, turn % many * PART
            places = [(other, begin + n) if along else (begin + n, other) for n in range(PART)]
            values = [self._element(start + p, first + d, rows=rows) for p, d in places]
            for (place, deep), value in zip(places, values, strict=True):
                k.store(value, buffer, (deep, place))
            return ()

        k.repeat(0, size * DEEP // PART, some, over="threads")

    def _element(self, at: DimLike, depth: DimLike, *, rows: bool) -> Value:
        """An element of an operand, by its row or column among all."""
        index = self._unflat(depth, self.problem.depth)
        if not rows:
            return self.right(at, index)
        return self._in_batch(at, lambda row: self.left(row, index))

    def _in_batch(self, at: DimLike, action: Callable[[DimLike], T]) -> T:
        """Do something with a row of an element of the batch, given its number among the rows of all."""
        if not self.problem.shared or not self.problem.batch:
            return action(at)
        outside = self._batch
        self._batch = self._unflat(at // self.rows, self.problem.batch)
        result = action(at % self.rows)
        self._batch = outside
        return result

    def _put(self, row: DimLike, column: DimLike, value: Value) -> None:
        """Hand a sum on, if it is inside of the result."""
        size = self.tiling.rows
        guards = []
        if self._height % size:
            guards.append(self.k.clamp(self._height - row, 0, 1))
            row = self.k.clamp(row, 0, self._height - 1)
        if self._width % size:
            guards.append(self.k.clamp(self._width - column, 0, 1))
            column = self.k.clamp(column, 0, self._width - 1)

        def inside(index: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            if guards:
                self.k.repeat(0, guards.pop(), inside)
            else:
                self._in_batch(row, lambda r: self.write(r, column, value))
            return ()

        inside(0, ())

    @staticmethod
    def _unflat(number: DimLike, shape: Sequence[DimLike]) -> Index:
        """The index that a number is in a shape, row-major."""
        found: list[DimLike] = []
        for n, extent in enumerate(reversed(shape)):
            found.append(number if n == len(shape) - 1 else number % extent)
            number = number // extent
        return tuple(reversed(found))
