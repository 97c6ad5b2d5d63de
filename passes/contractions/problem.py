"""A contraction as a product of matrices, and what there is to know of the processor that computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tapec.ir.dims import DimLike, coefficient, symbol, symbols, typical
from tapec.ir.op import Contraction, Index
from tapec.ir.types import BufferType, DType, Shape, TensorType


@dataclass(frozen=True)
class Machine:
    """What the choice needs to know about a processor. The default is x86-64 with AVX-512.

    ``masked`` says whether masked loads and stores are instructions; ``level1`` is how many bytes stay in the first
    cache while others pass; ``ways`` how many lines of it may have the same address modulo ``set_span``; ``level2`` the
    bytes of the second cache: assumed, not asked for, since it decides how sums are cut, and a program that is built
    ahead has the bits of the one that is compiled here. Where it has half of that, steps were no faster for knowing.
    """

    registers: int = 32
    masked: bool = True
    ways: int = 8
    set_span: int = 4096
    level1: int = 24 * 1024
    level2: int = 1 << 20

    @classmethod
    def of(cls, vector_bytes: int, *, masked: bool) -> Machine:
        """A processor by its vectors: AVX-512 and NEON have 32 registers, what else there is has 16."""
        wide = vector_bytes >= 64 or (vector_bytes == 16 and not masked)
        return cls(registers=32 if wide else 16, masked=masked)


#: The default.
USUAL = Machine()


@dataclass(frozen=True)
class Workload:
    """What a choice of tiles rests on: a contraction, its operands, the processor, and what follows.

    ``lanes`` are the elements of the operands' dtype in a vector register, 1 for a processor without; ``weight`` the
    operations that follow on each element of the result, the store included; ``traffic`` the bytes that these read and
    write, element by element.
    """

    contraction: Contraction
    left: TensorType
    right: TensorType
    lanes: int
    machine: Machine = USUAL
    weight: int = 1
    traffic: int = 0

    def problem(self, *, swapped: bool = False) -> Problem:
        """The product of matrices, as `describe` has it."""
        return describe(self.contraction, self.left, self.right, swapped=swapped)


@dataclass(frozen=True)
class Problem:
    """A contraction as a product of matrices ``left[rows, depth]`` and ``right[depth, columns]``, for each of a batch.

    ``depth`` are the summed axes. Strides count elements between neighbours along rows (or columns) and along the last
    summed axis; None where they are not constant. ``swapped``: rows are the result's last axis, columns the one before.
    """

    batch: Shape
    rows: DimLike
    columns: DimLike
    depth: Shape
    dtype: DType
    left: tuple[int | None, int | None]
    right: tuple[int | None, int | None]
    #: No operand depends on the other's axis; otherwise it is no product of matrices.
    separable: bool
    #: All of the batch share the right operand.
    shared: bool
    swapped: bool = False
    #: How many of the batch's last axes share the right operand.
    alike: int = 0

    @property
    def small(self) -> bool:
        """Whether elements are floats of 16 bits, which are widened before they are multiplied."""
        return self.dtype.kind == "float" and self.dtype.bits < 32

    @property
    def apart(self) -> bool:
        """Whether results that are neighbours along columns are none in memory: they are written one by one."""
        return self.swapped and self.rows != 1

    @property
    def work(self) -> int:
        """Multiply-adds; of extents known only at run time, what they may be."""
        extents = (*self.batch, self.rows, self.columns, *self.depth)
        return prod(size(extent) for extent in extents)


def size(extent: DimLike) -> int:
    """An extent as a number to reckon with."""
    return extent if isinstance(extent, int) else typical(extent)


def describe(
    contraction: Contraction, left: TensorType, right: TensorType, *, swapped: bool = False
) -> Problem:
    """Find out what moves along rows, columns and depth."""
    space = contraction.space
    axes = tuple(symbol(f"axis{n}") for n in range(len(space)))
    last = len(space) - contraction.reduced
    row, column = (last - 1, last - 2) if swapped else (last - 2, last - 1)
    maps, types = contraction.maps, (left, right)
    places = [
        BufferType(t.dtype, t.shape).address(m(axes)) for t, m in zip(types, maps, strict=True)
    ]
    if swapped:
        places.reverse()

    def stride(operand: int, axis: int) -> int | None:
        (of,) = symbols(axes[axis])
        return coefficient(places[operand], of)

    deepest = len(space) - 1
    fixed = [stride(1, axis) == 0 for axis in range(last - 2)]
    return Problem(
        batch=space[: last - 2],
        rows=space[row],
        columns=space[column],
        depth=space[last:],
        dtype=left.dtype,
        left=(stride(0, row), stride(0, deepest)),
        right=(stride(1, column), stride(1, deepest)),
        separable=stride(0, column) == 0 and stride(1, row) == 0,
        shared=all(fixed),
        swapped=swapped,
        alike=next((n for n, is_fixed in enumerate(reversed(fixed)) if not is_fixed), len(fixed)),
    )


def turned(
    contraction: Contraction, left: TensorType, right: TensorType
) -> tuple[Contraction, int]:
    """The contraction with an axis of its batch as rows, and that axis; as it is, and -1, where that does not help.

    It helps where there is one row: those of the batch that do not read other elements of the right operand are one
    matrix. Of several such axes it is the last.
    """
    last = len(contraction.space) - contraction.reduced
    for axis in reversed(range(last - 2)) if contraction.space[last - 2] == 1 else ():
        other, _ = exchanged(contraction, axis)
        problem = describe(other, left, right)
        if problem.rows != 1 and problem.separable and problem.left[0] is not None:
            return other, axis
    return contraction, -1


def exchanged(contraction: Contraction, axis: int) -> tuple[Contraction, Callable[[Index], Index]]:
    """The contraction with its rows and an axis of its batch exchanged, and the index with them exchanged."""
    row = len(contraction.space) - contraction.reduced - 2

    def swap(index: Index) -> Index:
        places = list(index)
        places[axis], places[row] = places[row], places[axis]
        return tuple(places)

    first, second = contraction.maps
    maps = (lambda i: first(swap(i))), (lambda i: second(swap(i)))
    return contraction._replace(space=swap(contraction.space), maps=maps), swap
