"""Products of matrices on devices: a block of threads makes a tile, from parts of the operands that it shares.

Each thread keeps `PART` times `PART` sums in registers; those that warps make by tensor cores are in
`tapec.passes.device.warp_tile`. For `DEEP` turns of the summed axes at a time, the threads copy what the tile needs of
both operands into shared memory, and wait for each other. There is room for two such parts of each operand: while one
is read, the next is on its way, in the background where four neighbours are copied as they are
(`tapec.ir.ops.device.CommitCopies`).

An operand whose neighbours in memory are along the summed axes is shared row by row, another one depth by depth, so
that neighbours stay neighbours. Where the last axes of a batch share the right operand, as a convolution's do its
kernel, they are more rows. Tiles at the edges compute with rows and columns inside instead, and do not store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS, Index
from tapec.ir.types import F32, BufferType, DType, Shape
from tapec.passes.contractions.problem import Problem
from tapec.passes.contractions.products import Form
from tapec.passes.contractions.tiling import Tiling

T = TypeVar("T")

#: Rows and columns of a thread's sums, and turns of the summed axes that are copied together.
PART, DEEP = 4, 16
#: Parts of an operand that there is room for.
_STAGES = 2
#: Tiles from which on a device is busy.
BUSY = 128
#: Multiply-adds below which a tile is not worth its barriers.
_SMALL = 1 << 15


def choose_tile(problem: Problem, *, tf32: bool = False) -> Tiling:
    """A tile for a product, or none where sizes are open, small, or it is no product of matrices.

    Tensor cores make those of 16-bit floats, whose products are exact there and are summed in float32 as elsewhere; of
    float32 only with ``tf32``, since they round its numbers.
    """
    extents = (*problem.batch, problem.rows, problem.columns, *problem.depth)
    static = all(isinstance(n, int) for n in extents)
    if not (static and problem.separable and problem.dtype.is_floating) or problem.work < _SMALL:
        return Tiling()
    rows, columns = _rows(problem), problem.columns
    assert isinstance(columns, int)
    if min(rows, columns) < 2 * PART:
        return Tiling()
    warps = problem.small or (tf32 and problem.dtype == F32)
    size = 32
    for larger in (64, 128) if warps else (64,):
        if tiles(problem, larger) >= BUSY and min(rows, columns) >= larger * 3 // 4:
            size = larger
    if warps:
        return Tiling(form="halves" if problem.small else "warps", rows=size)
    return Tiling(form="tile", rows=size)


def has_tiles(problem: Problem) -> bool:
    """Whether a product is made by tiles."""
    return choose_tile(problem).form in ("tile", "warps", "halves")


def tiles(problem: Problem, size: int = 32) -> int:
    """How many tiles a product has; they are small unless there are many."""
    across, down = -(-_count((problem.columns,)) // size), -(-_rows(problem) // size)
    return across * down * _count(_apart(problem))


def _apart(problem: Problem) -> Shape:
    """The axes of the batch of which each element is a product by itself."""
    return problem.batch[: len(problem.batch) - problem.alike]


def _merged(problem: Problem) -> Shape:
    """The axes of the batch that are more rows."""
    return problem.batch[len(problem.batch) - problem.alike :]


def _count(shape: Sequence[DimLike]) -> int:
    found = prod(shape)
    assert isinstance(found, int)
    return found


def _rows(problem: Problem) -> int:
    """All rows, with those of what shares the right operand."""
    assert isinstance(problem.rows, int)
    return problem.rows * _count(_merged(problem))


@dataclass(frozen=True)
class Shared:
    """Memory of the block with parts of an operand: ``rows`` of the left, or columns of the right one.

    ``along`` says that neighbours there are along the summed axes. The tile begins at ``start`` of all ``extent``.
    """

    buffer: Value
    rows: bool
    along: bool
    start: DimLike
    extent: int

    def place(self, stage: DimLike, at: DimLike, deep: DimLike) -> Index:
        """Where an element is of row or column ``at`` of the tile."""
        return (stage, at, deep) if self.along else (stage, deep, at)


class Tile(Form):
    """One tile by each block."""

    #: Turns of the summed axes that are copied together, and neighbours that a thread copies.
    deep, together = DEEP, PART
    #: Elements between what is shared of two rows, or of two depths: so a warp that reads eight of the one and four of
    #: the other finds each in another of the 32 banks.
    after_row, after_depth = 4, 8

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.tiling.rows // PART) ** 2

    @property
    def shared_dtype(self) -> DType:
        """The dtype of what is shared."""
        return self.sum_dtype

    def lower(self) -> None:
        """Deal the tiles out to blocks."""
        k, size = self.k, self.tiling.rows
        self._height, self._width = _rows(self.problem), _count((self.columns,))
        self._depth = _count(self.problem.depth)
        across, down = -(-self._width // size), -(-self._height // size)
        apart = _apart(self.problem)
        turns = across * down * _count(apart)
        k.function.attrs |= {"threads": self.threads, "turns": turns, "spread": "blocks"}
        thread = k.thread(self.threads)

        def tile(turn: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            first = self._unflat(turn // (across * down), apart)
            self._batch = (*first, *(0 for _ in _merged(self.problem)))
            row, column = turn // across % down * size, turn % across * size
            self._tile(row, column, thread)
            return ()

        k.repeat(0, turns, tile, over="blocks")

    def _tile(self, row: DimLike, column: DimLike, thread: DimLike) -> None:
        """The sums of a tile, and what becomes of them."""
        k = self.k
        left, right = self._shared(row, rows=True), self._shared(column, rows=False)
        parts = -(-self._depth // self.deep)

        def fetch(part: DimLike) -> None:
            for one in (left, right):
                self._copy(one, part)

        def some(part: DimLike, sums: Sequence[Value]) -> Sequence[Value]:
            k.effect(OPS["wait_copies"])
            # What is copied next takes the place of what all have read by now.
            k.effect(OPS["barrier"])
            self._if(k.clamp(parts - 1 - part, 0, 1), lambda: fetch(part + 1))
            k.effect(OPS["commit_copies"])
            return self.add(left, right, self._stage(part), thread, sums)

        cells = self.cells(thread)
        fetch(0)
        k.effect(OPS["commit_copies"])
        sums = k.repeat(0, parts, some, [self.zero()] * len(cells))
        k.effect(OPS["barrier"])
        for (down, across), value in zip(cells, sums, strict=True):
            self._put(row + down, column + across, value)

    def _if(self, once: DimLike, action: Callable[[], None]) -> None:
        """Do something once, or not at all."""

        def body(turn: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            action()
            return ()

        self.k.repeat(0, once, body)

    def _stage(self, part: DimLike) -> DimLike:
        """Where in what is shared a part of the summed axes is."""
        return part % _STAGES if self._depth > self.deep else 0

    def _shared(self, start: DimLike, *, rows: bool) -> Shared:
        """Memory for parts of an operand."""
        size, stages = self.tiling.rows, _STAGES if self._depth > self.deep else 1
        along = (self.problem.left if rows else self.problem.right)[1] == 1
        shape = (size, self.deep + self.after_row)
        if not along:
            shape = (self.deep, size + self.after_depth)
        buffer = self.k.shared(BufferType(self.shared_dtype, (stages, *shape)))
        return Shared(buffer, rows, along, start, self._height if rows else self._width)

    # ---- what a thread does

    def cells(self, thread: DimLike) -> list[tuple[DimLike, DimLike]]:
        """Rows and columns of a thread's sums in the tile."""
        down, across = self._corner(thread)
        return [(down + n // PART, across + n % PART) for n in range(PART**2)]

    def _corner(self, thread: DimLike) -> tuple[DimLike, DimLike]:
        wide = self.tiling.rows // PART
        return thread // wide * PART, thread % wide * PART

    def add(
        self, left: Shared, right: Shared, stage: DimLike, thread: DimLike, sums: Sequence[Value]
    ) -> Sequence[Value]:
        """Add what one part of the summed axes gives."""
        down, across = self._corner(thread)

        def some(deep: DimLike, sums: Sequence[Value]) -> Sequence[Value]:
            xs, ys = self._four(left, stage, down, deep), self._four(right, stage, across, deep)
            for n in range(PART):
                pairs = [(x[n], y[n]) for x in xs for y in ys]
                sums = [self.multiply_add(x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]
            return sums

        return self.k.repeat(0, DEEP, some, sums, step=PART)

    def _four(self, part: Shared, stage: DimLike, at: DimLike, deep: DimLike) -> list[list[Value]]:
        """Elements of `PART` rows or columns, each of as many depths; neighbours are read one after the other."""
        places = [(n, d) for n in range(PART) for d in range(PART)]
        places.sort(key=lambda place: place if part.along else place[::-1])
        found = {
            (n, d): self.k.load(part.buffer, part.place(stage, at + n, deep + d)) for n, d in places
        }
        return [[found[n, d] for d in range(PART)] for n in range(PART)]

    # ---- copies

    def _copy(self, part: Shared, number: DimLike) -> None:
        """Copy a part of the summed axes of an operand, neighbours at once if tiles come out even."""
        k, size = self.k, self.tiling.rows
        stage, first = self._stage(number), number * self.deep
        together = self.together if part.extent % size == 0 and self._is_even else 1
        many = (self.deep if part.along else size) // together

        def some(turn: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            other, begin = turn // many, turn % many * together
            at, deep = (other, begin) if part.along else (begin, other)
            places = [(0, n) if part.along else (n, 0) for n in range(together)]
            found = [self._element(part, part.start + at + n, first + deep, d) for n, d in places]
            for (n, d), value in zip(places, found, strict=True):
                k.store(value, part.buffer, part.place(stage, at + n, deep + d))
            return ()

        k.repeat(0, size * self.deep // together, some, over="threads")

    @property
    def _is_even(self) -> bool:
        """Whether no part of the summed axes is smaller."""
        return self._depth % self.deep == 0

    def _element(self, part: Shared, at: DimLike, deep: DimLike, more: int) -> Value:
        """An element of an operand; 0 where depth has ended, any inside where rows or columns have.

        It is ``more`` behind a depth; where neighbours are copied at once along the summed axes, behind the first.
        """
        k, depth, inside = self.k, self._depth, self._is_even
        if part.extent % self.tiling.rows:
            at = k.clamp(at, 0, part.extent - 1)
        elif inside and part.along and _count(self.problem.depth[-1:]) % self.together == 0:
            return self._operand(part, at, self._neighbour(deep, more))
        deep = deep + more
        index = self._unflat(deep if inside else k.clamp(deep, 0, depth - 1), self.problem.depth)
        value = self._operand(part, at, index)
        return value if inside else k.where(k.inside(deep, 0, depth), value, k.full_like(0, value))

    def _neighbour(self, deep: DimLike, more: int) -> Index:
        """The index of a depth that is ``more`` behind the first of some neighbours.

        These have the same index but for the last axis: so it shows that they follow each other.
        """
        group, shape = self.together, self.problem.depth
        *outer, last = self._unflat(deep // group, (*shape[:-1], shape[-1] // group))
        return (*outer, last * group + more)

    def _operand(self, part: Shared, at: DimLike, index: Index) -> Value:
        """An element of an operand by its row or column among all."""
        if part.rows:
            return self._in_batch(at, lambda row: self.left(row, index))
        return self.right(at, index)

    def _in_batch(self, at: DimLike, action: Callable[[DimLike], T]) -> T:
        """Do something with a row of an element of the batch, given its number among the rows of all."""
        merged = _merged(self.problem)
        if not merged:
            return action(at)
        outside = self._batch
        first = outside[: len(outside) - len(merged)]
        self._batch = (*first, *self._unflat(at // self.rows, merged))
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
