"""Loops for what `tapec.passes.contractions.sliding` finds: transforms, products of matrices, transforms back.

Of each tile of four by four elements all channels are transformed, in both directions by the same additions; so there
are sixteen matrices of tiles by channels. With the filters, transformed likewise, they are multiplied as any matrices
are, and from sixteen products come two by two sums. This is done for as many tiles at a time as a cache holds. The
sums wait in scratch: if one is not finite, those of the part are computed again, directly; then what follows is
written once for each.

For the gradient of a filter the roles change: elements and what the sums have become are transformed, their products
are added up over all parts, first in groups, and nine numbers of each filter come from sixteen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.loops.builder import LoopBuilder
from tapec.ir.op import Contraction, Index, Operand
from tapec.ir.types import INDEX, BufferType, Shape, TensorType
from tapec.passes.contractions.microkernel import Outer
from tapec.passes.contractions.problem import Machine, Workload
from tapec.passes.contractions.products import Form, Write, each, over, vectors
from tapec.passes.contractions.sliding import COVERED, SUMS, TAPS, columns_at_once, find
from tapec.passes.contractions.tiling import Tiling, candidates
from tapec.passes.contractions.transforms import (
    Square,
    both_directions,
    of_elements,
    of_filter,
    of_sums,
    to_sums,
    to_taps,
)

#: Groups of parts that have sums of their own, and bytes of all these sums, at most.
_MOST_GROUPS, _MOST_SUMS = 8, 1 << 20


@dataclass(frozen=True)
class Scratch:
    """A buffer as an operand."""

    k: LoopBuilder
    memory: Value

    @property
    def type(self) -> TensorType:
        """Dtype and shape."""
        assert isinstance(self.memory.type, BufferType)
        return self.memory.type.tensor

    def __getitem__(self, index: Index) -> Value:
        return self.k.load(self.memory, index)

    def prefetch(self, index: Index) -> None:
        """Prefetch an element."""
        self.k.prefetch(self.memory, index)


@dataclass(frozen=True)
class Tiles:
    """Tiles that are transformed together.

    ``first`` is the first one's number along both directions, ``batch`` its image's index; ``counts`` says how many
    images there are, and how many tiles in both directions.
    """

    batch: Index
    first: tuple[DimLike, DimLike]
    counts: tuple[int, int, int]

    def image(self, number: DimLike) -> Index:
        """The index into the batch of one of the images."""
        return (*self.batch[:-1], self.batch[-1] + number) if self.batch else ()


@dataclass(frozen=True)
class Tile:
    """A tile: its number among those of its part, its image's index, and where its sums begin.

    ``fresh`` says, for both directions, whether no other tile has the first of its sums, too.
    """

    number: DimLike
    image: Index
    corner: tuple[DimLike, DimLike]
    fresh: tuple[Value, Value]


class Transformed(Form):
    """A convolution whose tiling has a ``part``."""

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
        super().__init__(k, contraction, operands, write, tiling, in_place=in_place)
        left, right = (operand.type for operand in operands)
        found = find(contraction, left, right)
        assert found is not None
        self.of = found
        self.shared = tiling.parallel != ""
        self._contraction, self._operands = contraction, operands
        #: Channels, and columns that are made together, from ``first_column`` on.
        self.widths = found.widths[0], columns_at_once(found, left.dtype.bytes, tiling.lanes)
        self.first_column: DimLike = 0
        rows, across = found.tiles
        #: How many images a part has, and how many tiles in both directions.
        self.counts = (
            max(tiling.part // (rows * across), 1),
            min(max(tiling.part // across, 1), rows),
            min(tiling.part, across),
        )

    def lower(self) -> None:
        """Some columns after the other."""

        def some(first: DimLike) -> None:
            self.first_column = first
            self.product()

        each(self.k, 0, self.columns, some, step=self.widths[1])

    # ---- elements

    def element(self, operand: int, at: Mapping[int, DimLike]) -> Value:
        """An element of an operand, by the loops that it depends on; columns are counted from the first."""
        of = self.of
        if of.columns in at:
            at = {**at, of.columns: self.first_column + at[of.columns]}
        index = tuple(at.get(axis, 0) for axis in range(len(of.space)))
        return self._operands[operand][self._contraction.maps[operand](index)]

    def square(self, operand: int, size: int, tile: Tile, last: DimLike) -> Square:
        """Elements of an operand from a tile's corner on; ``last`` is the channel or column."""
        of = self.of
        axis = (of.channels, of.columns)[operand]
        fixed = {**dict(zip(of.batch, tile.image, strict=True)), axis: last}

        def one(a: int, b: int) -> Value:
            first, second = tile.corner
            return self.element(
                operand, fixed | {of.places[0]: first + a, of.places[1]: second + b}
            )

        return [[one(a, b) for b in range(size)] for a in range(size)]

    def cover(self, matrices: Value, tile: Tile) -> None:
        """Transform the elements that a tile covers, all channels."""

        def at(channel: DimLike) -> None:
            square = self.square(0, COVERED, tile, channel)
            self.put(both_directions(self.k, of_elements, square), matrices, (tile.number, channel))

        self.along(self.widths[0], at)

    # ---- matrices

    def matrices(self, rows: int, columns: int) -> Value:
        """Scratch for one matrix for each element of a transformed tile."""
        return self.scratch((COVERED * COVERED, rows, columns))

    def put(self, square: Square, matrices: Value, at: Index) -> None:
        """Store a square, each value into its matrix."""
        for a, row in enumerate(square):
            for b, value in enumerate(row):
                self.k.store(value, matrices, (a * COVERED + b, *at))

    def take(self, matrices: Value, at: Index) -> Square:
        """The inverse of `put`."""
        numbers = range(COVERED)
        return [[self.k.load(matrices, (a * COVERED + b, *at)) for b in numbers] for a in numbers]

    def multiply(
        self,
        sizes: tuple[int, int, int],
        operands: tuple[Value, Value],
        maps: tuple[Callable[[Index], Index], Callable[[Index], Index]],
        write: Write,
        *,
        adds: bool = False,
    ) -> None:
        """The products of sixteen matrices: rows, columns, depth. ``adds``: to what ``write`` stores into."""
        inner = Contraction((COVERED * COVERED, *sizes), 1, maps)
        given = [Scratch(self.k, buffer) for buffer in operands]
        rows, columns, _ = sizes

        def rank(pair: tuple[float, Tiling]) -> tuple[bool, float]:
            cost, tiling = pair
            even = rows % tiling.rows == 0 and columns % tiling.width == 0
            return adds and not even, cost

        left, right = (x.type for x in given)
        lanes = self.tiling.lanes
        machine = Machine.of(lanes * left.dtype.bytes, masked=self.k.masked)
        work = Workload(inner, left, right, lanes, machine)
        found = candidates(work)
        straight = (pair for pair in found if pair[1].form == "outer" and not pair[1].swapped)
        _, best = min(straight, key=rank)
        best = replace(best, parallel="", ahead=0)
        Outer(self.k, inner, given, write, best, in_place=adds).lower()

    # ---- loops

    def along(self, extent: int, body: Callable[[DimLike], None]) -> None:
        """Run a body for all vectors of neighbours."""
        lanes = self.tiling.lanes
        vectors(self.k, 0, extent, lanes, body, exact=extent % lanes == 0)

    def over(self, shape: Shape, body: Callable[[Index], None], *, parallel: bool = False) -> None:
        """Run a body for all vectors along the last axis."""
        *outer, last = shape

        def at(i: Index) -> None:
            assert isinstance(last, int)
            self.along(last, lambda n: body((*i, n)))

        over(self.k, tuple(outer), at, parallel=parallel)

    def turns(self) -> list[int]:
        """How many parts there are: along the batch's axes, along rows of tiles, and in one."""
        of = self.of
        extents = [of.space[axis] for axis in of.batch]
        images, rows, across = self.counts
        if extents:
            extents[-1] //= images
        return [*extents, of.tiles[0] // rows, of.tiles[1] // across]

    def parts(
        self,
        body: Callable[[Tiles], None],
        *,
        parallel: bool = False,
        group: tuple[DimLike, int] = (0, 1),
    ) -> None:
        """Run a body for all parts, or those of a group, which is given by its number and how many there are."""
        images, rows, across = self.counts
        extents = self.turns()
        shared = _longest(extents)
        extents[shared] //= group[1]

        def at(index: Index) -> None:
            places = list(index)
            places[shared] += group[0] * extents[shared]
            *batch, row, place = places
            if batch:
                batch[-1] = batch[-1] * images
            body(Tiles(tuple(batch), (row * rows, place * across), self.counts))

        over(self.k, tuple(extents), at, parallel=parallel)

    def each_tile(self, part: Tiles, body: Callable[[Tile], None]) -> None:
        """Run a body for the tiles of a part; the last ones of odd numbers overlap those before."""
        k, (_, rows, across) = self.k, part.counts
        high, wide = self.of.extents

        def at(i: Index) -> None:
            image, row, n = i
            first, second = (part.first[0] + row) * SUMS, (part.first[1] + n) * SUMS
            corner = self.start(first, high, SUMS), self.start(second, wide, SUMS)
            fresh = k.inside(first + 1, 0, high), k.inside(second + 1, 0, wide)
            body(Tile((image * rows + row) * across + n, part.image(image), corner, fresh))

        over(k, part.counts, at)

    def directly(self, index: Index) -> Value:
        """A vector of the result, summed up term by term."""
        *batch, row, column = index
        self._batch = tuple(batch)

        def step(depth: Index, carried: Sequence[Value]) -> Sequence[Value]:
            return (self.multiply_add(self.left(row, depth), self.right(column, depth), *carried),)

        lanes = self.k.active_lanes
        (total,) = self.over_depth([self.zero(lanes.count if lanes else 1)], step)
        return total

    def hand_on(
        self,
        shape: Shape,
        sums: Value,
        place: Callable[[Index], Index],
        outer: Callable[[Index], Index] = lambda i: i[:-1],
    ) -> None:
        """Hand on what waits in scratch; where one is not finite, which times 0 is not 0, all are made again.

        Args:
            shape: how many there are.
            sums: the scratch.
            place: where in it they are.
            outer: where in the result they belong, but for the column.
        """
        k = self.k

        def index(i: Index) -> Index:
            return (*outer(i), self.first_column + i[-1])

        total = k.reduce(
            "add", shape, self.dtype, lambda i: k.mul(k.load(sums, place(i)), self.zero())
        )
        wrong = k.cast(k.ne(total, total), dtype=INDEX)

        def again(_: DimLike) -> None:
            self.over(shape, lambda i: k.store(self.directly(index(i)), sums, place(i)))

        each(k, 0, k.position(wrong, 2), again)
        self.over(shape, lambda i: self._emit(index(i), k.load(sums, place(i))))


class Windows(Transformed):
    """Sums of windows."""

    def product(self) -> None:
        """Filters first, then part by part."""
        of, (channels, columns) = self.of, self.widths
        filters = self.matrices(channels, columns)

        def one(at: Index) -> None:
            fixed = {of.channels: at[0], of.columns: at[1]}
            taps = [
                [self.element(1, fixed | {of.taps[0]: a, of.taps[1]: b}) for b in range(TAPS)]
                for a in range(TAPS)
            ]
            self.put(both_directions(self.k, of_filter, taps), filters, at)

        self.over((channels, columns), one)
        self.parts(lambda part: self._part(part, filters), parallel=self.shared)

    def _part(self, part: Tiles, filters: Value) -> None:
        k, (channels, columns) = self.k, self.widths
        elements = self.matrices(prod(self.counts), channels)
        products = self.matrices(prod(self.counts), columns)
        self.each_tile(part, lambda tile: self.cover(elements, tile))
        self.multiply(
            (prod(self.counts), columns, channels),
            (elements, filters),
            (lambda i: (i[0], i[1], i[3]), lambda i: (i[0], i[3], i[2])),
            lambda i, value: k.store(value, products, i),
        )
        self._sum_up(part, products)

    def _sum_up(self, part: Tiles, products: Value) -> None:
        """Transform products back, and hand the sums on."""
        k, columns = self.k, self.widths[1]
        images, *tiles = part.counts
        # The last tile of an odd number begins one earlier, perhaps in front of the part.
        fronts = [extent % SUMS for extent in self.of.extents]
        lows = [first * SUMS for first in part.first]
        most = [SUMS * n for n in tiles]
        sums = self.scratch((images, most[0] + fronts[0], most[1] + fronts[1], columns))

        def sum_up(tile: Tile) -> None:
            image = tile.image[-1] - part.batch[-1] if part.batch else 0
            first, second = (
                at - low + front for at, low, front in zip(tile.corner, lows, fronts, strict=True)
            )

            def at(column: DimLike) -> None:
                square = both_directions(k, to_sums, self.take(products, (tile.number, column)))
                for a, row in enumerate(square):
                    for b, value in enumerate(row):
                        k.store(value, sums, (image, first + a, second + b, column))

            self.along(columns, at)

        self.each_tile(part, sum_up)
        counts = (
            k.clamp(low + n, 0, extent) - low
            for low, n, extent in zip(lows, most, self.of.extents, strict=True)
        )
        self.hand_on(
            (images, *counts, columns),
            sums,
            lambda i: (i[0], i[1] + fronts[0], i[2] + fronts[1], i[3]),
            lambda i: (*part.image(i[0]), lows[0] + i[1], lows[1] + i[2]),
        )


class Filters(Transformed):
    """Gradients of filters."""

    def product(self) -> None:
        """The sum over all parts, transformed back.

        Threads share groups of parts, each with sums of its own: what one has transformed another need not read. How
        many there are depends on the shape alone, and so does the order in which sums are added.
        """
        k = self.k
        every = (COVERED * COVERED, *self.widths)
        groups = self._groups(prod(every)) if self.shared else 1
        totals = self.scratch((groups, *every))
        type = BufferType(self.dtype, every)

        def group(number: DimLike) -> None:
            self._add_up((number, groups), k.view(totals, type, number))

        each(k, 0, groups, group, parallel=self.shared)
        if groups > 1:
            self.over(every, lambda i: self._join(totals, groups, i), parallel=self.shared)
        total = k.view(totals, type, 0)
        k.mutable(total)
        self._follow(total)

    def _groups(self, size: int) -> int:
        """How many groups of parts there are, each with so many sums."""
        turns = self.turns()
        most = min(_MOST_GROUPS, _MOST_SUMS // (size * self.dtype.bytes))
        return max((n for n in range(1, most + 1) if max(turns) % n == 0), default=1)

    def _add_up(self, group: tuple[DimLike, int], total: Value) -> None:
        """The sum over the parts of a group."""
        k, (channels, columns) = self.k, self.widths
        elements = self.matrices(prod(self.counts), channels)
        spread = self.matrices(prod(self.counts), columns)
        every = (COVERED * COVERED, channels, columns)
        self.over(every, lambda i: k.store(self.zero(), total, i))

        def both(tile: Tile) -> None:
            self.cover(elements, tile)
            self._spread(spread, tile)

        def add(i: Index, value: Value) -> None:
            k.store(k.add(k.load(total, i), value), total, i)

        def one(part: Tiles) -> None:
            self.each_tile(part, both)
            self.multiply(
                (channels, columns, prod(self.counts)),
                (elements, spread),
                (lambda i: (i[0], i[3], i[1]), lambda i: (i[0], i[3], i[2])),
                add,
                adds=True,
            )

        self.parts(one, group=group)

    def _join(self, totals: Value, groups: int, i: Index) -> None:
        """Add the sums of all groups to those of the first."""
        k = self.k
        value = k.load(totals, (0, *i))
        for number in range(1, groups):
            value = k.add(value, k.load(totals, (number, *i)))
        k.store(value, totals, (0, *i))

    def _spread(self, matrices: Value, tile: Tile) -> None:
        """Transform what two by two sums have become; what an overlapping tile has done already counts as 0."""
        k = self.k
        first, second = tile.fresh
        fresh: list[list[Value | None]] = [[k.and_(first, second), first], [second, None]]

        def at(column: DimLike) -> None:
            square = [
                [x if f is None else k.where(f, x, self.zero()) for x, f in zip(*rows, strict=True)]
                for rows in zip(self.square(1, SUMS, tile, column), fresh, strict=True)
            ]
            self.put(both_directions(k, of_sums, square), matrices, (tile.number, column))

        self.along(self.widths[1], at)

    def _follow(self, total: Value) -> None:
        """Hand on what the sums of products are, transformed back."""
        k, shape = self.k, (TAPS, TAPS, *self.widths)
        taps = self.scratch(shape)

        def back(i: Index) -> None:
            for a, row in enumerate(both_directions(k, to_taps, self.take(total, i))):
                for b, value in enumerate(row):
                    k.store(value, taps, (a, b, *i))

        self.over(self.widths, back)

        self.hand_on(shape, taps, tuple)


def _longest(extents: Sequence[int]) -> int:
    """The first axis with the most turns."""
    return max(range(len(extents)), key=extents.__getitem__)
