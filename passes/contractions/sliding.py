"""Convolutions with filters of three by three that are multiplied as Winograd has it: which, and in what parts.

Where windows of three elements move by one, two neighbouring sums take four products, not six, once the four elements
that the windows cover and the three of the filter went through transforms of a few additions: Winograd, "Arithmetic
complexity of computations", 1980; Lavin, Gray, "Fast algorithms for convolutional neural networks", 2016, section 4.1.
In two directions that is 16 products for four sums, not 36. The gradient of a filter is the same the other way round.
`find` recognises both forms by their operand maps, `choose` says where it pays, `tapec.passes.contractions.winograd`
writes loops.

A sum rests on the elements of its own window alone, as if it were added up directly: with the transforms of two sums,
whatever else a tile holds does not come in at all. Its rounding error is at most that of a sum of terms 16 times as
large; in practice it is no larger than the direct sum's, whose chain of additions is nine times as long. Only where a
window holds an infinity, or sums overflow, may NaN stand for an infinity: what is not finite is computed once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tapec.ir.dims import Dim, DimLike, Symbol, coefficient, symbol, symbols
from tapec.ir.op import Contraction
from tapec.ir.types import BufferType, TensorType
from tapec.passes.contractions.problem import Machine, Workload
from tapec.passes.contractions.tiling import Tiling

#: Elements of a window along each direction, sums of a tile, and the elements that their windows cover.
TAPS, SUMS, COVERED = 3, 2, 4
#: Multiply-adds from which on a convolution is worth so much code.
_LEAST_WORK = 1 << 22
#: Bytes of transformed filters that are kept together.
_MOST_FILTERS = 1 << 20
#: Part of the direct way's cycles below which the other is taken.
_WORTH = 0.85
#: Cycles of transforms, by vector of a tile or filter: additions, loads and stores.
_ELEMENTS, _SUMS, _FILTER = 50, 60, 50


@dataclass(frozen=True)
class Sliding:
    """A convolution as the algorithm sees it; numbers are axes of the iteration space.

    ``places`` are the two along which windows stand, ``taps`` those within a window, ``batch`` what else the first
    operand has beside ``channels``, along which it is contiguous. ``columns`` is the second operand's last axis.
    ``gradient``: of a filter; the result is ``taps``, ``channels``, ``columns``, and the rest is summed over.
    Otherwise it is ``batch``, ``places``, ``columns``.
    """

    space: tuple[int, ...]
    places: tuple[int, int]
    taps: tuple[int, int]
    batch: tuple[int, ...]
    channels: int
    columns: int
    gradient: bool

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows of tiles, and tiles in one."""
        first, second = (-(-extent // SUMS) for extent in self.extents)
        return first, second

    @property
    def extents(self) -> tuple[int, int]:
        """Places along both directions."""
        first, second = (self.space[axis] for axis in self.places)
        return first, second

    @property
    def widths(self) -> tuple[int, int]:
        """How many channels and columns there are."""
        return self.space[self.channels], self.space[self.columns]

    @property
    def count(self) -> int:
        """Images in the batch."""
        return prod(self.space[axis] for axis in self.batch)


def find(contraction: Contraction, left: TensorType, right: TensorType) -> Sliding | None:
    """What slides over what; None if the convolution has another form."""
    space = contraction.space
    if not all(isinstance(n, int) for n in space) or left.dtype.code not in ("f32", "f64"):
        return None
    axes = tuple(symbol(f"axis{n}") for n in range(len(space)))
    number = {next(symbols(axis)): n for n, axis in enumerate(axes)}
    first, second = (_axes(m(axes), number) for m in contraction.maps)
    if first is None or second is None or any(len(parts) != 1 for parts in second):
        return None
    results = len(space) - contraction.reduced
    pairs = [sorted(parts) for parts in first if len(parts) == 2]
    whole = all(len(parts) in (1, 2) for parts in first) and len(first) > 2
    if len(pairs) != 2 or not whole or any(not low < results <= high for low, high in pairs):
        return None
    lows, highs = zip(*pairs, strict=True)
    *batch, channels = (parts[0] for parts in first if len(parts) == 1)
    for places, taps in ((lows, highs), (highs, lows)):
        gradient = places == highs
        sizes = tuple(int(str(n)) for n in space)
        found = Sliding(sizes, places, taps, tuple(batch), channels, results - 1, gradient)
        operands = zip((left, right), contraction.maps, (channels, found.columns), strict=True)
        near = all(_stride(t, m(axes), axes[axis]) == 1 for t, m, axis in operands)
        if near and _fits(found, [parts[0] for parts in second], results):
            return found
    return None


def _axes(index: Sequence[DimLike], number: dict[Symbol, int]) -> list[tuple[int, ...]] | None:
    """For each axis of an operand the loops whose sum it is; None if it is anything else."""
    found = []
    for i in index:
        if not isinstance(i, Dim) or any(factor != 1 or len(m) != 1 for m, factor in i.terms):
            return None
        found.append(tuple(number[s] for s in symbols(i)))
    return found


def _stride(type: TensorType, index: Sequence[DimLike], axis: DimLike) -> int | None:
    (of,) = symbols(axis)
    return coefficient(BufferType(type.dtype, type.shape).address(tuple(index)), of)


def _fits(found: Sliding, second: Sequence[int], results: int) -> bool:
    """Whether the axes of result and second operand are those of the form, in its order."""
    least = min(found.extents) >= SUMS and all(found.space[axis] == TAPS for axis in found.taps)
    order: tuple[int, ...]
    if found.gradient:
        order = (*found.taps, found.channels, found.columns)
        reads = {*found.batch, *found.places, found.columns}
    else:
        order = (*found.batch, *found.places, found.columns)
        reads = {*found.taps, found.channels, found.columns}
    straight = order == tuple(range(results))
    return least and straight and set(second) == reads and second[-1] == found.columns


def choose(work: Workload, direct: Tiling) -> Tiling:
    """The tiling ``direct``, with ``part`` set where the algorithm is faster."""
    contraction, machine, lanes = work.contraction, work.machine, direct.lanes
    products = prod(n for n in contraction.space if isinstance(n, int))
    # Where registers are few and short, a tile stays in memory, and what else there is on a stack is little.
    short = lanes < (4 if machine.registers > COVERED * COVERED else 8)
    if direct.form != "outer" or direct.swapped or short or products < _LEAST_WORK:
        return direct
    found = find(contraction, work.left, work.right)
    bytes = work.left.dtype.bytes
    some = 0 if found is None else columns_at_once(found, bytes, lanes)
    if found is None or not some or _cycles(found, some, lanes) > _WORTH * products / (2 * lanes):
        return direct
    part = _part(found, some, bytes, machine)
    simple = replace(direct, staged=False, across=False, block=0, part=part, parallel="batch")
    return replace(simple, fetch=False, ahead=0, reach=0, follow=False, turn=-1)


def _cycles(found: Sliding, some: int, lanes: int) -> float:
    """Cycles of a processor that starts two multiply-adds in each, with ``some`` columns at a time."""
    channels, columns = found.widths
    # Vectors of channels, and of columns; the last of either may not be full.
    first, second = -(-channels // lanes), -(-columns // lanes)
    products = 1.1 * COVERED * COVERED * channels * second / 2
    tile = products + _ELEMENTS * first * (columns // some) + _SUMS * second
    return found.count * prod(found.tiles) * tile + _FILTER * channels * second


def columns_at_once(found: Sliding, bytes: int, lanes: int) -> int:
    """Columns whose transformed filters are kept together: all, or whole vectors; 0 if there is no room for them."""
    channels, columns = found.widths
    each = COVERED * COVERED * channels * bytes
    some = [columns, *(n for n in range(lanes, columns, lanes) if columns % n == 0)]
    return max((n for n in some if n * each <= _MOST_FILTERS), default=0)


def _part(found: Sliding, columns: int, bytes: int, machine: Machine) -> int:
    """Tiles that are transformed together, for so many columns: what fits into the second cache.

    They divide a row, or are rows that divide an image, or images that divide the batch.
    """
    sums = 0 if found.gradient else SUMS * SUMS
    each = (COVERED * COVERED * (found.widths[0] + columns) + sums * columns) * bytes
    rows, across = found.tiles
    images = found.space[found.batch[-1]] if found.batch else 1
    parts = [*_divisors(across), *(n * across for n in _divisors(rows))]
    parts += [n * rows * across for n in _divisors(images)]
    return max(n for n in parts if n == 1 or n * each <= 3 * machine.level2 // 8)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
